package penstocktest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/penstocktest"
	"github.com/penstockhq/penstock/store"
)

type order struct{ ID int }

func client(t *testing.T) *penstock.Client {
	t.Helper()
	c := penstocktest.NewClient(t, penstock.Config{Limits: map[string]string{"api": "1/m"}})
	err := penstock.Handle(c, "ship", func(ctx context.Context, j *penstock.Job[order]) error {
		switch j.Args.ID {
		case 1:
			if _, err := c.Enqueue(ctx, "notify", j.Args, penstock.Delay(time.Hour)); err != nil {
				return err
			}
			return j.SetResult("shipped")
		case 2:
			return penstock.RateLimited(time.Minute)
		case 3:
			return penstock.Permanent(errors.New("no such order"))
		}
		return penstock.RetryIn(time.Hour, errors.New("not yet"))
	}, penstock.Kind{Limits: penstock.Draws("api")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRun(t *testing.T) {
	for id, want := range map[int]penstocktest.Result{
		1: {Outcome: store.OutcomeDone, Value: []byte(`"shipped"`)},
		2: {Outcome: store.OutcomeThrottled, Refused: "api", Pause: time.Minute, Error: "rate limited by the API for 1m0s"},
		3: {Outcome: store.OutcomeDead, Reason: store.Rejected, Error: "no such order"},
		4: {Outcome: store.OutcomeRetry, Wait: time.Hour, Error: "not yet"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := client(t)
			got := penstocktest.Run(t, c, "ship", order{ID: id})
			if got.Outcome != want.Outcome || got.Reason != want.Reason || got.Error != want.Error || got.Wait != want.Wait ||
				got.Refused != want.Refused || got.Pause != want.Pause || string(got.Value) != string(want.Value) {
				t.Errorf("order %d: got %+v, want %+v", id, got, want)
			}
			if got.Job.ID == 0 || got.Job.Starts != 1 {
				t.Errorf("order %d: job %+v", id, got.Job)
			}
		})
	}
}

func TestDrainAndEnqueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t)
		begun := time.Now()
		for range 3 {
			if _, err := c.Enqueue(t.Context(), "ship", order{ID: 1}); err != nil {
				t.Fatal(err)
			}
		}
		penstocktest.Drain(t, c)
		if d := time.Since(begun); d < 2*time.Minute || d > 3*time.Minute {
			t.Errorf("three calls at one a minute took %v", d)
		}
		jobs := penstocktest.Enqueued(t, c, "notify")
		if len(jobs) != 3 {
			t.Fatalf("%d jobs were enqueued", len(jobs))
		}
		if got := penstocktest.Payload[order](t, jobs[0]); got.ID != 1 {
			t.Errorf("payload %+v", got)
		}
	})
}

// refusing is a testing.TB that notes why Run failed the test, and ends the goroutine as
// a test's own does.
type refusing struct {
	testing.TB
	said string
}

func (r *refusing) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestRunFailsWhatCannotStart: Run waited for ever for a job that was there before,
// that nobody handles, or whose limit or queue is paused.
func TestRunFailsWhatCannotStart(t *testing.T) {
	for want, run := range map[string]func(tb testing.TB, c *penstock.Client){
		"no job was enqueued: job 1, which is waiting, has the unique key": func(tb testing.TB, c *penstock.Client) {
			if _, err := c.Enqueue(tb.Context(), "ship", order{ID: 1}, penstock.Unique("a"), penstock.Delay(time.Hour)); err != nil {
				tb.Error(err)
			}
			penstocktest.Run(tb, c, "ship", order{ID: 1}, penstock.Unique("a"))
		},
		"no live worker runs its kind": func(tb testing.TB, c *penstock.Client) {
			penstocktest.Run(tb, c, "shop", order{ID: 1})
		},
		"limit api (1/m): paused": func(tb testing.TB, c *penstock.Client) {
			if err := c.PauseLimit(tb.Context(), "api", time.Time{}, "test"); err != nil {
				tb.Error(err)
			}
			penstocktest.Run(tb, c, "ship", order{ID: 1})
		},
		"its queue is paused: test": func(tb testing.TB, c *penstock.Client) {
			if err := c.Store().PauseQueue(tb.Context(), "default", "test"); err != nil {
				tb.Error(err)
			}
			penstocktest.Run(tb, c, "ship", order{ID: 1})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			tb := &refusing{TB: t}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				run(tb, client(t))
			}()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatalf("Run waits, expected %q", want)
			}
			if !strings.Contains(tb.said, want) {
				t.Errorf("said %q, expected %q", tb.said, want)
			}
		})
	}
}
