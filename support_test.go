package penstock_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// quiet is a logger that says nothing.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// newClient returns a client over a store in memory.
func newClient(t testing.TB, cfg penstock.Config) *penstock.Client {
	t.Helper()
	return clientOver(t, memory.New(memory.Options{}), cfg)
}

func clientOver(t testing.TB, st store.Store, cfg penstock.Config) *penstock.Client {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	c, err := penstock.New(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handle registers a handler that must be accepted.
func handle[T any](t testing.TB, c *penstock.Client, kind string, k penstock.Kind, fn func(ctx context.Context, job *penstock.Job[T]) error) {
	t.Helper()
	if err := penstock.Handle(c, kind, fn, k); err != nil {
		t.Fatal(err)
	}
}

// enqueue stores a job that must be accepted, and returns its id.
func enqueue(t testing.TB, c *penstock.Client, kind string, payload any, opts ...penstock.EnqueueOption) int64 {
	t.Helper()
	e, err := c.Enqueue(t.Context(), kind, payload, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return e.ID
}

// working runs a worker until stop is called, which waits for its end.
func working(t testing.TB, c *penstock.Client, o penstock.WorkOptions) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Work(ctx, o) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Work: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// drain works until nothing is left.
func drain(t testing.TB, c *penstock.Client, o penstock.WorkOptions) {
	t.Helper()
	o.Drain = true
	if err := c.Work(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// job reads a job that must be there.
func job(t testing.TB, c *penstock.Client, id int64) penstock.JobInfo {
	t.Helper()
	j, err := c.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// wantState checks a job's state and why it is dead.
func wantState(t testing.TB, c *penstock.Client, id int64, state penstock.State, reason penstock.Reason) penstock.JobInfo {
	t.Helper()
	j := job(t, c, id)
	if j.State != state || j.Reason != reason {
		t.Errorf("job %d is %v %q (error %q), want %v %q", id, j.State, j.Reason, j.Error, state, reason)
	}
	return j
}

// calls notes when something was called.
type calls struct {
	mu sync.Mutex
	at map[string][]time.Time
}

func (c *calls) note(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[string][]time.Time{}
	}
	c.at[what] = append(c.at[what], time.Now())
	return len(c.at[what])
}

func (c *calls) of(what string) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]time.Time(nil), c.at[what]...)
}

func (c *calls) count(what string) int { return len(c.of(what)) }

// virtual runs a test in virtual time.
func virtual(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// percentile returns the p-th percentile; it sorts all.
func percentile(all []time.Duration, p int) time.Duration {
	slices.Sort(all)
	return all[min(len(all)*p/100, len(all)-1)]
}
