package penstock_test

import (
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
)

// TestNoClaimsWhenTheLeaseIsNearlyOver: what a worker claims when no heartbeat of it has
// arrived for nearly a lease does not begin, and is given back. So it should not claim, or
// it does nothing else.
func TestNoClaimsWhenTheLeaseIsNearlyOver(t *testing.T) {
	virtual(t, func(t *testing.T) {
		_, f, _ := idling(t, penstock.WorkOptions{}, nothing)
		f.set(func(f *faulty) { f.noBeats = true })
		pass(penstock.DefaultLease)
		n := 0
		before, _, _ := f.counts()
		f.set(func(f *faulty) {
			f.claim = func(before bool) error {
				if n++; before && n > 1000 { // so that time goes by
					<-time.After(time.Second)
				}
				return nil
			}
		})
		other := clientOver(t, f.Store, penstock.Config{})
		id := enqueue(t, other, "call", 1)
		pass(time.Millisecond)
		claims, _, _ := f.counts()
		if claims -= before; claims > 5 {
			t.Errorf("%d claims in no time", claims)
		}
		f.set(func(f *faulty) { f.noBeats, f.claim = false, nil })
		pass(time.Minute)
		wantState(t, other, id, store.Done, "")
	})
}
