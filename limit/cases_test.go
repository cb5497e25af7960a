package limit

import (
	"errors"
	"testing"
	"time"
)

// C1: fixed windows let two full allowances through around a boundary
// (plausible/analytics#6497, OptimalBits/bull#2777). 100 a minute; 100 jobs are
// ready at second 59.5 of a minute and 100 more at 60.5, at every offset of 5 s.
func TestC1_NoDoubleAllowanceAtAnEdge(t *testing.T) {
	for _, spec := range []string{"100/m", "100/m burst 100"} {
		sp := mustParse(t, spec)
		for offset := Instant(0); offset < minute; offset += 5 * second {
			var s State
			edge := testStart - testStart%minute + offset
			slots := takeAll(&s, sp, edge+59_500_000, edge+60_500_000, 100)
			slots = append(slots, takeAll(&s, sp, edge+60_500_000, edge+5*minute, 200-len(slots))...)
			if len(slots) != 200 {
				t.Fatalf("%s, offset %d: %d of 200 within 4 minutes", spec, offset/second, len(slots))
			}
			if got := fullest(slots, minute); got > 100 {
				t.Errorf("%s, offset %d: %d in a minute", spec, offset/second, got)
			}
		}
	}
}

// C6: a changed limit is ignored while the key stays busy
// (sethvargo/go-redisstore#10, mailgun/gubernator#37). A cut takes hold at once
// and counts what was sent; a raise does, too.
func TestC6_CutAndRaiseTakeHoldAtOnce(t *testing.T) {
	var s State
	high, low := mustParse(t, "100/s"), mustParse(t, "10/s")
	now := testStart
	before := takeAll(&s, high, now, now+3*second, 1000)
	now = before[len(before)-1]

	s = reload(t, &s) // another process, with the new spec
	after := takeAll(&s, low, now, now+3*second, 1000)
	if len(after) == 0 || after[0] < now+second-200_000 {
		t.Fatalf("the cut does not count what was sent: %v", after)
	}
	if got := fullest(after, second); got > 10 {
		t.Fatalf("%d in a second after the cut to 10", got)
	}
	if len(after) < 15 {
		t.Fatalf("only %d in three seconds after the cut", len(after))
	}

	now = after[len(after)-1]
	raised := takeAll(&s, high, now+1, now+second, 1000)
	if len(raised) < 70 {
		t.Fatalf("only %d in the first second after the raise to 100", len(raised))
	}
	// From one a minute to many a second: the old pace does not linger.
	s = State{}
	s.Take(mustParse(t, "1/m"), Ask{Cost: 1}, testStart)
	if got, why := s.Earliest(high, Ask{Cost: 1}, testStart+second); got != testStart+second {
		t.Fatalf("raised from 1/m to 100/s: %d µs, %v", got-testStart-second, why)
	}
}

// C7: odd limits misbehave: zero divides by zero, fractions round to an empty
// burst, a cost above the bucket waits for ever (golang/go#18763,
// bucket4j/bucket4j#220, temporalio/temporal#10327).
func TestC7_OddLimits(t *testing.T) {
	for _, zero := range []string{"0/s", "0/m", "0.0/s", "0 in flight"} {
		var spec *SpecError
		if _, err := Parse(zero); !errors.As(err, &spec) {
			t.Errorf("%s: %v", zero, err)
		}
	}
	for _, c := range []struct {
		spec string
		in   Instant
		want int
	}{
		{"0.5/m", 20 * minute, 10},
		{"1/day", 5 * 24 * hour, 5},
		{"0.66/s", 152 * second, 95},     // 2 per second scaled by 0.33
		{"1000000/s", 100_000, 178_000},  // the burst, and a tenth of a second
		{"0.000001/s", 24 * hour, 1},     // one in 11.6 days
		{"1/31day", 40 * 24 * hour, 2},   // the longest window
		{"1000000000000/s", second, 500}, // stops at most
	} {
		var s State
		sp := mustParse(t, c.spec)
		most := max(2*c.want, 500)
		if c.spec == "1000000000000/s" {
			most = 500
		}
		got := len(takeAll(&s, sp, testStart, testStart+c.in-1, most))
		if got > c.want+c.want/20+1 || got < c.want-c.want/10 {
			t.Errorf("%s: %d starts in %v, want about %d", c.spec, got, time.Duration(c.in)*time.Microsecond, c.want)
		}
	}
	sp := mustParse(t, "3/s")
	for _, cost := range []int64{4, 0, -1} {
		var typed *CostError
		if err := sp.CheckCost(cost); !errors.As(err, &typed) || typed.Cost != cost {
			t.Errorf("cost %d: %v", cost, err)
		}
	}
	// Cut below the cost of a waiting job: it waits for the limit, not for time.
	if got, why := new(State).Earliest(sp, Ask{Cost: 4}, testStart); got != Never || why != TooCostly {
		t.Errorf("cost 4 under 3/s: %d, %v", got, why)
	}
	// A cost above the burst passes, when the bucket is full.
	var s State
	ten := mustParse(t, "10/s")
	s.Take(ten, Ask{Cost: 1}, testStart)
	if got, _ := s.Earliest(ten, Ask{Cost: 8}, testStart); got != testStart+105_000 {
		t.Errorf("cost 8 of 10/s: %d", got-testStart)
	}
}

