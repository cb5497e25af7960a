package penstocktest_test

import (
	"context"
	"errors"
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
