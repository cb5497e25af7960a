package limit

import (
	"math"
)

// pacer spreads permits over the shortest window, as a virtual-scheduling
// leaky bucket (GCRA; ITU-T Recommendation I.371, Annex A): each permit taken
// is a debt that drains at one permit per interval, and a start must find the
// debt at or below burst minus its cost. A cost above the burst waits for a
// debt of zero, that is, for a full bucket.
type pacer struct {
	interval float64 // microseconds per permit
	burst    float64
}

const maxDebt = float64(1 << 50)

// usualBurst is the part of N that may start together. APIs that pace (GCRA) mostly
// let a tenth come at once: a burst of just that has no room for jitter.
const usualBurst = 12

// pacer returns the pace of the spec; false if none of its windows is paced.
func (sp Spec) pacer(guard Instant) (pacer, bool) {
	i := sp.shortest()
	if i < 0 {
		return pacer{}, false
	}
	n, w := sp.Rates[i].Limit()
	if n <= 0 || w > pacedUpTo {
		return pacer{}, false
	}
	burst := sp.Rates[i].Burst
	if burst <= 0 {
		burst = max(1, n/usualBurst)
	}
	return pacer{interval: float64(micros(w)+guard) / float64(n), burst: float64(burst)}, true
}

// slack is the debt that an ask of this cost may find.
func (p pacer) slack(cost int64) float64 { return max(0, p.burst-float64(cost)) }

// wait is how long n permits take to drain. A hair is taken off before
// rounding up, so that whole microseconds stay whole.
func (p pacer) wait(n float64) Instant {
	if n <= 0 {
		return 0
	}
	return Instant(math.Ceil(min(n*p.interval, float64(maxInstant)) - 1e-3))
}

// credit is where the pacing stands.
type credit struct {
	last Instant // debt is as of here
	debt float64

	// After a pause, or a reset that was waited for, the first start, whatever it
	// costs, finds all burst credit but one permit spent: the resumption does not burst.
	ramp    Instant // a pause that ends here; 0: none after last
	drained bool    // a pause ended by hand
}

func (s *State) creditView() credit {
	c := credit{last: s.last, debt: s.debt, drained: s.drained}
	if s.api.until > s.last {
		c.ramp = s.api.until
	}
	if u := s.person.until; u > s.last && u != Never {
		c.ramp = max(c.ramp, u)
	}
	// Perhaps the reset gave back only one call.
	if s.left.reset > s.last && s.left.n <= 0 && !s.left.ours {
		c.ramp = max(c.ramp, s.left.reset)
	}
	return c
}

// debtAt is the debt just before a start at t, which is at or after last.
func (c credit) debtAt(p pacer, t Instant) float64 {
	d := max(0, c.debt-float64(t-c.last)/p.interval)
	if c.ramp > 0 && t >= c.ramp {
		d = max(d, p.burst-1-float64(t-c.ramp)/p.interval)
	}
	if c.drained {
		d = max(d, p.burst-1)
	}
	return d
}

// earliest is when an ask of this cost is paced for. A pause does not matter
// here: the first start after it waits for nothing but its end.
func (c credit) earliest(p pacer, cost int64) Instant {
	return c.last + p.wait(c.debt-p.slack(cost))
}
