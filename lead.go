package penstock

import (
	"sync"
	"time"

	"github.com/penstockhq/penstock/limit"
)

const (
	leadLeast = limit.Delta / 2  // claims that take less need no lead: slots stay good for longer
	leadMost  = 10 * time.Second // and a store that takes longer is out of order
)

// lead is how far ahead this worker needs its slots to lie, so that starts are in
// time although claims take long. Starts that come too late are given back, never
// made: so a slow store costs rate at first, and never a limit.
type lead struct {
	mu   sync.Mutex
	d    time.Duration
	jobs int // that the claim brought which the lead follows; fades
}

func (l *lead) now() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.d
}

// claimed is told how old a claim was when its jobs came, and how many they were.
// The lead follows slow claims at once. Quick ones take it back soon, unless they
// bring far fewer jobs: those say little of a claim that brings many. Starts that
// are late for another reason (no place, no processor) do not move it: slots further
// ahead would not help them, and would only hold their places for longer.
func (l *lead) claimed(took time.Duration, jobs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	need := time.Duration(0)
	if took > leadLeast {
		need = min(2*took, leadMost)
	}
	switch {
	case need >= l.d:
		l.d, l.jobs = need, jobs
	case 2*jobs >= l.jobs:
		l.d, l.jobs = max(l.d/2, need), jobs
	default:
		l.jobs -= l.jobs/8 + 1
	}
	if l.d < time.Millisecond {
		l.d = 0
	}
}
