package penstock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// claims is a store that notes its claims and what they brought.
type claims struct {
	store.Store
	mu   sync.Mutex
	more []bool // of those that brought something: whether they were said to find something
	jobs []store.Claimed
}

func (c *claims) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	res, err := c.Store.Claim(ctx, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(res.Jobs) > 0 {
		c.more, c.jobs = append(c.more, r.More), append(c.jobs, res.Jobs...)
	}
	return res, err
}

// TestStartsUnderFarLimitsBeginAtOnce: they do not wait for their slots, which lie ahead,
// as starts under a limit that is not far do. And a claim that follows one which had
// no place for all says that there is more.
func TestStartsUnderFarLimitsBeginAtOnce(t *testing.T) {
	for _, c := range []struct {
		spec  string
		early bool
	}{{"100000/s", true}, {"50/s burst 50", false}} {
		t.Run(c.spec, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &claims{Store: memory.New(memory.Options{})}
				client := clientOver(t, st, penstock.Config{Limits: map[string]string{"api": c.spec}})
				began := make(chan time.Time, 3)
				handle(t, client, "k", penstock.Kind{Limits: penstock.Draws("api")}, func(context.Context, *penstock.Job[int]) error {
					began <- time.Now()
					return nil
				})
				for i := range 3 {
					enqueue(t, client, "k", i)
				}
				from := time.Now()
				stop := working(t, client, penstock.WorkOptions{Concurrency: 1})
				for range 3 {
					if at := <-began; at.Sub(from) >= 20*time.Millisecond {
						t.Errorf("a start began after %v", at.Sub(from))
					}
				}
				stop()
				for i, j := range st.jobs {
					if ahead := j.Slot - j.LeasedAt; j.Early != c.early || j.Early && ahead != (40*time.Millisecond).Microseconds() {
						t.Errorf("job %d may begin early: %v, slot %d µs ahead; want %v", j.ID, j.Early, ahead, c.early)
					}
					if st.more[i] != (i > 0) {
						t.Errorf("claim %d said that there is more: %v", i, st.more[i])
					}
				}
			})
		})
	}
}
