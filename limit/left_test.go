package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// say is an answer to the call of a slot that says what is left.
func say(at, slot Instant, n, whole int64, reset Instant) Observation {
	return Observation{At: at, Slot: slot, LeftKnown: true, Left: n, Whole: whole, ResetAt: reset}
}

// starts takes one call after another until an instant, as early as it can.
func starts(s *State, sp Spec, from, until Instant) (slots []Instant) {
	for now := from; ; {
		at, _ := s.Earliest(sp, Ask{Cost: 1}, now)
		if at > until {
			return slots
		}
		s.Take(sp, Ask{Cost: 1}, at)
		s.Release(sp, 1, at, at, false)
		slots, now = append(slots, at), at
	}
}

// used is a state whose last call had this slot and has been answered.
func used(sp Spec, slot Instant) (s State) {
	s.Take(sp, Ask{Cost: 1}, slot)
	return s
}

func TestNoMoreThanIsLeft(t *testing.T) {
	sp := mustParse(t, "10/s")
	s := used(sp, testStart)
	s.Observe(sp, say(testStart+second, testStart, 7, 20, testStart+minute), 0)
	slots := starts(&s, sp, testStart+second, testStart+minute-1)
	if len(slots) != 7 {
		t.Fatalf("%d calls before the reset, want the 7 that are left", len(slots))
	}
	if d := slots[6] - slots[0]; d > second {
		t.Errorf("the last of 7 is %v behind the first, want the limit's pace", micro(d))
	}
	if at, why := s.Earliest(sp, Ask{Cost: 1}, slots[6]); at != testStart+minute || why != Announced {
		t.Errorf("the next call is at %d (%v), want at the reset", at-testStart, why)
	}
	if l, ok := s.Left(slots[6]); !ok || l != (Left{Of: 20, Until: testStart + minute, Binds: true}) {
		t.Errorf("left: %+v %v", l, ok)
	}
	// The new window is a new budget.
	if slots := starts(&s, sp, testStart+minute, testStart+minute+3*second); len(slots) < 25 {
		t.Errorf("%d calls in three seconds of the new window", len(slots))
	}
	if _, ok := s.Left(testStart + minute); ok || s.left != (left{}) {
		t.Error("what was left of the old window is still known")
	}
}

// Who waited for a reset does not begin with a burst: perhaps one call came back.
func TestNoBurstAfterAReset(t *testing.T) {
	sp := mustParse(t, "10/s burst 5")
	for n := range int64(2) {
		s := used(sp, testStart)
		s.Observe(sp, say(testStart+second, testStart, n, 20, testStart+minute), 0)
		slots := starts(&s, sp, testStart+minute, testStart+minute+second)
		if together := between(slots, testStart+minute, testStart+minute+1); together != []int{1, 5}[n] {
			t.Errorf("%d calls together at the reset with %d left before it", together, n)
		}
	}
}

// Room counts what is left, and never less than can be taken.
func TestRoomOfWhatIsLeft(t *testing.T) {
	sp := mustParse(t, "10/s")
	s := used(sp, testStart)
	s.Observe(sp, say(testStart+second, testStart, 7, 40, testStart+minute), 0)
	for until := testStart + second; until < testStart+minute; until += second / 2 {
		c := s.Clone()
		taken := int64(len(starts(&c, sp, testStart+second, until)))
		if room := s.Room(sp, 1, testStart+second, until); room < taken || room > taken+2 {
			t.Errorf("room for %d in %v, %d were taken", room, micro(until-testStart), taken)
		}
	}
}

func micro(d Instant) time.Duration { return time.Duration(d) * time.Microsecond }

func TestNothingLeftIsNoRefusal(t *testing.T) {
	sp := mustParse(t, "10/s")
	s := used(sp, testStart)
	guard := s.Guard(sp)
	s.Observe(sp, say(testStart+second, testStart, 0, 20, testStart+hour), 0)
	at, why := s.Earliest(sp, Ask{Cost: 1}, testStart+second)
	if at != testStart+hour || why != Announced {
		t.Errorf("the next call is at %d (%v), want at the reset", at-testStart, why)
	}
	if until, _, _ := s.Paused(testStart + second); until != 0 || s.Guard(sp) != guard || s.backoffs != 0 || s.refused.log != nil {
		t.Error("it counts as a refusal")
	}
	if s.Idle(sp, testStart+hour-1) {
		t.Error("idle before the reset")
	}
	s.Resume()
	if at, _ := s.Earliest(sp, Ask{Cost: 1}, testStart+second); at != testStart+second {
		t.Error("a person cannot end it")
	}
}

