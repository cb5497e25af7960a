package system

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// TestB5_OneClockDecides: due times and leases were stamped by one machine's
// clock and judged by another's, so a fast clock stole live leases and ran jobs
// early (Krzysztof318/MailFathom#1989, johanhaleby/occurrent#659, fluxcd/flux#430).
func TestB5_OneClockDecides(t *testing.T) {
	const five = 5 * time.Minute
	for _, clocks := range [][2]time.Duration{{0, five}, {0, -five}, {five, -five}} {
		t.Run(clocks[0].String()+" "+clocks[1].String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { twoClocks(t, clocks) })
		})
	}
}

// twoClocks has two processes, whose clocks are ahead of the store's by so much,
// enqueue and run jobs of 90 s and jobs due in 3 minutes.
func twoClocks(t *testing.T, ahead [2]time.Duration) {
	const each, took, wait = 10, 90 * time.Second, 3 * time.Minute
	st := memory.New(memory.Options{})
	began := time.Now()
	var mu sync.Mutex
	starts := map[int64]int{}
	ran := map[int]int{} // by process
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	for p, by := range ahead {
		c, err := penstock.New(skewed{st, by}, penstock.Config{
			Lease: time.Minute, Limits: map[string]string{"api": "100/s"},
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		note := func(j *penstock.RawJob) {
			mu.Lock()
			defer mu.Unlock()
			starts[j.ID]++
			ran[p]++
		}
		k := penstock.Kind{Limits: penstock.Draws("api"), Timeout: -1}
		err = penstock.Handle(c, "long", func(ctx context.Context, j *penstock.RawJob) error {
			note(j)
			select {
			case <-time.After(took):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, k)
		if err != nil {
			t.Fatal(err)
		}
		err = penstock.Handle(c, "later", func(_ context.Context, j *penstock.RawJob) error {
			note(j)
			if d := time.Since(began); d < wait-time.Second || d > wait+time.Second {
				t.Errorf("a job due in %v ran after %v, in the process that is %v ahead", wait, d, by)
			}
			return nil
		}, k)
		if err != nil {
			t.Fatal(err)
		}
		for range each {
			for kind, delay := range map[string]time.Duration{"long": 0, "later": wait} {
				if _, err := c.Enqueue(t.Context(), kind, []byte("x"), penstock.Delay(delay)); err != nil {
					t.Fatal(err)
				}
			}
		}
		working.Go(func() {
			err := c.Work(ctx, penstock.WorkOptions{Concurrency: each, OnEnd: func(e *penstock.End) {
				if e.Outcome == store.OutcomeLost || !e.Recorded {
					t.Errorf("job %d lost its lease, as the process saw that is %v ahead", e.Job.ID, by)
				}
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-time.After(wait + 4*took) // in virtual time
	synctest.Wait()

	mu.Lock()
	defer mu.Unlock()
	js, err := st.Jobs(t.Context(), store.Filter{States: []store.State{store.Done}, N: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(js) != 4*each {
		t.Errorf("%d jobs are done, expected %d", len(js), 4*each)
	}
	for id, n := range starts {
		if n != 1 {
			t.Errorf("job %d ran %d times", id, n)
		}
	}
	if ran[0] == 0 || ran[1] == 0 {
		t.Errorf("the processes ran %d and %d jobs: one took no part", ran[0], ran[1])
	}
}
