package limit

import (
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxAPIPause = Instant(24 * time.Hour / time.Microsecond)
	maxReason   = 200 // bytes
)

// pause holds a limit shut until an instant. One that has lapsed is kept until
// a success is seen, because the resumption after it must not burst.
type pause struct {
	until  Instant // 0: none
	reason string
	since  Instant // when it began; 0: not known
}

// PauseByPerson pauses the limit from now until an instant, or until Resume if
// that is Never. It replaces an earlier pause by a person and leaves the API's
// alone.
func (s *State) PauseByPerson(now, until Instant, reason string) {
	if until != Never {
		until = clampInstant(until)
	}
	s.person = pause{until, cleanReason(reason), clampInstant(now)}
}

// Resume ends the pauses of a person and of the API, and forgets what the API said
// is left. What the spec says stays. The resumption does not burst.
func (s *State) Resume() {
	s.drained = s.drained || s.api.until != 0 || s.person.until != 0 || s.left.reset != 0 && !s.left.ours
	s.left = left{}
	s.api, s.person = pause{}, pause{}
}

// Paused says until when the limit is paused, by whom and why. Until is 0 if it
// is not; Never if a person paused it without end. When both a person and the
// API pause it, until is the later instant and the reason is the person's.
func (s *State) Paused(now Instant) (until Instant, byPerson bool, reason string) {
	now = clampInstant(now)
	if u := s.apiUntil(now); u > now {
		until, reason = u, s.api.reason
	}
	if s.person.until > now {
		return max(until, s.person.until), true, s.person.reason
	}
	return until, false, reason
}

// apiUntil is the end of the API's pause, 0 if a clock that was put back since
// makes it longer than a pause can be.
func (s *State) apiUntil(now Instant) Instant {
	if s.api.until > now+maxAPIPause+maxAhead {
		return 0
	}
	return s.api.until
}

// cleanReason makes a text safe to store and print: valid UTF-8, no control
// characters, at most 200 bytes.
func cleanReason(s string) string {
	if len(s) > 4*maxReason {
		s = s[:4*maxReason]
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= maxReason {
		return s
	}
	s = s[:maxReason]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}
