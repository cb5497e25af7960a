package penstock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// claimedStore counts claims.
type claimedStore struct {
	store.Store
	claims atomic.Int64
}

func (c *claimedStore) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	c.claims.Add(1)
	return c.Store.Claim(ctx, r)
}

// TestDrainAsksWhenItsTimeComes: a worker that drains does not ask for more after each
// outcome, when it knows that the next slot comes soon.
func TestDrainAsksWhenItsTimeComes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := &claimedStore{Store: memory.New(memory.Options{})}
		c := clientOver(t, st, penstock.Config{Limits: map[string]string{"api": "8/s burst 1"}})
		var calls atomic.Int64
		handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(context.Context, *penstock.Job[int]) error {
			calls.Add(1)
			return nil
		})
		for i := range 40 {
			enqueue(t, c, "call", i)
		}
		if err := c.Work(t.Context(), penstock.WorkOptions{Drain: true}); err != nil {
			t.Fatal(err)
		}
		n := st.claims.Load()
		t.Logf("%d claims", n)
		if calls.Load() != 40 {
			t.Errorf("Work ended after %d calls, want 40", calls.Load())
		}
		if n > 30 {
			t.Errorf("%d claims for 40 calls, want fewer than one for each", n)
		}
	})
}

// TestDrainEndsAfterAWishInVain: the last outcome of a worker that drains is stored while a
// job is being enqueued that it might start; then the insert fails. Nothing is left, and
// nobody else tells the worker so.
func TestDrainEndsAfterAWishInVain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{})}
		c := clientOver(t, f, penstock.Config{})
		goOn := make(chan bool)
		handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
			<-goOn
			return nil
		})
		id := enqueue(t, c, "call", 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- c.Work(ctx, penstock.WorkOptions{Drain: true}) }()
		pass(time.Second)
		fails := make(chan bool)
		f.set(func(f *faulty) {
			f.insert = func(bool) error {
				<-fails
				return errStore
			}
		})
		inserted := make(chan error, 1)
		go func() {
			_, err := c.Enqueue(t.Context(), "call", 2)
			inserted <- err
		}()
		synctest.Wait()
		if _, wished, _ := f.counts(); wished != 1 {
			t.Fatalf("%d wishes, want 1", wished)
		}
		close(goOn)
		synctest.Wait()
		wantState(t, c, id, store.Done, "")
		close(fails)
		if err := <-inserted; err == nil {
			t.Error("the insert did not fail")
		}
		wantDrained(t, ended, cancel)
	})
}

// TestDrainEndsWithItsLastJob: a worker that drains was woken for nothing while its last
// job ran. It ends with that job all the same, not at its next look.
func TestDrainEndsWithItsLastJob(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
			<-time.After(290 * time.Millisecond)
			return nil
		})
		enqueue(t, c, "call", 1)
		ended := make(chan time.Duration, 1)
		began := time.Now()
		go func() {
			if err := c.Work(t.Context(), penstock.WorkOptions{Drain: true}); err != nil {
				t.Error(err)
			}
			ended <- time.Since(began)
		}()
		pass(50 * time.Millisecond)
		enqueue(t, c, "other", 1)
		if took := <-ended; took > 300*time.Millisecond {
			t.Errorf("the worker ended after %v, its last job after 290 ms", took)
		}
	})
}

// endsOthers is a store in which somebody else ends what a worker holds.
type endsOthers struct {
	store.Store
	armed atomic.Bool
}

func (s *endsOthers) Heartbeat(ctx context.Context, worker string) ([]store.Lease, error) {
	leases, err := s.Store.Heartbeat(ctx, worker)
	if err != nil || !s.armed.Load() {
		return leases, err
	}
	for _, l := range leases {
		if _, err := s.Store.Finish(ctx, []store.Finish{{ID: l.ID, Worker: worker, Token: l.Token, Outcome: store.OutcomeDone, Started: 1}}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// TestDrainEndsWhenTheLastLeaseIsLost: the only job that a worker holds is not its any more.
func TestDrainEndsWhenTheLastLeaseIsLost(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := &endsOthers{Store: memory.New(memory.Options{})}
		c := clientOver(t, st, penstock.Config{})
		handle(t, c, "call", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[int]) error {
			<-ctx.Done()
			return ctx.Err()
		})
		enqueue(t, c, "call", 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- c.Work(ctx, penstock.WorkOptions{Drain: true}) }()
		pass(time.Second)
		st.armed.Store(true)
		wantDrained(t, ended, cancel)
	})
}

// wantDrained waits for a worker that drains to end.
func wantDrained(t *testing.T, ended <-chan error, cancel func()) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Hour):
		t.Error("an hour later the worker still drains, though nothing is left")
		cancel()
		<-ended
	}
}
