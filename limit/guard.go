package limit

import "time"

// The guard is extra room in a window: a client that sends exactly N per W is
// seen by the API to send more, because some calls travel faster than others.
// It starts at 5 % of W (at most 0.5 s), grows by half plus 0.5 % of W with an
// unexpected refusal, and shrinks by 0.5 % of itself per quiet window. N and W
// are those of the shortest rolling window; without one there is nothing to
// guard, and nothing is learned.
const (
	guardBaseMax = Instant(10 * time.Second / time.Microsecond) // longer windows need no more guard: jitter does not grow with W
	guardMin     = Instant(Delta / time.Microsecond)            // a start may be this late
)

// guarded is the N and W that guards are for; W is 0 if there is none.
func (sp Spec) guarded() (n int64, w Instant) {
	i := sp.shortest()
	if i < 0 {
		return 0, 0
	}
	n, d := sp.Rates[i].Limit()
	if n <= 0 || d <= 0 { // not a valid spec
		return 0, 0
	}
	return min(n, MaxN), min(micros(d), horizon)
}

// guardBase is the W that guards are measured by: w itself, or ten seconds if
// that is less.
func guardBase(w Instant) Instant { return max(guardMin, min(w, guardBaseMax)) }

func usualGuard(w Instant) Instant { return max(guardBase(w)/20, guardMin) }

func (sp Spec) defaultGuard() Instant {
	_, w := sp.guarded()
	if w == 0 && sp.HasRate() { // calendar quotas only
		w = guardBaseMax
	}
	return usualGuard(w)
}

// guardFor is the guard in microseconds. What was learned under another N or W
// is a rate: a lower limit keeps to that which was refused last, at the guard
// before it grew. The step after it may be half too much, and whoever lowered
// the limit may have set the true one. A raised limit starts anew, for whoever
// raised it knows more than refusals from before can tell; a guard below the
// usual one stays, so that nothing is refused that was allowed.
func (s *State) guardFor(sp Spec) Instant {
	n, w := sp.guarded()
	if w == 0 || s.guardW == 0 {
		return sp.defaultGuard()
	}
	g := s.guard
	switch {
	case n == s.guardN && w == s.guardW:
	case s.guardN == 0: // stored before N was remembered; W is its base
		if guardBase(w) != guardBase(s.guardW) {
			g = max(g, usualGuard(w))
		}
	case mulDivUp(n, s.guardW, s.guardN) > w: // raised: N' per W' is more than N per W
		g = min(g, usualGuard(w))
	default:
		before := max(0, s.guard-guardBase(s.guardW)/200) * 2 / 3
		g = max(mulDivUp(n, s.guardW+before, s.guardN)-w, usualGuard(w))
	}
	return max(min(g, guardBase(w)), guardMin)
}

// Guard is the extra room now kept in each rolling window, at least Delta.
// Spacing is for the window plus Guard.
func (s *State) Guard(sp Spec) time.Duration {
	return time.Duration(s.guardFor(sp)) * time.Microsecond
}

func (s *State) growGuard(sp Spec) {
	if n, w := sp.guarded(); w > 0 {
		g, base := s.guardFor(sp), guardBase(w)
		s.guard, s.guardN, s.guardW = min(g+g/2+base/200, base), n, w
	}
}

// quiet shrinks the guard if a whole window went by without a refusal.
func (s *State) quiet(sp Spec, at Instant) {
	n, w := sp.guarded()
	if w == 0 {
		return
	}
	if s.quietSince == 0 || s.quietSince > at {
		s.quietSince = at
	}
	since := at - s.quietSince
	if since < w {
		return
	}
	if s.quietSince += w; since >= 2*w { // time without calls shows nothing
		s.quietSince = at
	}
	g := s.guardFor(sp)
	s.guard, s.guardN, s.guardW = max(g-g/200-1, guardMin), n, w
}
