package limit

import "testing"

// Two pauses at once keep their own ends and reasons, whichever ends first.
func TestPausesAtOnce(t *testing.T) {
	const now, minute = Instant(1_000_000_000_000), Instant(60_000_000)
	for _, personFirst := range []bool{true, false} {
		var s State
		ends := map[bool]Instant{true: now + 10*minute, false: now + 120*minute}
		byPerson, byAPI := ends[personFirst], ends[!personFirst]
		s.Observe(Spec{}, Observation{At: now, Refused: true, RetryAt: byAPI, Reason: "429"}, 0)
		s.PauseByPerson(now-minute, byPerson, "deploy")
		person, api := s.Pauses(now)
		if want := (Pause{byPerson, now - minute, "deploy"}); person != want {
			t.Errorf("a person's is %+v, want %+v", person, want)
		}
		if want := (Pause{byAPI, now, "429"}); api != want {
			t.Errorf("the API's is %+v, want %+v", api, want)
		}
		person, api = s.Pauses(min(byPerson, byAPI))
		if (person == Pause{}) != personFirst || (api == Pause{}) == personFirst {
			t.Errorf("after the first has ended: %+v and %+v", person, api)
		}
		s.Resume()
		if person, api = s.Pauses(now); person != (Pause{}) || api != (Pause{}) {
			t.Errorf("resumed: %+v and %+v", person, api)
		}
	}
}
