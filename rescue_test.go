package penstock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/memory"
)

// askedStore counts how often it is asked for jobs of dead processes.
type askedStore struct {
	store.Store
	rescues atomic.Int64
}

func (a *askedStore) Rescue(ctx context.Context, lostMax int) ([]store.Job, error) {
	a.rescues.Add(1)
	return a.Store.Rescue(ctx, lostMax)
}

// TestDeathsAreAskedForAsOftenAsTheyShow: often where the store sees a death at once,
// and seldom where it sees that a lease is over.
func TestDeathsAreAskedForAsOftenAsTheyShow(t *testing.T) {
	for _, tt := range []struct {
		name        string
		alive       func(store.Worker) engine.Liveness
		least, most int64 // in a minute
	}{
		{"at first hand", func(store.Worker) engine.Liveness { return engine.Living }, 230, 240},
		{"by leases", nil, 55, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				st := &askedStore{Store: memory.New(memory.Options{Alive: tt.alive})}
				c := clientOver(t, st, penstock.Config{})
				handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
				working(t, c, penstock.WorkOptions{})
				pass(time.Minute)
				if n := st.rescues.Load(); n < tt.least || n > tt.most {
					t.Errorf("asked %d times in a minute, want %d to %d", n, tt.least, tt.most)
				}
			})
		})
	}
}
