package apisim

import "time"

// limiter counts arrivals. Times are nanoseconds of the API's clock and never
// decrease. Its state outlives a change of the limit, so that a changed limit
// counts what was accepted before. It is not safe for concurrent use.
type limiter struct {
	arrivals []int64 // sliding: what counts against the window, oldest first
	window   int64   // fixed: the number of the current window
	used     int     // fixed: accepted in it
	full     int64   // bucket, gcra: when the whole burst is there again (the theoretical arrival time)
}

// admit counts one call that arrives at now. If it is refused, wait is the time
// until a call would be accepted.
func (l *limiter) admit(c *Config, now int64) (ok bool, wait time.Duration) {
	switch c.Algorithm {
	case Sliding:
		return l.sliding(c, now)
	case Fixed:
		return l.fixed(c, now)
	case Bucket:
		return l.gcra(c, c.Limit, now)
	case GCRA:
		return l.gcra(c, c.Burst, now)
	default: // InFlight is checked by the caller, who knows what is in flight
		return true, 0
	}
}

// refuse counts a call that is refused for another reason than the window's.
func (l *limiter) refuse(c *Config, now int64) {
	if c.CountRefused && c.Algorithm == Sliding {
		l.arrivals = append(l.arrivals, now)
	}
}

// sliding keeps a log of arrivals: exact, at the cost of an entry for each. An
// arrival exactly one window ago no longer counts.
func (l *limiter) sliding(c *Config, now int64) (bool, time.Duration) {
	old := 0
	for old < len(l.arrivals) && now-l.arrivals[old] >= int64(c.Window) {
		old++
	}
	l.arrivals = l.arrivals[old:]
	if len(l.arrivals) >= c.Limit {
		l.refuse(c, now)
		// Room comes when all but Limit-1 of them are a window old.
		opens := l.arrivals[len(l.arrivals)-c.Limit] + int64(c.Window)
		return false, time.Duration(opens - now)
	}
	l.arrivals = append(l.arrivals, now)
	return true, 0
}

// fixed counts in windows that start at whole multiples of the window's length.
func (l *limiter) fixed(c *Config, now int64) (bool, time.Duration) {
	if window := now / int64(c.Window); window != l.window {
		l.window, l.used = window, 0
	}
	if l.used >= c.Limit {
		return false, time.Duration((l.window+1)*int64(c.Window) - now)
	}
	l.used++
	return true, 0
}

// gcra is the generic cell rate algorithm (ITU-T I.371), which is a token bucket
// of burst tokens told by one instant: that at which the bucket is full again.
func (l *limiter) gcra(c *Config, burst int, now int64) (bool, time.Duration) {
	// A division with a rest favours the caller, by less than 1 ns a call.
	every := int64(c.Window) / int64(c.Limit)
	full := max(l.full, now) + every
	if late := full - now - every*int64(burst); late > 0 {
		return false, time.Duration(late)
	}
	l.full = full
	return true, 0
}

// left is how many calls would be accepted now, and how long until there are more
// (sliding), as many as ever (fixed), or the whole burst (bucket, gcra). ok is false
// if the algorithm has no windows.
func (l *limiter) left(c *Config, now int64) (left int, reset time.Duration, ok bool) {
	switch c.Algorithm {
	case Sliding:
		used := 0
		for i := len(l.arrivals) - 1; i >= 0 && now-l.arrivals[i] < int64(c.Window); i-- {
			used, reset = used+1, time.Duration(l.arrivals[i]+int64(c.Window)-now)
		}
		left = c.Limit - used
	case Fixed:
		window := now / int64(c.Window)
		if left = c.Limit; window == l.window {
			left -= l.used
		}
		reset = time.Duration((window+1)*int64(c.Window) - now)
	case Bucket, GCRA:
		every := int64(c.Window) / int64(c.Limit)
		ahead := max(0, l.full-now)
		left, reset = int((every*int64(c.most())-ahead)/every), time.Duration(ahead)
	default:
		return 0, 0, false
	}
	return max(0, left), reset, true
}
