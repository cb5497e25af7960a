package postgres

import (
	"sync"
	"sync/atomic"

	"github.com/penstockhq/penstock/store/engine"
)

// guess is what claims of this process found lately. A picture is read before all is
// known that it depends on, so it is read as if that were as it was.
type guess struct {
	last   atomic.Int64 // how many first jobs were wanted
	spread atomic.Int64 // how many announcements to look at for each lane or limit, by a power of two

	mu     sync.Mutex
	served map[string][]int64 // by worker: the bands that its last claim served
}

// guessMost is of how many workers something is remembered.
const guessMost = 64

func (g *guess) heads(most int) int { return min(most, int(g.last.Load())*5/4+8) }

func (g *guess) wanted(a engine.Ahead) {
	n, free := 0, 0
	for _, h := range a.Heads {
		if h.Free {
			free = a.FreeMost
		} else {
			n += h.N
		}
	}
	g.last.Store(int64(n + free))
}

func (g *guess) bands(worker string) []int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.served[worker]
}

func (g *guess) serve(worker string, bands []int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.served == nil || len(g.served) >= guessMost && g.served[worker] == nil {
		g.served = make(map[string][]int64)
	}
	g.served[worker] = bands
}

// How many announcements to look at for each lane or limit that is to be brought up to
// date: few, as long as they are of many, and more and more while they are of few.
const (
	spreadLeast = 3 // powers of two
	spreadMost  = 8
	alikeMost   = 4096 // in all: they cost some microseconds each
)

// alike is how many announcements to look at for n lanes and limits.
func (g *guess) alike(n int) int { return min(n<<max(g.spread.Load(), spreadLeast), alikeMost) }

// tookWakes is told whether all that were looked at were of few lanes and limits.
func (g *guess) tookWakes(repeats bool) {
	if s := g.spread.Load(); repeats {
		g.spread.Store(min(max(s, spreadLeast)+1, spreadMost))
	} else if s > spreadLeast {
		g.spread.Store(s - 1)
	}
}
