package penstock

import (
	"sync/atomic"
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
type lead struct{ d atomic.Int64 }

func (l *lead) now() time.Duration { return time.Duration(l.d.Load()) }

// claimed is told how old a claim was when its jobs came. The lead follows slow
// claims at once and quick ones soon. Starts that are late for another reason (no
// place, no processor) do not move it: slots further ahead would not help them, and
// would only hold their places for longer.
func (l *lead) claimed(took time.Duration) {
	d := l.d.Load() / 2
	if took > leadLeast {
		d = max(d, int64(min(2*took, leadMost)))
	}
	if d < int64(time.Millisecond) {
		d = 0
	}
	l.d.Store(d)
}
