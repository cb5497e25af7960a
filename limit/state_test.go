package limit

import (
	"slices"
	"testing"
	"time"
)

const (
	second = Instant(1_000_000)
	minute = 60 * second
	hour   = 60 * minute
)

func at(t testing.TB, rfc3339 string) Instant {
	t.Helper()
	x, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		t.Fatal(err)
	}
	return x.UnixMicro()
}

// takeAll takes asks of cost 1 as they become possible from now until an
// instant, and returns the slots.
func takeAll(s *State, sp Spec, now, until Instant, most int) (slots []Instant) {
	for len(slots) < most {
		at, _ := s.Earliest(sp, Ask{Cost: 1}, now)
		if at > until {
			break
		}
		s.Take(sp, Ask{Cost: 1}, at)
		now = max(now, at)
		slots = append(slots, at)
	}
	return slots
}

// fullest is the largest number of slots, in order, in a window of this length.
func fullest(slots []Instant, window Instant) int {
	starts := make([]charge, len(slots))
	for i, at := range slots {
		starts[i] = charge{at, 1}
	}
	return int(fullestBySum(starts, window))
}

func TestSlots(t *testing.T) {
	const g = 50_000 // the guard of a window of one second
	for _, c := range []struct {
		spec  string
		until Instant
		want  []Instant // from testStart
	}{
		{"5/s", second + g, []Instant{0, 210_000, 420_000, 630_000, 840_000, second + g}},
		{"5/s burst 5", second + g, []Instant{0, 0, 0, 0, 0, second + g}},
		{"5/s burst 2", second, []Instant{0, 0, 210_000, 420_000, 630_000}},
		{"3/2m", 3 * minute, []Instant{0, 0, 0, 2*minute + 500_000, 2*minute + 500_000, 2*minute + 500_000}},
		{"0.5/m", 5 * minute, []Instant{0, 2*minute + 500_000, 4*minute + 1_000_000}},
		{"10/s, 3/m", minute + 200_000, []Instant{0, 105_000, 210_000, minute + g, minute + g + 105_000}},
		{"unlimited", 0, []Instant{0, 0, 0}},
		{"2 in flight", hour, []Instant{0, 0}},
		{"paused", hour, nil},
		{"5/s, paused", hour, nil},
	} {
		var s State
		got := takeAll(&s, mustParse(t, c.spec), testStart, testStart+c.until, max(3, len(c.want)))
		if len(got) != len(c.want) {
			t.Errorf("%s: %d slots, want %d", c.spec, len(got), len(c.want))
			continue
		}
		for i := range got {
			if got[i]-testStart != c.want[i] {
				t.Errorf("%s: slot %d at %d, want %d", c.spec, i, got[i]-testStart, c.want[i])
			}
		}
	}
}

func TestWhy(t *testing.T) {
	for _, c := range []struct {
		spec string
		prep func(*State, Spec)
		cost int64
		want Why
	}{
		{"5/s", func(s *State, sp Spec) {}, 1, None},
		{"5/s", func(s *State, sp Spec) { s.Take(sp, Ask{Cost: 1}, testStart) }, 1, Pacing},
		{"1/s", func(s *State, sp Spec) { s.Take(sp, Ask{Cost: 1}, testStart) }, 1, Window},
		{"5/day@UTC", func(s *State, sp Spec) { s.Take(sp, Ask{Cost: 5}, testStart) }, 1, Window},
		{"5/s", func(s *State, sp Spec) {}, 6, TooCostly},
		{"1 in flight", func(s *State, sp Spec) { s.Take(sp, Ask{Cost: 1}, testStart) }, 1, Full},
		{"paused", func(s *State, sp Spec) {}, 1, PausedBySpec},
		{"5/s", func(s *State, sp Spec) { s.PauseByPerson(testStart, Never, "") }, 1, PausedByPerson},
		{"5/s", func(s *State, sp Spec) { s.PauseByPerson(testStart, testStart+1, "") }, 1, PausedByPerson},
		{"unlimited", func(s *State, sp Spec) { s.Observe(sp, Observation{At: testStart, Refused: true}, 0) }, 1, PausedByAPI},
		{"5/s", func(s *State, sp Spec) {
			s.Book(Booking{At: testStart, Expires: testStart + second, Cost: 5, Priority: 5, Holder: 9})
		}, 1, Booked},
	} {
		var s State
		sp := mustParse(t, c.spec)
		c.prep(&s, sp)
		got, why := s.Earliest(sp, Ask{Cost: c.cost, Priority: 5, Holder: 1}, testStart)
		if why != c.want || (why == None) != (got == testStart) {
			t.Errorf("%s: %v at %d, want %v", c.spec, why, got-testStart, c.want)
		}
		if why.String() == "" || Why(99).String() != "Why(99)" {
			t.Error("a reason has no text")
		}
	}
}

