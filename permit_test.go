package penstock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

func TestAcquire(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		cfg := penstock.Config{Limits: map[string]string{"api": "10/s, 2 in flight"}}
		clients := []*penstock.Client{clientOver(t, st, cfg), clientOver(t, st, cfg)}
		var seen calls
		var mu sync.Mutex
		running, most := 0, 0
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				p, err := clients[i%2].Acquire(t.Context(), penstock.Draw{Limit: "api", Cost: 1})
				if err != nil {
					t.Error(err)
					return
				}
				seen.note("call")
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				<-time.After(300 * time.Millisecond)
				mu.Lock()
				running--
				mu.Unlock()
				if err := p.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		noWindowAbove(t, seen.of("call"), 10, time.Second)
		if n := seen.count("call"); n != 40 || most != 2 {
			t.Errorf("%d calls, %d at a time", n, most)
		}
		for _, c := range clients {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		nothingLeft(t, clients[0], "api")
	})
}

// nothingLeft checks that no job is left, and no call in flight.
func nothingLeft(t *testing.T, c *penstock.Client, limits ...string) {
	t.Helper()
	if jobs, err := c.Jobs(t.Context(), penstock.Filter{}); err != nil || len(jobs) != 0 {
		t.Errorf("%d jobs are left, error %v: %+v", len(jobs), err, jobs)
	}
	for _, name := range limits {
		if info, err := c.LimitByName(t.Context(), name); err != nil || info.State.InFlight() != 0 {
			t.Errorf("%s: %d in flight, error %v", name, info.State.InFlight(), err)
		}
	}
}

func TestAcquireGivesUp(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"one": "1 in flight"}})
		held, err := c.Acquire(t.Context(), penstock.Draws("one")...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Acquire(ctx, penstock.Draws("one")...); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if jobs, err := c.Jobs(t.Context(), penstock.Filter{States: []penstock.State{penstock.Waiting, penstock.Cancelled}}); err != nil || len(jobs) != 0 {
			t.Errorf("%d wishes are left after giving up, error %v", len(jobs), err)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		var unknown *store.UnknownLimitError
		if _, err := c.Acquire(t.Context(), penstock.Draws("two")...); !errors.As(err, &unknown) {
			t.Errorf("unknown limit: %v", err)
		}
		if _, err := c.Acquire(t.Context(), penstock.Draw{Limit: "one", Cost: -1}); err == nil {
			t.Error("a negative cost was accepted")
		}
		p, err := c.Acquire(t.Context(), penstock.Draws("one")...)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil { // with the permit out
			t.Error(err)
		}
		if p.Context().Err() == nil {
			t.Error("the permit's context goes on")
		}
		if err := p.Release(t.Context()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, c, "one")
		if _, err := c.Acquire(t.Context(), penstock.Draws("one")...); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A refusal pauses the limit for the jobs, too, and what a dead process held is
// given back.
func TestAcquireRefusedAndLost(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		f := &faulty{Store: st}
		cfg := penstock.Config{Limits: map[string]string{"api": "10/s, 1 in flight"}}
		a, b := clientOver(t, f, cfg), clientOver(t, st, cfg)
		p, err := a.Acquire(t.Context(), penstock.Draws("api")...)
		if err != nil {
			t.Fatal(err)
		}
		p.RateLimited("api", time.Minute)
		begun := time.Now()
		if err := p.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		p, err = a.Acquire(t.Context(), penstock.Draws("api")...)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d < time.Minute || d > 61*time.Second {
			t.Errorf("granted after %v, the API asked for a minute", d)
		}
		f.set(func(f *faulty) { f.cut = true }) // a dies with the permit
		handle(t, b, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(context.Context, *penstock.Job[int]) error { return nil })
		id := enqueue(t, b, "call", 1)
		working(t, b, penstock.WorkOptions{})
		pass(30 * time.Second)
		wantState(t, b, id, store.Done, "")
		if p.Context().Err() == nil {
			t.Error("the permit's holder was not told that it may be lost")
		}
		f.set(func(f *faulty) { f.cut = false })
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A wish for a permit ends with its process, even if it was never granted.
func TestAcquireOrphans(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		f := &faulty{Store: st}
		cfg := penstock.Config{Limits: map[string]string{"never": "paused"}}
		a, b := clientOver(t, f, cfg), clientOver(t, st, cfg)
		ctx, giveUp := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := a.Acquire(ctx, penstock.Draws("never")...)
			ended <- err
		}()
		handle(t, b, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
		working(t, b, penstock.WorkOptions{})
		pass(5 * time.Minute)
		if jobs, err := b.Jobs(t.Context(), penstock.Filter{}); err != nil || len(jobs) != 1 {
			t.Errorf("%d wishes while their process lives, error %v", len(jobs), err)
		}
		f.set(func(f *faulty) { f.cut = true })
		pass(5 * time.Minute)
		nothingLeft(t, b, "never")
		giveUp()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		f.set(func(f *faulty) { f.cut = false })
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPermitsOfManyProcesses: one process after the other takes a costly permit
// and goes; none waits for one that is gone.
func TestPermitsOfManyProcesses(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		clientOver(t, st, penstock.Config{Limits: map[string]string{"api": "4/s"}})
		begun := time.Now()
		const n = 9
		for range n {
			c := clientOver(t, st, penstock.Config{})
			p, err := c.Acquire(t.Context(), penstock.Draw{Limit: "api", Cost: 2})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.Release(t.Context()), c.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("%d permits of 2 took %v at 4 a second", n, took)
		}
	})
}
