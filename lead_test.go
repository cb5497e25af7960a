package penstock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// slowClaims answers claims late that took something.
type slowClaims struct {
	store.Store
	by time.Duration
}

func (s slowClaims) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	res, err := s.Store.Claim(ctx, r)
	if len(res.Jobs) > 0 {
		<-time.After(s.by)
	}
	return res, err
}

// Workers whose claims take long make no start late, so that no window gets more
// than its limit when a quick worker takes over; and they do not stand still.
func TestSlowClaimsNeverBreakALimit(t *testing.T) {
	for _, by := range []time.Duration{30 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, time.Second} {
		t.Run(by.String(), func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				st := memory.New(memory.Options{})
				var mu sync.Mutex
				var at []time.Time
				worker := func(s store.Store) (stop func()) {
					c := clientOver(t, s, penstock.Config{Limits: map[string]string{"api": "20/s"}})
					handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(context.Context, *penstock.Job[int]) error {
						mu.Lock()
						defer mu.Unlock()
						at = append(at, time.Now())
						return nil
					})
					for i := range 100 {
						enqueue(t, c, "call", i)
					}
					return working(t, c, penstock.WorkOptions{Concurrency: 20})
				}
				var slow []func()
				for range 8 {
					slow = append(slow, worker(slowClaims{st, by}))
				}
				pass(10 * time.Second)
				mu.Lock()
				bySlow := len(at)
				mu.Unlock()
				quick := worker(st)
				for _, stop := range slow {
					stop()
				}
				pass(10 * time.Second)
				quick()
				for i := 20; i < len(at); i++ {
					if d := at[i].Sub(at[i-20]); d < time.Second {
						t.Errorf("call %d: 21 starts in %v", i, d)
					}
				}
				if bySlow < 40 || len(at)-bySlow < 150 {
					t.Errorf("%d starts by slow workers and %d by a quick one, in 10 s of 20/s each", bySlow, len(at)-bySlow)
				}
			})
		})
	}
}
