package limit

import (
	"slices"
	"time"
)

const (
	keepExact  = 64  // the newest charges are never merged
	sweepEvery = 32  // charges between two sweeps
	perWindow  = 128 // a merged charge spans at most this part of a window
	perAge     = 8   // and, where no window of the spec looks, this part of its age
	maxCharges = 512 // whatever the spec
	horizon    = Instant((MaxWindow + 24*time.Hour) / time.Microsecond)

	maxSum int64 = 1 << 60 // sums of costs stop here instead of overflowing
)

// charge is a number of permits whose slots lie after the charge before it, and
// at or before at.
type charge struct {
	at   Instant
	cost int64
}

// slotLog is the window log of a limit: its charges in order of time. All
// rates of all specs count from it. Old charges are merged and carry the latest
// of their instants, so that they leave a window late, never early.
type slotLog struct {
	charges []charge
	fresh   int // charges added since the last sweep
}

// add notes cost at an instant not before the newest one.
func (l *slotLog) add(at Instant, cost int64) {
	if n := len(l.charges); n > 0 && l.charges[n-1].at >= at {
		l.charges[n-1].cost = addCost(l.charges[n-1].cost, cost)
		return
	}
	l.charges = append(l.charges, charge{at, cost})
	l.fresh++
}

// remove takes cost back from the charge that holds the slot.
func (l *slotLog) remove(slot Instant, cost int64) {
	i, _ := slices.BinarySearchFunc(l.charges, slot, func(c charge, t Instant) int {
		switch {
		case c.at < t:
			return -1
		case c.at > t:
			return 1
		}
		return 0
	})
	if i == len(l.charges) {
		return
	}
	if l.charges[i].cost -= cost; l.charges[i].cost <= 0 {
		l.charges = slices.Delete(l.charges, i, i+1)
	}
}

// since is the cost charged after the instant from.
func (l *slotLog) since(from Instant) int64 {
	sum := int64(0)
	for i := len(l.charges) - 1; i >= 0 && l.charges[i].at > from; i-- {
		sum = addCost(sum, l.charges[i].cost)
	}
	return sum
}

// sweep merges and forgets old charges. The windows (in microseconds,
// ascending) say how fine: a charge younger than a window may span a 128th of
// it. Charges on both sides of a wall are kept apart.
func (l *slotLog) sweep(windows, walls []Instant) {
	l.fresh = 0
	n := len(l.charges)
	if n <= keepExact {
		return
	}
	last := l.charges[n-1].at
	old, exact := l.charges[:n-keepExact], l.charges[n-keepExact:]
	for len(old) > 0 && old[0].at < last-horizon {
		old = old[1:]
	}
	out := l.charges[:0]
	for _, c := range old {
		// The span of the last merged charge begins after the one before it.
		// The first one's beginning is not known, so it stays as it is.
		if k := len(out); k >= 2 && c.at-out[k-2].at <= tolerance(last-c.at, windows) && !parted(out[k-1].at, c.at, walls) {
			out[k-1] = charge{c.at, addCost(out[k-1].cost, c.cost)}
			continue
		}
		out = append(out, c)
	}
	if len(out)+len(exact) > maxCharges {
		out = halve(out)
	}
	l.charges = append(out, exact...)
}

// tolerance is how long the span of a charge of this age may be.
func tolerance(age Instant, windows []Instant) Instant {
	for _, w := range windows {
		if age <= w {
			return w / perWindow
		}
	}
	return age / perAge
}

// parted reports whether a wall lies between a and b.
func parted(a, b Instant, walls []Instant) bool {
	for _, w := range walls {
		if a < w && w <= b {
			return true
		}
	}
	return false
}

// halve merges neighbours two by two.
func halve(c []charge) []charge {
	out := c[:0]
	for i := 0; i < len(c); i += 2 {
		if i+1 == len(c) {
			out = append(out, c[i])
			break
		}
		out = append(out, charge{c[i+1].at, addCost(c[i].cost, c[i+1].cost)})
	}
	return out
}

func addCost(a, b int64) int64 { return min(a+b, maxSum) }
