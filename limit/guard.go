package limit

import "time"

// The guard is extra room in a window: a client that sends exactly N per W is
// seen by the API to send more, because some calls travel faster than others.
// It starts at 5 % of W (at most 0.5 s), grows by half plus 0.5 % of W with an
// unexpected refusal, and shrinks by 0.5 % of itself per quiet window.
const (
	guardBaseMax = Instant(10 * time.Second / time.Microsecond) // longer windows need no more guard: jitter does not grow with W
	guardMin     = Instant(Delta / time.Microsecond)            // a start may be this late
)

// guardBase is the W that guards are measured by: the shortest window, or ten
// seconds if that is less or if there are calendar quotas only. It is 0 for a
// spec without a rate.
func (sp Spec) guardBase() Instant {
	if !sp.HasRate() {
		return 0
	}
	i := sp.shortest()
	if i < 0 {
		return guardBaseMax
	}
	_, w := sp.Rates[i].Limit()
	return max(guardMin, min(micros(w), guardBaseMax))
}

func (sp Spec) defaultGuard() Instant { return max(sp.guardBase()/20, guardMin) }

// guardFor is the guard in microseconds. What was learned under another window
// is kept only if it asks for more room than the default.
func (s *State) guardFor(sp Spec) Instant {
	base := sp.guardBase()
	if s.guardBase == 0 || base == 0 {
		return max(base/20, guardMin)
	}
	g := s.guard
	if base != s.guardBase {
		g = max(g, base/20)
	}
	return max(min(g, base), guardMin)
}

// Guard is the extra room now kept in each rolling window, at least Delta.
// Spacing is for the window plus Guard.
func (s *State) Guard(sp Spec) time.Duration {
	return time.Duration(s.guardFor(sp)) * time.Microsecond
}

func (s *State) growGuard(sp Spec) {
	if base := sp.guardBase(); base > 0 {
		g := s.guardFor(sp)
		s.guard, s.guardBase = min(g+g/2+base/200, max(base, guardMin)), base
	}
}

// quiet shrinks the guard if a whole window went by without a refusal.
func (s *State) quiet(sp Spec, at Instant) {
	base := sp.guardBase()
	if base == 0 {
		return
	}
	window := base
	if i := sp.shortest(); i >= 0 {
		_, w := sp.Rates[i].Limit()
		window = micros(w)
	}
	if s.quietSince == 0 || s.quietSince > at {
		s.quietSince = at
	}
	since := at - s.quietSince
	if since < window {
		return
	}
	if s.quietSince += window; since >= 2*window { // time without calls shows nothing
		s.quietSince = at
	}
	g := s.guardFor(sp)
	s.guard, s.guardBase = max(g-g/200-1, guardMin), base
}
