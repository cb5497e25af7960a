package penstock_test

import (
	"context"
	"sync/atomic"
	"testing"

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
