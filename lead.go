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
// claims at once and quick ones slowly.
func (l *lead) claimed(took time.Duration) {
	if took > leadLeast {
		l.atLeast(2 * took)
		return
	}
	d := l.d.Load()
	if next := d - d/8; next > int64(time.Millisecond) {
		l.d.CompareAndSwap(d, next)
	} else {
		l.d.CompareAndSwap(d, 0)
	}
}

// late is told that a start was claimed under a lead and came late all the same.
func (l *lead) late(under, by time.Duration) { l.atLeast(under + 2*by) }

func (l *lead) atLeast(want time.Duration) {
	want = min(want, leadMost)
	for {
		d := l.d.Load()
		if d >= int64(want) || l.d.CompareAndSwap(d, int64(want)) {
			return
		}
	}
}
