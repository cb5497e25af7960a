package limit

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func sample() State {
	sp, _ := Parse("50/s, 10000/day@UTC")
	var s State
	for i := range Instant(300) {
		s.Take(sp, Ask{Cost: 1 + i%3}, testStart+i*20_000)
	}
	s.Observe(sp, Observation{At: testStart, Refused: true, Reason: "slow down"}, 0.3)
	s.PauseByPerson(testStart, Never, "deploy")
	s.Resume()
	s.PauseByPerson(testStart, testStart+hour, "again")
	s.Observe(sp, Observation{At: testStart + 9*second, Refused: true, RetryAt: testStart + minute, Reason: "Ü", Job: math.MaxInt64}, 0.3)
	s.Observe(sp, Observation{At: testStart + 9*second, Slot: testStart + 7*second, LeftKnown: true, Left: 50, Whole: 60, ResetAt: testStart + minute, LeftByCost: true}, 0)
	s.Book(Booking{At: testStart + 10*second, Expires: testStart + 20*second, Cost: 8, Priority: -3, Holder: math.MaxUint64})
	return s
}

func TestStoredFormIsComplete(t *testing.T) {
	s := sample()
	if back := reload(t, &s); !reflect.DeepEqual(back, s) {
		t.Fatalf("stored %+v\n  came back as %+v", s, back)
	}
	// Every field must be set in the sample, or the test proves less than it says.
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "lastSuccess" && name != "backoffs" {
			t.Errorf("field %s is not tried", name)
		}
	}
	var zero, fresh State
	if err := fresh.UnmarshalBinary(nil); err != nil || !reflect.DeepEqual(fresh, zero) {
		t.Fatal("nothing stored is not the zero state")
	}
	if back := reload(t, &zero); !reflect.DeepEqual(back, zero) {
		t.Fatal("the zero state does not come back")
	}
}

// A limit of which the API says nothing is stored as by older versions, and what
// they stored is read.
func TestStoredFormWithoutLeftIsTheOld(t *testing.T) {
	s := sample()
	with := stored(t, &s)
	s.left = left{}
	b := stored(t, &s)
	if b[0] != 3 || len(with) <= len(b) {
		t.Errorf("version %d of %d bytes, %d with what is left", b[0], len(b), len(with))
	}
	if back := reload(t, &s); !reflect.DeepEqual(back, s) {
		t.Errorf("stored %+v\n  came back as %+v", s, back)
	}
	if grown := len(with) - len(b); grown > 32 {
		t.Errorf("what is left takes %d bytes, want at most 32", grown)
	}
}

func TestAnyStateIsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := drawSpec(t)
		s, now := drawState(t, sp)
		back := reload(t, &s)
		a := drawAsk(t, sp)
		at1, why1 := s.Earliest(sp, a, now)
		if at2, why2 := back.Earliest(sp, a, now); at1 != at2 || why1 != why2 {
			t.Fatalf("%d %v became %d %v", at1, why1, at2, why2)
		}
	})
}

func TestUnmarshalRefusesGarbage(t *testing.T) {
	s := sample()
	good := stored(t, &s)
	check := func(name string, b []byte) {
		t.Helper()
		victim := sample()
		before := stored(t, &victim)
		if err := victim.UnmarshalBinary(b); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
		if string(stored(t, &victim)) != string(before) {
			t.Errorf("%s: the state was changed", name)
		}
	}
	for n := 1; n < len(good); n++ {
		check("cut short", good[:n])
	}
	check("longer", append(append([]byte{}, good...), 0))
	check("another version", append([]byte{99}, good[1:]...))
	check("unknown flags", append([]byte{1, 0xff}, good[2:]...))
	check("a flag that the version had not", append([]byte{3}, good[1:]...))
	check("a debt that is no number", append([]byte{1, good[1], 255, 255, 255, 255, 255, 255, 255, 255}, good[10:]...))
	twin := State{last: testStart, log: slotLog{charges: []charge{{testStart, 1}, {testStart, 1}}}}
	check("charges at one instant", stored(t, &twin))
	check("text", []byte("not a state at all"))
}

func FuzzUnmarshal(f *testing.F) {
	s := sample()
	b, _ := s.MarshalBinary()
	f.Add(b)
	f.Add([]byte{})
	f.Add([]byte{1, 0})
	z, _ := new(State).MarshalBinary()
	f.Add(z)
	f.Fuzz(func(t *testing.T, b []byte) {
		var s State
		if err := s.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatal(err)
			}
			return
		}
		sp, _ := Parse("5/s, 100/day@UTC, 9 in flight")
		s.Room(sp, 1, testStart, testStart+hour)
		s.Observe(sp, Observation{At: testStart, Refused: true}, 0.5)
		s.Release(sp, 3, s.LastSlot(), testStart, true)
		at, _ := s.Earliest(sp, Ask{Cost: 2}, testStart)
		if at < testStart {
			t.Fatalf("a slot at %d", at)
		}
		s.Take(sp, Ask{Cost: 2}, testStart)
		reload(t, &s)
	})
}
