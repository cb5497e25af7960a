// Package header reads what an HTTP response says about a rate limit: whether
// the call was refused for being over it, how long the API asks to wait, and how
// many calls are left.
//
// The package is pure. It reads no clock, keeps nothing, and never fails: what
// it can not understand counts as not said, so that a strange header never
// costs a job more than ordinary backoff.
package header

import (
	"net/http"
	"strings"
	"time"
)

// Longest is the longest wait an Observation can carry; larger values are
// clamped to it (292 years). Callers keep a cap of their own that makes sense.
const Longest = time.Duration(1<<63 - 1)

// Observation is what one response told us about a limit.
type Observation struct {
	// Limited says that the API refused the call because of a limit, or because
	// it is overloaded: "not now", which is no failure of the call.
	Limited bool
	// RetryAfter is how long the API asks to wait, counted from the response;
	// never negative, 0 unless Stated. A stated 0 is an invitation to come back
	// at once: callers must still slow down if the refusals go on.
	RetryAfter time.Duration
	// Stated says that the API named a wait. Without one, the caller's ordinary
	// backoff with jitter applies.
	Stated bool
	// Source is the header the wait was read from, such as "Retry-After"; empty
	// unless Stated.
	Source string
	// Left is what is left of the tightest window that counts calls: the one of
	// which fewest are left. LeftUnits is the same of windows that count something
	// else, such as tokens. They are read whatever the status.
	Left, LeftUnits Left
}

// Read reads a response that was received at now. The body is for APIs that tell
// of their limit only there; nothing is read from it yet.
//
// An explicit wait is kept on any status. A wait derived from the reset time of
// a used-up window counts only where the call was refused, and only where no
// explicit one was given. The names of headers are matched in any letter case.
//
// Limited are 429, its unofficial alias 420, and 529 (overload). A 403 is
// limited if it says when to come back or shows a used-up window, else it means
// "no permission". A 503 is limited only if it shows a used-up window: with no
// more than a Retry-After it is an outage, whose wait is kept.
func Read(status int, h http.Header, body []byte, now time.Time) Observation {
	clock := serverClock(h, now)
	stated := explicitWait(h, clock)
	reset := resetWait(h, clock)

	var o Observation
	o.Left, o.LeftUnits = leftIn(h, clock)
	switch status {
	case http.StatusTooManyRequests, 420, 529:
		o.Limited = true
	case http.StatusForbidden:
		o.Limited = stated.found || stated.past || reset.exhausted
	case http.StatusServiceUnavailable:
		o.Limited = reset.exhausted
	}
	switch {
	case stated.found:
		o.Stated, o.RetryAfter, o.Source = true, stated.wait, stated.source
	case o.Limited && reset.found:
		o.Stated, o.RetryAfter, o.Source = true, reset.wait, reset.source
	}
	return o
}

// finding is a wait found in the headers.
type finding struct {
	found  bool
	wait   time.Duration
	source string
	// past: a header named an instant that is over, so it gives no wait.
	past bool
	// exhausted: a window shows that nothing is left of it.
	exhausted bool
}

// keepLongest takes over a wait if it is the longest so far.
func (f *finding) keepLongest(wait time.Duration, source string) {
	if !f.found || wait > f.wait || wait == f.wait && source < f.source {
		f.found, f.wait, f.source = true, wait, source
	}
}

// serverClock is the instant against which the response's absolute times are
// measured. The server's own Date removes any difference between the clocks; a
// response with an Age lay in a cache, so its Date is old and the local clock
// is better. Of several dates the earliest counts: it gives the longest wait.
func serverClock(h http.Header, now time.Time) time.Time {
	if len(values(h, "Age")) > 0 {
		return now
	}
	clock, found := now, false
	for _, v := range values(h, "Date") {
		if t, ok := parseHTTPDate(v, now); ok && (!found || t.Before(clock)) {
			clock, found = t, true
		}
	}
	return clock
}

// values returns the trimmed, non-empty values of a header, whatever the letter
// case of its name: http.Header finds other spellings only if they came through
// net/http.
func values(h http.Header, name string) []string {
	var all []string
	for key, vs := range h {
		if len(key) < len(name) || !strings.EqualFold(strings.TrimSpace(key), name) {
			continue
		}
		for _, v := range vs {
			if v = strings.TrimSpace(v); v != "" {
				all = append(all, v)
			}
		}
	}
	return all
}
