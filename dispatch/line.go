package dispatch

import "github.com/penstockhq/penstock/limit"

// laneView is a lane while a plan is made.
type laneView struct {
	*Lane
	gate    *gateView
	vtime   int64
	next    int // heads used
	served  bool
	moved   bool
	movedTo string
	opensAt limit.Instant
}

func (l *laneView) left() []Head { return l.Heads[l.next:] }

func (l *laneView) ask(d Draw) limit.Ask {
	return limit.Ask{Cost: d.Cost, Priority: l.Priority, Holder: uint64(l.ID)}
}

// weight is what one of the lane's jobs adds to its virtual time: the cost on
// its first limit.
func (l *laneView) weight() int64 {
	if len(l.Draws) == 0 {
		return 1
	}
	return max(1, l.Draws[0].Cost)
}

// line is the heap of lanes in serving order.
type line struct{ lanes []*laneView }

func (h *line) Len() int      { return len(h.lanes) }
func (h *line) Swap(i, j int) { h.lanes[i], h.lanes[j] = h.lanes[j], h.lanes[i] }
func (h *line) Push(x any)    { h.lanes = append(h.lanes, x.(*laneView)) }

func (h *line) Pop() any {
	last := h.lanes[len(h.lanes)-1]
	h.lanes = h.lanes[:len(h.lanes)-1]
	return last
}

// Less orders by queue place, priority, share of service, age. The share is
// start-time fair queueing (Goyal, Vin, Cheng 1996): the lane whose virtual time
// is least ahead of its gate's clock is next.
func (h *line) Less(i, j int) bool {
	a, b := h.lanes[i], h.lanes[j]
	if a.Place != b.Place {
		return a.Place < b.Place
	}
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if la, lb := a.vtime-a.gate.base, b.vtime-b.gate.base; la != lb {
		return la < lb
	}
	if ha, hb := a.left(), b.left(); len(ha) > 0 && len(hb) > 0 {
		if ha[0].At != hb[0].At {
			return ha[0].At < hb[0].At
		}
		return ha[0].ID < hb[0].ID
	}
	return a.ID < b.ID
}