// C9: with several rates, none is charged unless all agree; when the day rolls
// over the minute is whole (BaseIntelligence/bounty-challenge#4191).
func TestC9_AskingCostsNothing(t *testing.T) {
	var s State
	sp := mustParse(t, "100/m burst 100, 5/day@UTC")
	now := at(t, "2026-03-01T12:00:00Z")
	if got := len(takeAll(&s, sp, now, now+hour, 100)); got != 5 {
		t.Fatalf("%d on the first day", got)
	}
	before := stored(t, &s)
	midnight := at(t, "2026-03-02T00:00:00.5Z")
	for i := range Instant(300) {
		if got, why := s.Earliest(sp, Ask{Cost: 1}, now+hour+i*second); got != midnight || why != Window {
			t.Fatalf("attempt %d: %d, %v", i, got, why)
		}
	}
	if string(stored(t, &s)) != string(before) {
		t.Fatal("asking changed the state")
	}
	if got := takeAll(&s, sp, midnight, midnight, 100); len(got) != 5 {
		t.Fatalf("%d at once on the new day", len(got))
	}
}

// D8: when the API says wait, everybody waits, and the resumption is ramped
// (octokit/plugin-throttling.js#629, discordjs/discord.js#4711). 10 in flight,
// all refused with 60 s.
func TestD8_PauseHoldsAllAndResumesAtThePace(t *testing.T) {
	sp := mustParse(t, "50/s")
	for name, resume := range map[string]func(*State) Instant{
		"lapsed": func(s *State) Instant { return testStart + minute },
		"by hand": func(s *State) Instant {
			s.Resume()
			return testStart + 30*second
		},
	} {
		var s State
		slots := takeAll(&s, sp, testStart, testStart+200_000, 10)
		last := slots[len(slots)-1]
		for i, slot := range slots {
			s.Observe(sp, Observation{At: last + Instant(i), Slot: slot, Refused: true, RetryAt: testStart + minute, Reason: "429"}, 0)
			s.Release(sp, 1, slot, last+Instant(i), i%2 == 0) // some never began: their permits do not fill the burst
		}
		if got, why := s.Earliest(sp, Ask{Cost: 1, Priority: 9}, last+second); got != testStart+minute || why != PausedByAPI {
			t.Fatalf("%s: during the pause: %d, %v", name, got-testStart, why)
		}
		if until, byPerson, reason := s.Paused(last + second); until != testStart+minute || byPerson || reason != "429" {
			t.Fatalf("%s: paused until %d, by a person %v, %q", name, until, byPerson, reason)
		}
		if s.backoffs != 0 || s.Guard(sp) != 80*time.Millisecond {
			t.Fatalf("%s: ten refusals of one episode count once: guard %v", name, s.Guard(sp))
		}
		from := resume(&s)
		after := takeAll(&s, sp, from, from+second, 50)
		if after[0] != from || after[1] < from+20_000 || fullest(after, 100_000) > 5 {
			t.Fatalf("%s: the resumption bursts: %v", name, after[:6])
		}
	}
}