func TestLeftIsCapped(t *testing.T) {
	sp := mustParse(t, "10/s")
	s := used(sp, testStart)
	s.Observe(sp, say(testStart, testStart, 0, 0, testStart+1000*hour), 0)
	if at, _ := s.Earliest(sp, Ask{Cost: 1}, testStart); at != testStart+24*hour {
		t.Errorf("waits for %v, want a day", micro(at-testStart))
	}
}

// Calls in flight that the API had not counted yet take their part of what is
// left; those it had counted do not.
func TestCallsInFlightAreCounted(t *testing.T) {
	sp := mustParse(t, "10/s")
	var s State
	for i := range Instant(5) { // 200 ms apart
		s.Take(sp, Ask{Cost: 1}, testStart+i*200_000)
	}
	s.Observe(sp, say(testStart+second, testStart+200_000, 10, 100, testStart+minute), 0)
	if l, _ := s.Left(testStart + second); l.N != 7 {
		t.Errorf("%d left, want 10 less three that started later", l.N)
	}
	s.Observe(sp, say(testStart+second, testStart, 2, 100, testStart+minute), 0)
	if l, _ := s.Left(testStart + second); l.N != 7 {
		t.Errorf("%d left: an older answer was believed", l.N)
	}
	s.Observe(sp, say(testStart+second, testStart, 50, 100, testStart+minute), 0)
	if l, _ := s.Left(testStart + second); l.N != 7 {
		t.Errorf("%d left: an older answer that said more was believed", l.N)
	}
	s.Observe(sp, say(testStart+second, testStart+800_000, 6, 100, testStart+minute), 0)
	if l, _ := s.Left(testStart + second); l.N != 6 {
		t.Errorf("%d left, want the 6 of the newest call", l.N)
	}
	s.Observe(sp, say(testStart+second, testStart+800_000, 0, 100, testStart+minute), 0)
	s.Release(sp, 1, testStart+800_000, testStart+second, false)
	if at, _ := s.Earliest(sp, Ask{Cost: 1}, testStart+second); at != testStart+minute {
		t.Errorf("the next call is %v later, want at the reset", micro(at-testStart-second))
	}
	s = State{}
	for i := range Instant(5) {
		s.Take(sp, Ask{Cost: 1}, testStart+i*200_000)
	}
	s.Observe(sp, say(testStart+second, testStart, 3, 100, testStart+minute), 0)
	s.Release(sp, 1, testStart+800_000, testStart+second, true)
	if l, _ := s.Left(testStart + second); l.N != 0 {
		t.Errorf("%d left: four of three were under way, and one came back", l.N)
	}
	s.Observe(sp, say(testStart+second, testStart+600_000, 6, 100, testStart+minute), 0)
	s.Take(sp, Ask{Cost: 1}, testStart+2*second)
	s.Release(sp, 1, testStart+2*second, testStart+2*second, true)
	if l, _ := s.Left(testStart + 2*second); l.N != 6 {
		t.Errorf("%d left: what was given back is not there again", l.N)
	}
}

// Of calls that start together nobody knows in which order the API counted them,
// until all of them are answered.
func TestAnswersOfABurstComeInAnyOrder(t *testing.T) {
	sp := mustParse(t, "50/s burst 5")
	for _, order := range [][]int64{{9, 8, 7, 6, 5}, {5, 6, 7, 8, 9}, {7, 5, 9, 6, 8}} {
		var s State
		for range 5 {
			s.Take(sp, Ask{Cost: 1}, testStart)
		}
		for i, n := range order {
			s.Observe(sp, say(testStart+1000, testStart, n, 0, testStart+minute), 0)
			if l, _ := s.Left(testStart + 1000); l.N > 5 {
				t.Errorf("%v: %d left after %d answers, there are 5", order, l.N, i+1)
			}
			s.Release(sp, 1, testStart, testStart+1000, false)
		}
		if l, _ := s.Left(testStart + 1000); l.N != 5 {
			t.Errorf("%v: %d left after all answers, want 5", order, l.N)
		}
	}
}

