package limit

import "time"

// Observation is what a response told us about a limit.
type Observation struct {
	At      Instant       // when the response came
	Slot    Instant       // the slot of its call; 0: not known
	Refused bool          // the API said "not now"
	RetryAt Instant       // when it said to come back; 0: it did not
	Reason  string        // shown to people while the pause lasts
	Cost    int64         // of its call; 0: 1
	Latency time.Duration // of the call; kept for later use, the state does not learn from it yet
	Job     int64         // whose call it was; 0: nobody's. Remembered of a refusal, for people

	// LeftKnown says that the API told how many calls are left of its own count,
	// and when that resets. Of a refusal they do not matter.
	LeftKnown  bool
	Left       int64
	Whole      int64   // of how many; 0: it did not say
	ResetAt    Instant // 0: it did not say
	LeftByCost bool    // Left and Whole count permits, by cost; else calls, 1 for each
}

const (
	backoffFirst = Instant(time.Second / time.Microsecond)
	backoffMax   = Instant(time.Minute / time.Microsecond)
)

// Observe learns from a response. A refusal pauses the limit until RetryAt, at
// most 24 h, or, if the API stated no wait, for 1 s doubling to 60 s, give or
// take a quarter by random, which is from [0,1). A pause only grows until it
// lapses.
//
// Refusals come in episodes: when one call is refused, those already on their
// way are refused too. Of an episode only the first refusal counts for the
// back-off and for the guard. It grows the guard if a call passed since the
// episode before: one that goes on is no matter of jitter. A success ends the
// run of back-offs, unless its call started before the last refusal came.
//
// What the API says is left bounds what starts until its reset, at most 24 h.
// With none left the limit waits for the reset, which is no refusal, and then goes
// on as after a pause. It never allows more than the spec. Where it is our own
// calls that are missing, it changes nothing.
//
// Observe reports whether asks may start earlier than could be known before.
func (s *State) Observe(sp Spec, o Observation, random float64) (loosened bool) {
	at, slot := clampInstant(o.At), clampInstant(o.Slot)
	s.repair(at)
	if !o.Refused && o.LeftKnown {
		loosened = s.heed(sp, o, at, slot)
	}
	if slot == 0 {
		slot = at
	}
	if !o.Refused {
		s.succeeded(sp, at, slot)
		return loosened
	}
	s.refused.add(at)
	paused := s.api.until > at
	first := !paused && (s.episode == 0 || slot > s.episode)
	until := Instant(0)
	switch {
	case o.RetryAt > at:
		until = min(o.RetryAt, at+maxAPIPause)
	case first:
		until = at + backoff(s.backoffs, random)
		s.backoffs = min(s.backoffs+1, 16)
	}
	if until = min(until, maxInstant); until > at && (!paused || until > s.api.until) {
		since := at
		if paused {
			since = s.api.since
		}
		s.api = pause{until, cleanReason(o.Reason), since}
		s.refused.cause = Refusal{At: at, Job: max(0, o.Job)}
	}
	if first {
		if s.episode == 0 || s.lastSuccess > s.episode {
			s.growGuard(sp)
		}
		s.episode = max(at, s.last)
	}
	s.quietSince = at
	return false
}

func (s *State) succeeded(sp Spec, at, slot Instant) {
	s.lastSuccess = max(s.lastSuccess, at)
	s.quiet(sp, at)
	if slot <= s.episode {
		return
	}
	s.backoffs = 0
	// The resumption is behind us: lapsed pauses have done their work.
	if s.api.until <= min(at, s.last) {
		s.api = pause{}
	}
	if s.person.until <= min(at, s.last) {
		s.person = pause{}
	}
}

// backoff is the wait after this many back-offs in a row.
func backoff(run int64, random float64) Instant {
	d := min(backoffFirst<<min(max(run, 0), 10), backoffMax)
	if !(random >= 0 && random < 1) { // also when it is not a number
		random = 0.5
	}
	return Instant(float64(d) * (0.75 + random/2))
}
