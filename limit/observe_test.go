package limit

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func refuse(s *State, sp Spec, at, slot, retryAt Instant, random float64) {
	s.Observe(sp, Observation{At: at, Slot: slot, Refused: true, RetryAt: retryAt}, random)
}

func TestBackoffDoublesAndIsReset(t *testing.T) {
	var s State
	sp := mustParse(t, "5/s")
	now := testStart
	for i, want := range []Instant{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		refuse(&s, sp, now, now, 0, 0.5)
		until, byPerson, _ := s.Paused(now)
		if until-now != want*second || byPerson {
			t.Fatalf("back-off %d: %v, want %d s", i, time.Duration(until-now)*time.Microsecond, want)
		}
		if got, _, _ := s.Paused(until); got != 0 {
			t.Fatal("the pause does not lapse")
		}
		now = until + 1
	}
	s.Observe(sp, Observation{At: now, Slot: now - 2*minute}, 0) // began before the last refusal: says nothing
	refuse(&s, sp, now, now, 0, 0.5)
	if until, _, _ := s.Paused(now); until-now != 60*second {
		t.Fatal("a success from before the refusal ended the run")
	}
	now += 61 * second
	s.Observe(sp, Observation{At: now, Slot: now}, 0)
	if s.LastSuccess() != now {
		t.Fatalf("last success %d", s.LastSuccess())
	}
	for random, want := range map[float64]Instant{0: 750_000, 0.5: second, 0.999: 1_249_500} {
		c := s.Clone()
		refuse(&c, sp, now+1, now+1, 0, random)
		if until, _, _ := c.Paused(now + 1); until-now-1 != want {
			t.Errorf("random %v: %d", random, until-now-1)
		}
	}
}

func TestStatedPauses(t *testing.T) {
	sp := mustParse(t, "5/s")
	for _, c := range []struct {
		name  string
		retry []Instant // seconds from testStart, one per second
		want  Instant
	}{
		{"stated", []Instant{60}, 60},
		{"grows", []Instant{60, 90}, 90},
		{"never shrinks", []Instant{90, 60}, 90},
		{"is capped", []Instant{30 * 24 * 3600}, 24 * 3600},
		{"an instant past is none", []Instant{-5}, 1},
		{"stated after our own", []Instant{0, 60}, 60},
		{"our own after stated", []Instant{60, 0}, 60},
	} {
		var s State
		for i, r := range c.retry {
			if r != 0 {
				r = testStart + r*second
			}
			refuse(&s, sp, testStart+Instant(i)*second/2, testStart-second, r, 0.5)
		}
		if until, _, _ := s.Paused(testStart + second/2); until != testStart+c.want*second {
			t.Errorf("%s: %d s, want %d", c.name, (until-testStart)/second, c.want)
		}
	}
}

func TestGuardLearns(t *testing.T) {
	var s State
	sp := mustParse(t, "50/s")
	guards := func(want time.Duration) {
		t.Helper()
		if got := s.Guard(sp); got != want {
			t.Fatalf("guard %v, want %v", got, want)
		}
	}
	guards(50 * time.Millisecond)
	s.Take(sp, Ask{Cost: 1}, testStart+second)
	refuse(&s, sp, testStart+second, testStart, 0, 0.5)
	guards(80 * time.Millisecond) // by half, plus 0.5 % of a second
	for i := range Instant(10) {
		refuse(&s, sp, testStart+second+i*100_000, testStart+i*100_000, 0, 0.5)
	}
	refuse(&s, sp, testStart+10*second, testStart+second, 0, 0.5) // late, but granted before the refusal came
	guards(80 * time.Millisecond)
	early := s.Clone() // a slot still ahead when the refusal comes, but granted before it
	early.Take(sp, Ask{Cost: 1}, testStart+20*second)
	early.Observe(sp, Observation{At: testStart + 11*second, Slot: testStart + 11*second}, 0)
	refuse(&early, sp, testStart+12*second, testStart+11*second, 0, 0.5)
	g := early.Guard(sp)
	early.Observe(sp, Observation{At: testStart + 19*second, Slot: testStart + 19*second}, 0)
	if refuse(&early, sp, testStart+21*second, testStart+20*second, 0, 0.5); early.Guard(sp) > g {
		t.Fatal("a call granted before the refusal counted as a new episode")
	}
	refuse(&s, sp, testStart+20*second, testStart+19*second, 0, 0.5) // nothing passed since
	guards(80 * time.Millisecond)
	now := testStart + 20*second + 500_000
	s.Observe(sp, Observation{At: now, Slot: now}, 0) // the next refusal follows a success
	now += 10 * second
	refuse(&s, sp, now, now, 0, 0.5)
	guards(125 * time.Millisecond)
	now += minute
	for i := range Instant(4) { // one quiet window, with four calls
		s.Observe(sp, Observation{At: now + i*300_000, Slot: now + i*300_000}, 0)
	}
	if got := s.Guard(sp); got >= 125*time.Millisecond || got < 123*time.Millisecond {
		t.Fatalf("after a quiet window: %v", got)
	}
	for range 5000 {
		now += 2 * second
		s.Observe(sp, Observation{At: now, Slot: now}, 0)
	}
	guards(Delta)
	for range 40 {
		now += minute
		s.Observe(sp, Observation{At: now, Slot: now}, 0)
		refuse(&s, sp, now+second, now+second, 0, 0.5)
	}
	guards(time.Second) // never above the window
}

func TestGuardDefaults(t *testing.T) {
	for spec, want := range map[string]time.Duration{
		"50/s": 50 * time.Millisecond, "100/m": 500 * time.Millisecond, "1000/h": 500 * time.Millisecond, "5/100ms": Delta,
		"10/s, 1000/h": 50 * time.Millisecond, "10/day@UTC": 500 * time.Millisecond, "unlimited": Delta,
	} {
		if got := new(State).Guard(mustParse(t, spec)); got != want {
			t.Errorf("%s: %v, want %v", spec, got, want)
		}
	}
}

func TestPersonsPauseIsKeptApart(t *testing.T) {
	var s State
	sp := mustParse(t, "5/s")
	now := testStart
	refuse(&s, sp, now, now, now+minute, 0)
	s.PauseByPerson(now, now+second, "deploy")
	if until, byPerson, reason := s.Paused(now); until != now+minute || !byPerson || reason != "deploy" {
		t.Fatalf("%d %v %q", until-now, byPerson, reason)
	}
	if until, byPerson, _ := s.Paused(now + 2*second); until != now+minute || byPerson {
		t.Fatalf("after the person's pause: %d %v", until-now, byPerson)
	}
	s.PauseByPerson(testStart, Never, strings.Repeat("ü\x00\xff", 500))
	until, _, reason := s.Paused(now)
	if until != Never || len(reason) > maxReason || !utf8.ValidString(reason) || strings.ContainsRune(reason, 0) {
		t.Fatalf("until %d, reason %q", until, reason)
	}
	refuse(&s, sp, now, now, now+2*minute, 0)
	s = reload(t, &s)
	if got, why := s.Earliest(sp, Ask{Cost: 1}, now); got != Never || why != PausedByPerson {
		t.Fatalf("%d %v", got, why)
	}
	s.Resume()
	if until, _, _ := s.Paused(now); until != 0 {
		t.Fatal("resume left a pause")
	}
	if got, _ := s.Earliest(sp, Ask{Cost: 1}, now); got != now {
		t.Fatalf("after resume: %d", got-now)
	}
}