func TestLeftByCost(t *testing.T) {
	sp := mustParse(t, "1000/m")
	for _, byCost := range []bool{false, true} {
		var s State
		s.Take(sp, Ask{Cost: 60}, testStart)
		o := say(testStart+1, testStart, 100, 120, testStart+minute)
		o.LeftByCost, o.Cost = byCost, 60
		if byCost {
			o.Left, o.Whole = 100, 160
		}
		s.Observe(sp, o, 0)
		s.Take(sp, Ask{Cost: 60}, testStart+minute/2)
		at, why := s.Earliest(sp, Ask{Cost: 60}, testStart+minute/2)
		if waits := at == testStart+minute && why == Announced; waits != byCost {
			t.Errorf("by cost %v: 60 of the 40 permits or 99 calls left are at %v (%v)", byCost, micro(at-testStart), why)
		}
	}
}

// A limit of tokens whose API says how many requests are left: those under way
// are as many as they are, whatever they cost.
func TestCallsInFlightOfALimitThatCountsCost(t *testing.T) {
	sp := mustParse(t, "90000/m")
	var s State
	for i := range Instant(4) {
		s.Take(sp, Ask{Cost: 1000}, testStart+i*second)
	}
	o := say(testStart+4*second, testStart, 20, 60, testStart+minute)
	o.Cost = 1000
	s.Observe(sp, o, 0)
	if l, _ := s.Left(testStart + 4*second); l.N != 17 {
		t.Errorf("%d calls left, want 20 less the three under way", l.N)
	}
}

// An API that never says when its windows reset is not believed for long, however
// often it says that nothing is left.
func TestLeftWithoutResetOnlySlows(t *testing.T) {
	for _, tt := range []struct {
		spec string
		low  int
	}{{"10/s", 4}, {"1000/s", 400}, {"0.5/m", 0}, {"unlimited", 0}} {
		sp := mustParse(t, tt.spec)
		s := used(sp, testStart)
		n, now := 0, testStart
		for {
			s.Observe(sp, say(now, s.last, 0, 100, 0), 0)
			at, _ := s.Earliest(sp, Ask{Cost: 1}, now)
			if at > testStart+10*second {
				break
			}
			s.Take(sp, Ask{Cost: 1}, at)
			n, now = n+1, at
		}
		if n < 10*tt.low || next(s, sp, now)-now > 3*minute {
			t.Errorf("%s: %d calls in ten seconds, the next in %v", tt.spec, n, micro(next(s, sp, now)-now))
		}
	}
	sp := mustParse(t, "10/s")
	s := used(sp, testStart)
	before := s.left
	if s.Observe(sp, say(testStart, testStart, 3, 100, 0), 0); s.left != before {
		t.Error("some left, and no reset: that is nothing to go by")
	}
}

func next(s State, sp Spec, now Instant) Instant {
	t, _ := s.Earliest(sp, Ask{Cost: 1}, now)
	return t
}

// Where all that is missing was taken by us, the spec knows as much as the API,
// and the reset, said in whole seconds, must not slow anybody.
func TestOurOwnCallsAreNoNews(t *testing.T) {
	sp := mustParse(t, "50/s")
	var s State
	slots := starts(&s, sp, testStart, testStart+950_000)
	last := slots[len(slots)-1]
	o := say(testStart+960_000, last, 50-int64(len(slots)), 50, testStart+1_960_000)
	free := next(s, sp, testStart+960_000)
	s.Observe(sp, o, 0)
	if got := next(s, sp, testStart+960_000); got != free {
		t.Errorf("the next call is %v later for it", micro(got-free))
	}
	if l, ok := s.Left(testStart + 960_000); !ok || l.Binds || l.Of != 50 {
		t.Errorf("left: %+v %v", l, ok)
	}
	// Now somebody else takes a third of a minute's calls in 20 s, and may take as much again.
	sp = mustParse(t, "60/m")
	s = State{}
	slots = starts(&s, sp, testStart, testStart+20*second)
	s.Observe(sp, say(testStart+20*second, slots[len(slots)-1], 20, 60, testStart+minute), 0)
	if l, _ := s.Left(testStart + 20*second); !l.Binds || l.N != 10 {
		t.Errorf("left: %+v, want half of 20", l)
	}
	if n := len(starts(&s, sp, testStart+20*second, testStart+minute-1)); n != 10 {
		t.Errorf("%d calls before the reset, want 10", n)
	}
}

