package storetest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// ledger is a store that writes down every permit it sees granted, to check the
// promise of the limits from outside.
type ledger struct {
	store.Store
	mu      sync.Mutex
	charges map[string][]dispatch.Charge // by limit
	held    map[int64]store.Claimed      // by job: its last claim
	specs   map[string]limit.Spec
	changed map[string]bool // limits whose spec changed meanwhile
}

func newLedger(s store.Store) *ledger {
	return &ledger{Store: s, charges: map[string][]dispatch.Charge{}, held: map[int64]store.Claimed{},
		specs: map[string]limit.Spec{}, changed: map[string]bool{}}
}

func (l *ledger) DeclareLimit(ctx context.Context, name string, spec limit.Spec) error {
	err := l.Store.DeclareLimit(ctx, name, spec)
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.specs[name]; ok && old.String() != spec.String() {
		l.changed[name] = true
	}
	l.specs[name] = spec
	return err
}

func (l *ledger) SetLimit(ctx context.Context, name string, spec limit.Spec) error {
	l.mu.Lock()
	l.changed[name] = true
	l.mu.Unlock()
	return l.Store.SetLimit(ctx, name, spec)
}

func (l *ledger) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	res, err := l.Store.Claim(ctx, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range res.Jobs {
		if old, ok := l.held[j.ID]; ok && old.Token == j.Token {
			continue // a repeated claim
		}
		l.held[j.ID] = j
		for _, c := range j.Charges {
			l.charges[c.Limit] = append(l.charges[c.Limit], c)
		}
	}
	return res, err
}

func (l *ledger) Finish(ctx context.Context, fs []store.Finish) ([]store.Finished, error) {
	got, err := l.Store.Finish(ctx, fs)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, g := range got {
		j, ok := l.held[fs[i].ID]
		if g.Err != nil || !ok || fs[i].Outcome != store.OutcomeReturned {
			continue
		}
		for _, c := range j.Charges { // given back
			if k := slices.Index(l.charges[c.Limit], c); k >= 0 {
				l.charges[c.Limit] = slices.Delete(l.charges[c.Limit], k, k+1)
			}
		}
	}
	return got, err
}

// audit checks that no window of any rolling rate held more than it may.
func (l *ledger) audit(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, charges := range l.charges {
		spec, ok := l.specs[name]
		if !ok || l.changed[name] {
			continue
		}
		for _, r := range spec.Rates {
			if n, w := r.Limit(); w > 0 {
				if most := fullest(charges, w.Microseconds()); most > n {
					t.Errorf("audit: limit %q: %d permits in a window of %v, allowed are %d", name, most, w, n)
				}
			}
		}
	}
}

// fullest returns the largest cost whose slots lie in one window of w.
func fullest(charges []dispatch.Charge, w int64) int64 {
	cs := slices.Clone(charges)
	slices.SortFunc(cs, func(a, b dispatch.Charge) int { return cmp.Compare(a.Slot, b.Slot) })
	var sum, most int64
	from := 0
	for _, c := range cs {
		sum += c.Cost
		for cs[from].Slot <= c.Slot-w {
			sum -= cs[from].Cost
			from++
		}
		most = max(most, sum)
	}
	return most
}