// The in-flight cap counts calls, whatever they cost; a release opens it.
func TestInFlightCountsCalls(t *testing.T) {
	var s State
	sp := mustParse(t, "100/s, 2 in flight")
	s.Take(sp, Ask{Cost: 7}, testStart)
	s.Take(sp, Ask{Cost: 7}, testStart+second)
	if got, why := s.Earliest(sp, Ask{Cost: 1}, testStart+2*second); got != Never || why != Full {
		t.Fatalf("with two in flight: %d, %v", got, why)
	}
	s.Release(sp, 7, testStart, testStart+2*second, false)
	if got, why := s.Earliest(sp, Ask{Cost: 1}, testStart+2*second); why != None {
		t.Fatalf("after a release: %d, %v", got, why)
	}
	for range 3 {
		s.Release(sp, 7, testStart, testStart+2*second, false)
	}
	if s.InFlight() != 0 {
		t.Fatalf("%d in flight", s.InFlight())
	}
}

func TestRefundGivesPermitsBack(t *testing.T) {
	var s State
	sp := mustParse(t, "10/m")
	s.Take(sp, Ask{Cost: 10}, testStart)
	now := testStart + second
	if got, _ := s.Earliest(sp, Ask{Cost: 10}, now); got != testStart+minute+500_000 {
		t.Fatalf("before: %d", got-testStart)
	}
	s.Release(sp, 10, testStart, now, true)
	if got, why := s.Earliest(sp, Ask{Cost: 10}, now); got != now {
		t.Fatalf("after: %d, %v", got-testStart, why)
	}
	if used := s.Used(time.Minute, now); used != 0 {
		t.Fatalf("%d used", used)
	}
}

func TestUsed(t *testing.T) {
	var s State
	for i := range Instant(10) {
		s.Take(Spec{}, Ask{Cost: 3}, testStart+i*second)
	}
	for window, want := range map[time.Duration]int64{time.Second: 3, 2500 * time.Millisecond: 9, time.Hour: 30, 0: 0, -1: 0, 1 << 62: 30} {
		if got := s.Used(window, testStart+9*second); got != want {
			t.Errorf("%v: %d used, want %d", window, got, want)
		}
	}
}

// Two clones go their own ways.
func TestCloneSharesNothing(t *testing.T) {
	var s State
	sp := mustParse(t, "1000/s")
	for i := range Instant(200) {
		s.Take(sp, Ask{Cost: 1}, testStart+i)
	}
	before := stored(t, &s)
	c := s.Clone()
	for i := range Instant(200) {
		c.Release(sp, 1, testStart+i, testStart+second, true)
		c.Take(sp, Ask{Cost: 1}, testStart+second+i)
	}
	if string(stored(t, &s)) != string(before) {
		t.Fatal("charging a clone changed the original")
	}
}

// The log of a busy limit stays small, and merging makes it wait longer, never
// shorter.
func TestLogStaysSmall(t *testing.T) {
	for _, spec := range []string{"unlimited", "1000/s", "1000/s, 20000/m, 900000/h, 10000000/day, 10000000/day@UTC", "1000000/s"} {
		var s State
		sp := mustParse(t, spec)
		now, step, most := testStart, Instant(1_000), 0
		for i := range 24_000 {
			if at, _ := s.Earliest(sp, Ask{Cost: 1}, now); at <= now {
				s.Take(sp, Ask{Cost: 1}, now)
			}
			if i%2_000 == 0 {
				step *= 3 // ever slower, over days
			}
			now += step
			most = max(most, len(s.log.charges))
		}
		b := stored(t, &s)
		t.Logf("%s: at most %d charges, %d bytes at the end", spec, most, len(b))
		if most > maxCharges+sweepEvery {
			t.Errorf("%s: %d charges", spec, most)
		}
	}
}