// News may be good: then somebody has to be told.
func TestMoreLeftIsSaid(t *testing.T) {
	sp := mustParse(t, "10/s")
	s := used(sp, testStart)
	s.Take(sp, Ask{Cost: 1}, testStart+second)
	if s.Observe(sp, say(testStart+2*second, testStart, 0, 100, testStart+hour), 0) {
		t.Error("nothing left is not more than was known")
	}
	if !s.Observe(sp, say(testStart+3*second, testStart+second, 90, 100, testStart+hour), 0) {
		t.Error("90 left is more than none")
	}
	if !s.Observe(sp, say(testStart+4*second, testStart+2*second, 0, 100, testStart+4*second), 0) {
		t.Error("a window that is over is more than 90")
	}
}

func TestMatters(t *testing.T) {
	for _, tt := range []struct {
		name     string
		spec     string
		n, whole int64
		reset    Instant // from now; 0: not said
		want     bool
	}{
		{"plenty of an hour", "10/s", 4000, 5000, hour / 2, false},
		{"the second half of an hour", "10/s", 2400, 5000, hour / 2, true},
		{"more than the spec lets through", "1/s", 2400, 5000, hour / 2, false},
		{"none", "10/s", 0, 5000, hour / 2, true},
		{"none, no reset", "10/s", 0, 5000, 0, true},
		{"some, no reset", "10/s", 3, 5000, 0, false},
		{"over", "10/s", 0, 5000, -1, false},
		{"lower than the spec", "10/s", 5, 6, 900_000, true},
		{"lower than the spec, whole seconds", "10/s", 5, 6, second, false},
		{"none, whole seconds", "10/s", 0, 6, second, true},
		{"a bucket that is nearly full", "50/s", 4, 5, 20_000, false},
		{"as the spec has it", "50/s", 30, 50, 600_000, false},
		{"as the spec has it, whole seconds", "50/s", 2, 50, second, false},
		{"less than the spec has it", "50/s", 10, 50, 600_000, true},
		{"a minute, as the spec has it", "60/m", 30, 60, 30 * second, false},
		{"a minute, shared", "60/m", 10, 60, 30 * second, true},
		{"whole not said", "10/s", 100, 0, minute, true},
		{"no rate", "20 in flight", 10, 100, minute, true},
		{"a day", "10000/day", 3000, 10000, 12 * hour, true},
	} {
		o := say(testStart+7, testStart, tt.n, tt.whole, testStart+7+tt.reset)
		if tt.reset == 0 {
			o.ResetAt = 0
		}
		if got := o.Matters(mustParse(t, tt.spec)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if !(Observation{}).Matters(Spec{}) || !(Observation{Refused: true, LeftKnown: true, Left: 5}).Matters(Spec{}) {
		t.Error("what says nothing of what is left always matters")
	}
}

// Whatever is said in whatever order, what is known to be left is never exceeded
// before its reset, and slots never go back.
func TestNeverMoreThanIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := drawSpec(t)
		sp.InFlight = 0
		s, now := drawState(t, sp)
		s.Resume()
		o := drawLeft(t, Observation{At: now, Slot: max(now, s.LastSlot())})
		o.ResetAt = now + 1 + drawStep(t)
		s.Observe(sp, o, 0)
		l, ok := s.Left(now)
		if !ok || !l.Binds {
			return
		}
		if l.N > o.Left {
			t.Fatalf("%d left, %d were said", l.N, o.Left)
		}
		taken, last := int64(0), s.LastSlot()
		for range 60 {
			now += drawStep(t) / 50
			a := drawAsk(t, sp)
			at, why := s.Earliest(sp, a, now)
			if at < last || at < now {
				t.Fatalf("a slot at %d, behind %d and %d", at, last, now)
			}
			if again, _ := s.Earliest(sp, a, at); again != at {
				t.Fatalf("promised %d (%v), at that instant %d", at, why, again)
			}
			if why == Announced && at > now {
				if early, _ := s.Earliest(sp, a, at-1); early != at {
					t.Fatalf("announced for %d, and a microsecond before it %d", at, early)
				}
			}
			if at >= l.Until {
				return
			}
			s.Take(sp, a, at)
			now, last = max(now, at), at
			if taken++; l.ByCost {
				taken += a.Cost - 1
			}
			if taken > l.N {
				t.Fatalf("%d taken of %d that were left", taken, l.N)
			}
			if rapid.IntRange(0, 9).Draw(t, "stored") == 0 {
				s = reload(t, &s)
			}
		}
	})
}
