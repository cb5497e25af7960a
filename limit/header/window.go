package header

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// resetWait finds how long until the used-up windows of the response reset, by
// headers named like X-RateLimit-Remaining and X-RateLimit-Reset. A word more
// in the name, such as X-RateLimit-Remaining-Tokens, is a window of its own.
// The latest reset counts, as the call needs room in all of them.
//
// A window that does not say what remains is taken as used up if no other says
// so either: on a refusal, its reset is the best there is. One that says that
// something remains is not what refused the call.
func resetWait(h http.Header, clock time.Time) finding {
	var used, silent finding
	for _, key := range windowNames(h) {
		remaining, said := remainingIn(h, key)
		if said && remaining > 0 {
			continue
		}
		f := &silent
		if said {
			f, used.exhausted = &used, true
		}
		for _, word := range []string{"reset-after", "reset"} { // the first is exact, the second often cut to seconds
			before := f.found
			readResets(f, h, strings.Replace(key, "*", word, 1), clock)
			if f.found && !before {
				break
			}
		}
	}
	if used.exhausted {
		return used
	}
	return silent
}

// windowNames lists the windows the headers speak of, in order: the names with
// a * where "remaining" or "reset" stood.
func windowNames(h http.Header) []string {
	var keys []string
	for name := range h {
		name = strings.ToLower(strings.TrimSpace(name))
		if !strings.Contains(name, "ratelimit") && !strings.Contains(name, "rate-limit") {
			continue
		}
		for _, word := range []string{"remaining", "reset-after", "reset", "used"} {
			if strings.Contains(name, word) {
				keys = append(keys, strings.Replace(name, word, "*", 1))
				break
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// remainingIn is what the window has left, the least if it is said twice. A
// negative number is none left, unless the limit is negative, too: some APIs
// send -1 for "unlimited".
func remainingIn(h http.Header, key string) (least float64, said bool) {
	limits := values(h, strings.Replace(key, "*", "limit", 1))
	unlimited := len(limits) > 0 && strings.HasPrefix(limits[0], "-")
	for _, v := range values(h, strings.Replace(key, "*", "remaining", 1)) {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(n) || n < 0 && unlimited {
			continue
		}
		if !said || n < least {
			least, said = n, true
		}
	}
	return least, said
}

// readResets reads the reset times of one window. A reset that has just passed
// is a wait of 0: the window is open again.
func readResets(f *finding, h http.Header, name string, clock time.Time) {
	unit := time.Second
	if strings.HasSuffix(name, "-ms") {
		unit = time.Millisecond
	}
	for _, v := range values(h, name) {
		wait, ok := parseReset(v, unit, clock)
		if ok {
			f.keepLongest(max(wait, 0), http.CanonicalHeaderKey(name))
		}
	}
}

// parseReset reads a reset time. Its unit is told from its size: no window is
// 30 years long, so a number from 1e9 up is an epoch, of seconds, milliseconds,
// microseconds or nanoseconds.
func parseReset(s string, unit time.Duration, clock time.Time) (time.Duration, bool) {
	if isNumber(s) {
		n := parseNumber(s)
		switch {
		case n >= 1e20:
			return Longest, true
		case n >= 1e17:
			return epoch(n / 1e9).Sub(clock), true
		case n >= 1e14:
			return epoch(n / 1e6).Sub(clock), true
		case n >= 1e11:
			return epoch(n / 1e3).Sub(clock), true
		case n >= 1e9:
			return epoch(n).Sub(clock), true
		}
	}
	wait, _, ok := parseWait(s, unit, clock)
	return wait, ok
}
