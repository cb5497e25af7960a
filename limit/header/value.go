package header

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// isNumber says whether s is digits with at most one dot among them. Signs,
// exponents, hexadecimal and "Inf", which strconv would read, are not: the
// standard allows digits only, and what is beyond fractions was never meant.
func isNumber(s string) bool {
	digits, dots := 0, 0
	for _, c := range s {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c == '.':
			dots++
		default:
			return false
		}
	}
	return digits > 0 && dots <= 1
}

// parseNumber reads what isNumber accepts; more than a float can hold is +Inf.
func parseNumber(s string) float64 {
	n, _ := strconv.ParseFloat(s, 64) // the only error left is ErrRange, with +Inf
	return n
}

// parseInstant reads the dates of HTTP and RFC 3339, also without its seconds.
// A date needs its zone: without one it has no certain meaning.
func parseInstant(s string, clock time.Time) (time.Time, bool) {
	if t, ok := parseHTTPDate(s, clock); ok {
		return t, true
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// parseHTTPDate reads the three forms of RFC 9110, section 5.6.7, and two
// common misspellings: a day of one digit, and a numeric zone.
func parseHTTPDate(s string, clock time.Time) (time.Time, bool) {
	if t, err := time.Parse(time.RFC850, s); err == nil {
		return slideCentury(t, clock), true
	}
	if t, err := http.ParseTime(s); err == nil {
		return t, true
	}
	for _, layout := range []string{"Mon, 2 Jan 2006 15:04:05 GMT", time.RFC1123Z} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// slideCentury places a year of two digits: RFC 9110 takes the latest year with
// those digits that is not more than 50 years ahead.
func slideCentury(t, clock time.Time) time.Time {
	latest := clock.AddDate(50, 0, 0)
	for t.After(latest) {
		t = t.AddDate(-100, 0, 0)
	}
	for next := t.AddDate(100, 0, 0); !next.After(latest); next = t.AddDate(100, 0, 0) {
		t = next
	}
	return t
}

// parseDuration reads a duration with units, such as 30s or 6m0s, and the
// timespan form hours:minutes:seconds with an optional fraction.
func parseDuration(s string) (time.Duration, bool) {
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		return 0, false
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d, true
	}
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return 0, false
	}
	var seconds float64
	for i, part := range parts {
		if !isNumber(part) || i < 2 && strings.Contains(part, ".") {
			return 0, false
		}
		seconds = seconds*60 + parseNumber(part)
	}
	return clamp(seconds * float64(time.Second)), true
}
