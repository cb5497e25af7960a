package penstock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// many enqueues so many jobs of kind "call".
func many(t *testing.T, c *penstock.Client, n int, draws ...penstock.Draw) (ids []int64) {
	t.Helper()
	jobs := make([]penstock.NewJob, n)
	for i := range jobs {
		jobs[i] = penstock.NewJob{Kind: "call", Payload: i, Limits: draws}
	}
	done, err := c.EnqueueMany(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range done {
		ids = append(ids, d.ID)
	}
	return ids
}

// A worker whose handlers are short fetches some jobs ahead, in few claims, and leaves
// the others to others. Those that it has are given back once a handler takes long.
func TestFetchesSomeAhead(t *testing.T) {
	for name, draws := range map[string][]penstock.Draw{"without limits": nil, "under a limit": {{Limit: "api", Cost: 1}}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				f := &faulty{Store: memory.New(memory.Options{})}
				c := clientOver(t, f, penstock.Config{Limits: map[string]string{"api": "1000000/s"}})
				var ran atomic.Int64
				long := make(chan bool)
				handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
					<-time.After(100 * time.Microsecond)
					if ran.Add(1) == 200 {
						<-long
					}
					return nil
				})
				many(t, c, 5000, draws...)
				working(t, c, penstock.WorkOptions{Concurrency: 1})
				for ran.Load() < 200 {
					pass(time.Millisecond)
				}
				holds := func() int64 {
					ws, err := f.Workers(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return ws[0].Holds
				}
				claims, _, _ := f.counts()
				if n := holds(); n > 250 || claims > 150 {
					t.Errorf("holds %d of 5000 jobs after 200 and %d claims", n, claims)
				}
				pass(1500 * time.Millisecond)
				before, _, _ := f.counts()
				if n := holds(); n != 1 {
					t.Errorf("holds %d jobs while a handler takes long, want its job alone", n)
				}
				pass(10 * time.Second)
				if now, _, _ := f.counts(); now-before > 20 {
					t.Errorf("%d claims while the only place is taken", now-before)
				}
				close(long)
				for range 100 {
					pass(time.Second)
				}
				if n := ran.Load(); n != 5000 {
					t.Errorf("%d of 5000 jobs ran", n)
				}
			})
		})
	}
}

// Jobs without limits come to run beside more jobs under limits than the worker can run.
func TestJobsWithoutLimitsDoNotStarve(t *testing.T) {
	virtual(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{})}
		c := clientOver(t, f, penstock.Config{Limits: map[string]string{"api": "1000000/s"}})
		handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
			<-time.After(100 * time.Microsecond)
			return nil
		})
		limited := many(t, c, 50_000, penstock.Draw{Limit: "api", Cost: 1})
		working(t, c, penstock.WorkOptions{Concurrency: 1})
		pass(time.Second)
		free := many(t, c, 10)
		pass(time.Second)
		for _, id := range free {
			wantState(t, c, id, store.Done, "")
		}
		wantState(t, c, limited[len(limited)-1], store.Waiting, "")
	})
}
