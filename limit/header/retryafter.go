package header

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// waitHeaders are the headers that state a wait, the most exact first: the
// first with a usable value is believed, whatever the others say. A further
// family of plain waits is a further row.
var waitHeaders = []struct {
	name string
	unit time.Duration // of a bare number
}{
	{"Retry-After-Ms", time.Millisecond},
	{"X-Ms-Retry-After-Ms", time.Millisecond},
	{"Retry-After", time.Second}, // RFC 9110, section 10.2.3
	{"X-Retry-After", time.Second},
	{"X-RateLimit-Retry-After", time.Second},
	{"X-Retry-In", time.Second},
}

// explicitWait finds the wait the response states. Of a header that was sent
// twice, on lines of its own or joined by a comma on the way, the longest valid
// value counts: waiting for the shorter one would be refused again.
//
// An instant that is already over gives no wait at all, rather than a wait of
// 0: many clients that all read 0 there would come back together, at once. So
// the ordinary backoff, with its jitter, applies. A number 0 is kept, as the
// API chose it.
func explicitWait(h http.Header, clock time.Time) finding {
	var f finding
	for _, header := range waitHeaders {
		for _, line := range values(h, header.name) {
			for _, s := range members(line, header.unit, clock) {
				wait, absolute, ok := parseWait(s, header.unit, clock)
				switch {
				case !ok:
				case absolute && wait <= 0:
					f.past = true
				default:
					if !absolute && isNumber(s) {
						wait = roundUp(wait, header.unit)
					}
					f.keepLongest(wait, header.name)
				}
			}
		}
		if f.found {
			return f
		}
	}
	return f
}

// roundUp makes a fraction of the unit a whole one: 0.503 s is 1 s. The number
// is whole in the standard, so servers that send a fraction have often cut it
// short somewhere, and a call a moment late is never refused for it.
func roundUp(wait, unit time.Duration) time.Duration {
	if rest := wait % unit; rest != 0 {
		if wait > Longest-unit {
			return Longest
		}
		wait += unit - rest
	}
	return wait
}

// members splits a line at its commas, except at those inside a date.
func members(line string, unit time.Duration, clock time.Time) []string {
	if _, _, ok := parseWait(line, unit, clock); ok {
		return []string{line}
	}
	parts := strings.Split(line, ",")
	var all []string
	for i := 0; i < len(parts); i++ {
		one := strings.TrimSpace(parts[i])
		if i+1 < len(parts) {
			date := one + ", " + strings.TrimSpace(parts[i+1])
			if _, ok := parseHTTPDate(date, clock); ok {
				all = append(all, date)
				i++
				continue
			}
		}
		all = append(all, one)
	}
	return all
}

// parseWait reads one value as a wait from clock on. Bare numbers count in
// unit. absolute says that the value named an instant; its wait is then
// negative if that is over. ok is false for what has no meaning, such as a
// signed number, an exponent or a word.
func parseWait(s string, unit time.Duration, clock time.Time) (wait time.Duration, absolute, ok bool) {
	if isNumber(s) {
		n := parseNumber(s)
		// Nobody asks for a wait of 50 years, but some send an epoch by mistake.
		if t, ok := epochNear(n, clock); ok {
			return t.Sub(clock), true, true
		}
		return clamp(n * float64(unit)), false, true
	}
	if t, ok := parseInstant(s, clock); ok {
		return t.Sub(clock), true, true
	}
	wait, ok = parseDuration(s)
	return wait, false, ok
}

// epochNear reads a number as an epoch of seconds, milliseconds, microseconds
// or nanoseconds, if that gives an instant within a year of clock.
func epochNear(n float64, clock time.Time) (time.Time, bool) {
	const year = 366 * 24 * time.Hour
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
		if seconds := n * unit.Seconds(); seconds >= 1e9 && seconds < 1e11 {
			if t := epoch(seconds); t.Sub(clock).Abs() < year {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

// epoch is the instant that many seconds after 1970, to the microsecond.
func epoch(seconds float64) time.Time {
	return time.UnixMicro(int64(math.Round(seconds * 1e6)))
}

// clamp makes nanoseconds a duration of at most Longest, rounding up.
func clamp(ns float64) time.Duration {
	if ns >= float64(Longest) {
		return Longest
	}
	return time.Duration(math.Ceil(ns))
}
