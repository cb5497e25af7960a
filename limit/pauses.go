package limit

// A Pause is one that holds a limit shut.
type Pause struct {
	Until  Instant // Never: until somebody resumes it; 0: there is none
	Since  Instant // 0: not known
	Reason string
}

// Pauses tells of the pause by a person and of that by the API, each by itself.
// Both may last at once; the limit opens when the later one ends.
func (s *State) Pauses(now Instant) (person, api Pause) {
	now = clampInstant(now)
	if s.person.until > now {
		person = Pause{s.person.until, s.person.since, s.person.reason}
	}
	if u := s.apiUntil(now); u > now {
		api = Pause{u, s.api.since, s.api.reason}
	}
	return person, api
}
