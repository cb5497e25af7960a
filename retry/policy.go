// Package retry says how long a failed attempt waits before the next one, and
// what an error proves about the call that returned it.
//
// The package is pure: it reads no clock and rolls no dice. The random number a
// delay needs is an argument, so the same arguments give the same answer.
package retry

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Defaults of a Policy, used for each field that is zero.
const (
	DefaultMaxAttempts = 5
	DefaultBase        = time.Second
	DefaultCap         = time.Minute
	DefaultFactor      = 2.0
	DefaultJitter      = 0.25
)

// Policy is exponential backoff with jitter. The zero value is the default
// policy: 5 attempts, 1 s, doubling, at most 60 s, jitter of 25 % either way.
// A Policy is a value and safe for concurrent use.
type Policy struct {
	// MaxAttempts is how many attempts a job has in all; 0 means 5.
	MaxAttempts int
	// Base is the step after the first failed attempt; 0 means 1 s (or Cap,
	// where that is shorter).
	Base time.Duration
	// Cap is the longest step, before jitter; 0 means 60 s (or Base, where that
	// is longer), below 0 means no cap.
	Cap time.Duration
	// Factor is what a step is multiplied with to give the next; 0 means 2.
	Factor float64
	// Jitter is the share by which a step is shortened or lengthened at random,
	// from 0 to 1; 0 means 0.25, below 0 means none.
	Jitter float64
}

// Validate reports every fault of the policy at once, as one joined error, or
// nil. Fields that are zero are never a fault.
func (p Policy) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("retry policy: "+format, args...))
	}
	if p.MaxAttempts < 0 {
		fault("max attempts must be at least 1 (or 0 for the default, %d), got %d", DefaultMaxAttempts, p.MaxAttempts)
	}
	if p.Base < 0 {
		fault("base must be above 0 (or 0 for the default, %v), got %v", DefaultBase, p.Base)
	}
	if p.Cap > 0 && p.Base > p.Cap {
		fault("cap must be at least the base, got cap %v and base %v; raise the cap, or use a negative one for no cap", p.Cap, p.Base)
	}
	if p.Factor != 0 && !validFactor(p.Factor) {
		fault("factor must be a number from 1 up (or 0 for the default, %v), got %v", DefaultFactor, p.Factor)
	}
	if math.IsNaN(p.Jitter) || p.Jitter > 1 {
		fault("jitter must be a share from 0 to 1 (negative for none), got %v", p.Jitter)
	}
	return errors.Join(faults...)
}

func validFactor(f float64) bool { return f >= 1 && !math.IsInf(f, 0) }

// Resolved returns the policy with its defaults filled in: what Delay and
// Exhausted work with. A field that Validate would refuse counts as unset, so
// that no policy, however it came about, can make a hot loop. In the result
// "no cap" is the longest duration there is, and "no jitter" is 0.
func (p Policy) Resolved() Policy {
	if p.MaxAttempts <= 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	switch {
	case p.Cap < 0:
		p.Cap = math.MaxInt64
	case p.Cap == 0:
		p.Cap = max(DefaultCap, p.Base)
	}
	if p.Base <= 0 {
		p.Base = min(DefaultBase, p.Cap)
	}
	if !validFactor(p.Factor) {
		p.Factor = DefaultFactor
	}
	switch {
	case p.Jitter < 0:
		p.Jitter = 0
	case p.Jitter == 0 || !(p.Jitter <= 1):
		p.Jitter = DefaultJitter
	}
	return p
}

// Exhausted says whether a job that has made this many attempts has none left.
func (p Policy) Exhausted(attempts int) bool {
	return attempts >= p.Resolved().MaxAttempts
}

// Delay is how long to wait after attempt (1 is the first, and so is anything
// below) has failed. random, from 0 up to 1, places the delay within the
// jitter: 0.5 is the step itself. The step never shrinks from one attempt to
// the next and saturates at the cap, or at the longest duration without one.
// The jitter applies at the cap, too: jobs held at the cap must go on spreading.
func (p Policy) Delay(attempt int, random float64) time.Duration {
	return p.DelayAtLeast(attempt, 0, random)
}

// DelayAtLeast is Delay where the other side has stated a wait: the delay is
// never shorter than stated, and its jitter only lengthens it, by up to the
// jitter's share of stated (or of the cap, where stated is longer), so that
// many jobs told the same wait do not come back at the same instant.
func (p Policy) DelayAtLeast(attempt int, stated time.Duration, random float64) time.Duration {
	p = p.Resolved()
	step := p.step(attempt)
	stated = max(stated, 0)
	spread := scale(min(stated, p.Cap), p.Jitter)

	shortest := max(stated, scale(step, 1-p.Jitter))
	longest := max(add(stated, spread), scale(step, 1+p.Jitter))
	return add(shortest, scale(longest-shortest, unit(random)))
}

// step is the delay after attempt without jitter: Base * Factor^(attempt-1),
// at most Cap. p is resolved.
func (p Policy) step(attempt int) time.Duration {
	base := min(p.Base, p.Cap)
	// math.Pow is exact to about 1e-14; a factor closer to 1 than that would
	// let rounding make a later step shorter than an earlier one.
	if attempt <= 1 || p.Factor < 1+1e-12 {
		return base
	}
	return max(base, min(p.Cap, scale(base, math.Pow(p.Factor, float64(attempt-1)))))
}

// scale multiplies a duration with a factor of at least 0 and saturates.
func scale(d time.Duration, factor float64) time.Duration {
	if factor == 1 {
		return d
	}
	f := float64(d) * factor
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}

// add adds two durations of at least 0 and saturates.
func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// unit brings a random number into [0, 1]; what is not a number counts as the middle.
func unit(random float64) float64 {
	if math.IsNaN(random) {
		return 0.5
	}
	return min(max(random, 0), 1)
}
