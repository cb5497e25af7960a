package limit

import (
	"encoding/hex"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What the first version of the stored form wrote is still read.
func TestFirstStoredForm(t *testing.T) {
	const old = "010200000000000008408089f3c1c1c482030380f104c0843dc096aac3c1c48203c096aac3c1c482030000808ec7ddc1c4820380c8c7f5cec4820304736c6f77066465706c6f7980addbc5c1c4820380dabdcac1c482030805070000000000000003030003c0843d02c0843d01"
	b, err := hex.DecodeString(old)
	if err != nil {
		t.Fatal(err)
	}
	var s State
	if err := s.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	until, byPerson, reason := s.Paused(testStart)
	person, _ := s.Pauses(testStart)
	if until != testStart+hour || !byPerson || reason != "deploy" || s.InFlight() != 3 || person.Since != 0 {
		t.Errorf("read %+v", s)
	}
	if back := reload(t, &s); !reflect.DeepEqual(back, s) {
		t.Errorf("stored again it is %+v, was %+v", back, s)
	}
	// The new part cannot be smuggled into the old form.
	b[1] |= flagPast
	if err := s.UnmarshalBinary(b); err == nil {
		t.Error("flags of version 2 in version 1 were read")
	}
}

func TestCauseOfAPause(t *testing.T) {
	sp := mustParse(t, "5/s")
	var s State
	if _, ok := s.Cause(); ok {
		t.Error("a fresh limit has a cause")
	}
	refused := func(at Instant, job int64, wait Instant) {
		s.Observe(sp, Observation{At: at, Slot: at, Refused: true, RetryAt: at + wait, Job: job}, 0.5)
	}
	want := func(what string, since Instant, cause Refusal) {
		t.Helper()
		got, _ := s.Cause()
		paused, api := s.Pauses(testStart + 10*second)
		if paused.Until == 0 {
			paused = api
		}
		if got != cause || paused.Since != since {
			t.Errorf("%s: since %d, cause %+v; expected %d, %+v", what, paused.Since, got, since, cause)
		}
		s = reload(t, &s)
	}
	refused(testStart, 7, minute)
	want("first", testStart, Refusal{testStart, 7})
	refused(testStart+second, 8, second)
	want("one that adds nothing", testStart, Refusal{testStart, 7})
	refused(testStart+2*second, 9, hour)
	want("one that makes it longer", testStart, Refusal{testStart + 2*second, 9})
	s.PauseByPerson(testStart+3*second, Never, "")
	want("a person's counts first", testStart+3*second, Refusal{testStart + 2*second, 9})
	s.Resume()
	want("what it was is kept", 0, Refusal{testStart + 2*second, 9})
}

func TestHistoryCounts(t *testing.T) {
	sp := mustParse(t, "100/s")
	var s State
	for i := range Instant(10) {
		s.Take(sp, Ask{Cost: i + 1}, testStart+i*second)
	}
	for range 3 {
		s.Observe(sp, Observation{At: testStart + 9*second, Refused: true}, 0.5)
	}
	granted, refused := s.History(testStart+9*second, 2*time.Second, 5)
	// The last period is after 7 s, up to 9 s.
	if want := []int64{1 + 2, 3 + 4, 5 + 6, 7 + 8, 9 + 10}; !slices.Equal(granted, want) {
		t.Errorf("granted %v, expected %v", granted, want)
	}
	if want := []int64{0, 0, 0, 0, 3}; !slices.Equal(refused, want) {
		t.Errorf("refused %v, expected %v", refused, want)
	}
	if g, r := s.History(testStart, 0, 0); len(g)+len(r) != 0 {
		t.Error("no periods asked for, some came")
	}
}

// However many there are, the history loses none that is young enough, and the
// state stays small.
func TestHistoryIsBoundedAndLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp, _ := Parse("20/s")
		var s State
		now, took := testStart, int64(0)
		n := rapid.IntRange(0, 600).Draw(t, "events")
		r := int64(0)
		for range n {
			now += rapid.Int64Range(0, 3*second).Draw(t, "step")
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				s.Observe(sp, Observation{At: now, Refused: true}, 0.5)
				r++
				continue
			}
			s.Take(sp, Ask{Cost: 2}, now)
			took += 2
		}
		if len(s.refused.log) > maxRefusals {
			t.Fatalf("%d entries of refusals, at most %d", len(s.refused.log), maxRefusals)
		}
		granted, refused := s.History(now, time.Minute, 60)
		sum := func(v []int64) (all int64) {
			for _, x := range v {
				all += x
			}
			return all
		}
		if sum(granted) != took || sum(refused) != r {
			t.Fatalf("history has %d permits and %d refusals, there were %d and %d", sum(granted), sum(refused), took, r)
		}
		s = reload(t, &s)
	})
}

func TestRefusalsAfterAClockThatWasPutBack(t *testing.T) {
	sp := mustParse(t, "5/s")
	var s State
	s.Observe(sp, Observation{At: testStart + 48*hour, Refused: true, Job: 3}, 0.5)
	s.Observe(sp, Observation{At: testStart, Refused: true, Job: 4}, 0.5)
	if c, _ := s.Cause(); c.Job != 4 || len(s.refused.log) != 1 || s.refused.log[0].at != testStart {
		t.Errorf("cause %+v, refusals %+v", c, s.refused.log)
	}
}

func TestUse(t *testing.T) {
	sp := mustParse(t, "5/s, 100/day@UTC")
	var s State
	day := testStart - testStart%(24*hour)
	for _, at := range []Instant{day - hour, day + hour, day + hour + second/2, day + hour + second} {
		s.Take(sp, Ask{Cost: 2}, at)
	}
	for i, want := range []int64{4, 6} {
		used, of := s.Use(sp.Rates[i], day+hour+second)
		if n, _ := sp.Rates[i].Limit(); used != want || of != n {
			t.Errorf("%v: %d of %d, expected %d of %d", sp.Rates[i], used, of, want, n)
		}
	}
}