func TestIdle(t *testing.T) {
	sp := mustParse(t, "5/s, 100/h")
	for name, c := range map[string]struct {
		prep  func(*State)
		after Instant
		want  bool
	}{
		"never used":        {func(s *State) {}, 0, true},
		"in flight":         {func(s *State) { s.Take(sp, Ask{}, testStart) }, 2 * hour, false},
		"within the window": {func(s *State) { s.Take(sp, Ask{}, testStart); s.Release(sp, 1, testStart, testStart, false) }, hour, false},
		"beyond it":         {func(s *State) { s.Take(sp, Ask{}, testStart); s.Release(sp, 1, testStart, testStart, false) }, hour + second, true},
		"paused":            {func(s *State) { s.PauseByPerson(testStart, Never, "") }, 2 * hour, false},
		"pause lapsed":      {func(s *State) { s.PauseByPerson(testStart, testStart+hour, "") }, 2 * hour, true},
		"resumed":           {func(s *State) { s.PauseByPerson(testStart, Never, ""); s.Resume() }, 2 * hour, false},
		"booked":            {func(s *State) { s.Book(Booking{At: testStart, Expires: testStart + 3*hour}) }, 2 * hour, false},
	} {
		var s State
		c.prep(&s)
		if got := s.Idle(sp, testStart+c.after); got != c.want {
			t.Errorf("%s: idle %v, want %v", name, got, c.want)
		}
	}
	var s State
	quota := mustParse(t, "100/day@UTC")
	s.Take(quota, Ask{}, at(t, "2026-03-01T10:00:00Z"))
	s.Release(quota, 1, 0, 0, false)
	if s.Idle(quota, at(t, "2026-03-01T23:59:00Z")) || !s.Idle(quota, at(t, "2026-03-02T00:01:00Z")) {
		t.Error("a quota keeps its state to the end of the day, no longer")
	}
}

// A clock that ran a year ahead and was put back does not freeze the limit for
// a year; one put back a little does not loosen it.
func TestClockPutBack(t *testing.T) {
	sp := mustParse(t, "5/s")
	year := 365 * 24 * hour
	var s State
	takeAll(&s, sp, testStart+year, testStart+year+second, 5)
	if got, why := s.Earliest(sp, Ask{Cost: 1}, testStart); got != testStart {
		t.Fatalf("after a year's jump: in %v because of %v", time.Duration(got-testStart)*time.Microsecond, why)
	}
	s.Observe(sp, Observation{At: testStart + year, Refused: true, RetryAt: testStart + year + hour}, 0)
	if got, why := s.Earliest(sp, Ask{Cost: 1}, testStart); got != testStart {
		t.Fatalf("after a year's jump: in %v because of %v", time.Duration(got-testStart)*time.Microsecond, why)
	}
	slots := takeAll(&s, sp, testStart, testStart+10*second, 100)
	if len(slots) < 45 || fullest(slots, second) > 5 {
		t.Fatalf("%d slots in ten seconds, %d in a second", len(slots), fullest(slots, second))
	}
	s.Observe(sp, Observation{At: testStart + 11*second, Refused: true}, 0.5)
	if until, _, _ := s.Paused(testStart + 11*second); until == 0 {
		t.Fatal("refusals are not heard any more")
	}

	s = State{}
	s.Observe(sp, Observation{At: testStart + year, Refused: true}, 0.5)
	s.Resume()
	s.Observe(sp, Observation{At: testStart, Refused: true}, 0.5)
	if until, _, _ := s.Paused(testStart); until == 0 {
		t.Fatal("refusals are taken for those of an episode a year ahead")
	}

	s = State{}
	slots = takeAll(&s, sp, testStart, testStart+second, 5)
	if got, _ := s.Earliest(sp, Ask{Cost: 1}, testStart-30*second); got != testStart+second+50_000 {
		t.Fatalf("30 s back: %d after the first slot %d", got-testStart, slots[0])
	}
}

// The first start after a pause waits for nothing but its end, whatever it
// costs, and Room knows.
func TestFirstStartAfterAPause(t *testing.T) {
	var s State
	sp := mustParse(t, "50/s")
	s.Take(sp, Ask{Cost: 1}, testStart)
	s.Observe(sp, Observation{At: testStart, Slot: testStart, Refused: true, RetryAt: testStart + minute}, 0)
	end := testStart + minute
	if got, _ := s.Earliest(sp, Ask{Cost: 5}, testStart); got != end {
		t.Fatalf("%d µs after the pause", got-end)
	}
	if room := s.Room(sp, 5, testStart, end); room != 1 {
		t.Fatalf("room %d, want 1", room)
	}
	if room := s.Room(sp, 5, testStart, end-1); room != 0 {
		t.Fatalf("room %d during the pause", room)
	}
	s.Take(sp, Ask{Cost: 5}, end)
	if got, why := s.Earliest(sp, Ask{Cost: 1}, end); got < end+80_000 || why != Pacing {
		t.Fatalf("then at %d, %v", got-end, why)
	}
}

// When nothing else helps, neighbours are merged, and still err late.
func TestHalve(t *testing.T) {
	got := halve([]charge{{1, 10}, {2, 20}, {3, 30}, {4, 40}, {5, 50}})
	want := []charge{{2, 30}, {4, 70}, {5, 50}}
	if !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}
