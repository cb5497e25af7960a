package limit

import (
	"bytes"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const testStart = Instant(1_700_000_000_000_000)

// ledger is the truth a State is checked against: every slot that was really
// taken and not given back.
type ledger []charge

func (l ledger) between(from, to Instant) (sum int64) { // (from, to]
	for _, c := range l {
		if c.at > from && c.at <= to {
			sum += c.cost
		}
	}
	return sum
}

// over says which rate of the spec a start at t with this cost would break,
// with this much guard, or "".
func (l ledger) over(sp Spec, guard, t Instant, cost int64) string {
	for _, r := range sp.Rates {
		n, w := r.Limit()
		if r.Calendar == Rolling {
			if l.between(t-micros(w)-guard, t)+cost > n {
				return r.String()
			}
			continue
		}
		// By the book: dates in the zone, one instant after another.
		loc, _ := time.LoadLocation(r.Zone)
		for _, day := range chargedDates(t, loc) {
			sum := cost
			for _, c := range l {
				for _, d := range chargedDates(c.at, loc) {
					if d == day {
						sum += c.cost
					}
				}
			}
			if sum > n {
				return r.String()
			}
		}
	}
	return ""
}

// chargedDates are the dates a slot counts for: that of the slot, and that of
// half a second before or after.
func chargedDates(t Instant, loc *time.Location) []string {
	var dates []string
	for _, x := range []Instant{t - 500_000, t, t + 500_000} {
		d := time.UnixMicro(x).In(loc).Format(time.DateOnly)
		if len(dates) == 0 || dates[len(dates)-1] != d {
			dates = append(dates, d)
		}
	}
	return dates
}

func drawAsk(t *rapid.T, sp Spec) Ask {
	top := int64(20)
	for _, r := range sp.Rates {
		n, _ := r.Limit()
		top = min(top, n)
	}
	return Ask{Cost: rapid.Int64Range(1, top).Draw(t, "cost"), Priority: rapid.IntRange(1, 3).Draw(t, "priority"), Holder: rapid.Uint64Range(1, 3).Draw(t, "holder")}
}

func drawStep(t *rapid.T) Instant {
	scale := rapid.SampledFrom([]Instant{0, 1, 1000, 100_000, 1_000_000, 60_000_000, 3_600_000_000, 30 * 3_600_000_000}).Draw(t, "scale")
	return rapid.Int64Range(0, scale).Draw(t, "step")
}

func stored(t interface{ Fatal(...any) }, s *State) []byte {
	b, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func reload(t interface{ Fatal(...any) }, s *State) State {
	var back State
	if err := back.UnmarshalBinary(stored(t, s)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored(t, &back), stored(t, s)) {
		t.Fatal("the stored form changed by storing")
	}
	return back
}

// Whatever happens to a limit, no window holds more than its permits, slots
// never go back, and the calls in flight are those taken and not released.
func TestNeverOverTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := drawSpec(t)
		var s State
		var truth, held ledger
		now, last, flying := testStart, Instant(0), int64(0)
		for range rapid.IntRange(1, 150).Draw(t, "ops") {
			now += drawStep(t)
			switch rapid.IntRange(0, 19).Draw(t, "op") {
			case 0:
				sp = drawSpec(t)
			case 1:
				s = reload(t, &s)
			case 2:
				s = s.Clone()
			case 3:
				o := Observation{At: now, Slot: rapid.Int64Range(max(0, last-100), last+100).Draw(t, "slot"), Refused: rapid.Bool().Draw(t, "refused")}
				if rapid.Bool().Draw(t, "stated") {
					o.RetryAt = now + drawStep(t)
				}
				if rapid.Bool().Draw(t, "left") {
					o = drawLeft(t, o)
				}
				s.Observe(sp, o, rapid.Float64Range(0, 0.999).Draw(t, "random"))
			case 4:
				s.PauseByPerson(now, now+drawStep(t), "")
			case 5:
				s.Resume()
			case 6:
				a := drawAsk(t, sp)
				if at, _ := s.Earliest(sp, a, now); at != Never {
					s.Book(Booking{At: at, Expires: at + drawStep(t), Cost: a.Cost, Priority: a.Priority, Holder: a.Holder})
				}
			case 7, 8:
				if len(held) == 0 {
					s.Release(sp, 1, now, now, false)
					break
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				c := held[i]
				held = append(held[:i:i], held[i+1:]...)
				refund := rapid.IntRange(0, 3).Draw(t, "refund") == 0
				s.Release(sp, c.cost, c.at, now, refund)
				flying--
				if refund {
					for j := range truth {
						if truth[j] == c {
							truth = append(truth[:j:j], truth[j+1:]...)
							break
						}
					}
				}
			default:
				a := drawAsk(t, sp)
				at, why := s.Earliest(sp, a, now)
				if at == Never {
					break
				}
				if at < now || at < last {
					t.Fatalf("slot %d is before now %d or the last slot %d", at, now, last)
				}
				if (at == now) != (why == None) {
					t.Fatalf("slot is %d after now because of %v", at-now, why)
				}
				if rapid.IntRange(0, 9).Draw(t, "far") > 0 && at > now+70_000_000_000 {
					break
				}
				now = max(now, at)
				if broken := truth.over(sp, 0, at, a.Cost); broken != "" {
					t.Fatalf("%s is broken by cost %d at %d: %v", broken, a.Cost, at, truth)
				}
				s.Take(sp, a, at)
				truth, held, last = append(truth, charge{at, a.Cost}), append(held, charge{at, a.Cost}), at
				flying++
			}
			if sp.InFlight == 0 && s.InFlight() != flying || s.InFlight() < 0 {
				t.Fatalf("%d in flight, want %d", s.InFlight(), flying)
			}
		}
	})
}

// While the log is exact, the promised instant is exact, too: it breaks no
// rate with its guard, and one microsecond earlier would, or would be out of
// pace.
func TestEarliestIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := drawSpec(t)
		sp.InFlight = 0
		var s State
		var truth ledger
		guard := s.guardFor(sp)
		// The pace, by theoretical arrival times.
		p, paced := sp.pacer(guard)
		tat := 0.0
		now := testStart
		for range rapid.IntRange(1, keepExact).Draw(t, "takes") {
			now += drawStep(t)
			a := drawAsk(t, sp)
			at, why := s.Earliest(sp, a, now)
			if again, _ := s.Earliest(sp, a, at); again != at {
				t.Fatalf("promised %d, at that instant %d", at, again)
			}
			if broken := truth.over(sp, guard, at, a.Cost); broken != "" {
				t.Fatalf("%s with its guard is broken at the promised instant", broken)
			}
			early := paced && float64(at) < tat-p.slack(a.Cost)*p.interval-1
			tooEarly := paced && float64(at-1) < tat-p.slack(a.Cost)*p.interval+1
			if early {
				t.Fatalf("out of pace at the promised instant")
			}
			if at > now && at > s.LastSlot() && truth.over(sp, guard, at-1, a.Cost) == "" && !tooEarly {
				t.Fatalf("%v: a microsecond before %d would do as well", why, at)
			}
			s.Take(sp, a, at)
			truth = append(truth, charge{at, a.Cost})
			tat = max(tat, float64(at)) + float64(a.Cost)*p.interval
			now = max(now, at)
		}
	})
}

// Room never says less than can really be taken.
func TestRoomNeverUnderestimates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := drawSpec(t)
		s, now := drawState(t, sp)
		cost := drawAsk(t, sp).Cost
		until := now + drawStep(t)
		room := s.Room(sp, cost, now, until)
		taken := int64(0)
		for taken <= 400 {
			at, _ := s.Earliest(sp, Ask{Cost: cost}, now)
			if at > until {
				break
			}
			s.Take(sp, Ask{Cost: cost}, at)
			now = max(now, at)
			taken++
		}
		if taken > room {
			t.Fatalf("%s: room %d, but %d asks of cost %d were taken", sp, room, taken, cost)
		}
	})
}

// drawLeft adds to an observation what the API says is left.
func drawLeft(t *rapid.T, o Observation) Observation {
	o.Refused, o.LeftKnown = false, true
	o.Left = rapid.Int64Range(0, 30).Draw(t, "left")
	o.LeftByCost = rapid.Bool().Draw(t, "by cost")
	if rapid.Bool().Draw(t, "whole") {
		o.Whole = o.Left + rapid.Int64Range(0, 60).Draw(t, "gone")
	}
	if rapid.IntRange(0, 4).Draw(t, "resets") > 0 {
		o.ResetAt = o.At + drawStep(t)
	}
	return o
}

// drawState is the state of a limit after some use, and the time.
func drawState(t *rapid.T, sp Spec) (State, Instant) {
	var s State
	now := testStart
	for range rapid.IntRange(0, 120).Draw(t, "uses") {
		now += drawStep(t) / 20
		a := drawAsk(t, sp)
		at, _ := s.Earliest(sp, a, now)
		if at == Never || at > now+100_000_000 {
			s.Release(sp, 1, now, now, false)
			continue
		}
		s.Take(sp, a, at)
		if rapid.Bool().Draw(t, "ended") {
			s.Release(sp, a.Cost, at, now, rapid.IntRange(0, 5).Draw(t, "refund") == 0)
		}
		if rapid.IntRange(0, 15).Draw(t, "seen") == 0 {
			o := Observation{At: max(now, at), Slot: at, Refused: rapid.Bool().Draw(t, "refused")}
			if rapid.Bool().Draw(t, "left") {
				o = drawLeft(t, o)
			}
			s.Observe(sp, o, 0.5)
		}
	}
	return s, now
}

// A spec with more permits in the same windows never refuses what the old one
// allowed.
func TestARaiseRefusesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := drawSpec(t)
		s, now := drawState(t, sp)
		raised := sp
		raised.Rates = append([]Rate(nil), sp.Rates...)
		for i := range raised.Rates {
			if raised.Rates[i].Decimals == 0 {
				raised.Rates[i].N += rapid.Int64Range(0, 30).Draw(t, "more")
			}
		}
		a := drawAsk(t, sp)
		before, _ := s.Earliest(sp, a, now)
		after, why := s.Earliest(raised, a, now)
		if after > before {
			t.Fatalf("%s allowed it at %d, %s at %d: %v", sp, before, raised, after, why)
		}
	})
}

// Small asks of the same priority leave a booking in its place, to the
// microsecond.
func TestABookingIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := drawSpec(t)
		sp.InFlight = 0
		s, now := drawState(t, sp)
		big := drawAsk(t, sp)
		big.Holder, big.Priority = 99, 2
		at, _ := s.Earliest(sp, big, now)
		if !s.bookingAt(now) && at < now+3_600_000_000 {
			s.Book(Booking{At: at, Expires: at + 1_000_000, Cost: big.Cost, Priority: 2, Holder: 99})
		} else {
			return
		}
		for range rapid.IntRange(0, 40).Draw(t, "small") {
			now = min(at, now+drawStep(t))
			small := drawAsk(t, sp)
			small.Priority = rapid.IntRange(1, 2).Draw(t, "priority")
			slot, why := s.Earliest(sp, small, now)
			if slot <= at && slot <= now+1000 {
				s.Take(sp, small, slot)
				now = max(now, slot)
			} else if slot > at && why == None {
				t.Fatalf("held up to %d for no reason", slot)
			}
			if got, why := s.Earliest(sp, big, now); got > at {
				t.Fatalf("booked for %d, now possible at %d (%v)", at, got, why)
			}
		}
		s.Take(sp, big, at)
		if _, ok := s.Booking(at); ok {
			t.Fatal("the booking outlived its own start")
		}
	})
}

// Wild values do no harm: nothing panics, and no slot is before its now.
func TestWildValues(t *testing.T) {
	wild := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt64, math.MinInt64, maxInstant, testStart}))
	rapid.Check(t, func(t *rapid.T) {
		var s State
		sp := drawSpec(t)
		if rapid.IntRange(0, 3).Draw(t, "broken") == 0 {
			sp.Rates = append(sp.Rates, Rate{N: wild.Draw(t, "N"), Window: time.Duration(wild.Draw(t, "W")), Burst: wild.Draw(t, "B"), Decimals: int(wild.Draw(t, "D")), Zone: "x", Calendar: Calendar(rapid.IntRange(-1, 4).Draw(t, "C"))})
			_, _ = sp.Validate(), sp.String()
		}
		for range 40 {
			a := Ask{Cost: wild.Draw(t, "cost"), Priority: int(wild.Draw(t, "p")), Holder: uint64(wild.Draw(t, "h"))}
			now := wild.Draw(t, "now")
			switch rapid.IntRange(0, 8).Draw(t, "op") {
			case 0:
				s.Take(sp, a, now)
			case 1:
				s.Release(sp, a.Cost, wild.Draw(t, "slot"), now, true)
			case 2:
				s.Observe(sp, Observation{At: now, Slot: wild.Draw(t, "slot"), Refused: true, RetryAt: wild.Draw(t, "retry"), Reason: "\x00\xff"}, math.NaN())
			case 3:
				s.Book(Booking{At: now, Expires: wild.Draw(t, "expires"), Cost: a.Cost, Priority: a.Priority, Holder: a.Holder})
			case 4:
				s.PauseByPerson(now, now, "x")
			case 5:
				s = reload(t, &s)
			case 6:
				s.Observe(sp, Observation{At: now, Slot: wild.Draw(t, "slot")}, 2)
			case 7:
				o := Observation{At: now, Slot: wild.Draw(t, "slot"), LeftKnown: true, Left: wild.Draw(t, "left"), Whole: wild.Draw(t, "whole"), ResetAt: wild.Draw(t, "reset"), LeftByCost: rapid.Bool().Draw(t, "by cost")}
				s.Observe(sp, o, 0.5)
				o.Matters(sp)
				s.Left(now)
			}
			at, _ := s.Earliest(sp, a, now)
			if at < clampInstant(now) {
				t.Fatalf("slot %d before now %d", at, now)
			}
			if room := s.Room(sp, a.Cost, now, wild.Draw(t, "until")); room < 0 {
				t.Fatalf("room %d", room)
			}
			s.Used(time.Duration(wild.Draw(t, "window")), now)
			s.Paused(now)
			s.Guard(sp)
			s.Idle(sp, now)
			if s.InFlight() < 0 {
				t.Fatalf("%d in flight", s.InFlight())
			}
		}
	})
}

// Merged or not, the log never counts less than was really taken since an
// instant, and what it counts too much lies within a part of the window or age.
func TestLogErrsOnTheSafeSide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := drawSpec(t)
		windows, _ := sp.sweepPlan(0, testStart)
		var l slotLog
		var truth ledger
		now := testStart
		scale := rapid.SampledFrom([]Instant{10, 1000, 100_000, 10_000_000}).Draw(t, "scale")
		for range rapid.IntRange(1, 600).Draw(t, "charges") {
			now += rapid.Int64Range(0, scale).Draw(t, "step")
			cost := rapid.Int64Range(1, 3).Draw(t, "cost")
			l.add(now, cost)
			truth = append(truth, charge{now, cost})
			if l.fresh >= sweepEvery {
				l.sweep(windows, nil)
			}
		}
		for range 20 {
			age := rapid.Int64Range(0, now-testStart+10).Draw(t, "age")
			got, want := l.since(now-age), truth.between(now-age, now)
			if got < want {
				t.Fatalf("age %d: the log counts %d, %d were taken", age, got, want)
			}
			if most := truth.between(now-age-tolerance(age, windows)-1, now); got > most {
				t.Fatalf("age %d: the log counts %d, at most %d are excusable", age, got, most)
			}
		}
		for i, c := range l.charges[1:] {
			if c.at <= l.charges[i].at {
				t.Fatalf("charges out of order")
			}
		}
		if n := len(l.charges); n > maxCharges+sweepEvery {
			t.Fatalf("%d charges", n)
		}
	})
}

// A dense stream, long enough to be merged, stays within every window.
func TestNeverOverTheLimitWhenDense(t *testing.T) {
	for _, spec := range []string{"1000/s", "300/s, 5000/m", "200/s burst 200, 900/10s", "2.5/s, 100/m", "unlimited"} {
		var s State
		sp := mustParse(t, spec)
		var slots []Instant
		now := testStart
		for i := range 8000 {
			at, _ := s.Earliest(sp, Ask{Cost: 1}, now)
			s.Take(sp, Ask{Cost: 1}, at)
			slots = append(slots, at)
			now = at + Instant(i%7)*100
		}
		for _, r := range sp.Rates {
			n, w := r.Limit()
			for i := int(n); i < len(slots); i++ {
				if slots[i]-slots[i-int(n)] < micros(w) {
					t.Fatalf("%s: slots %d to %d, %d in number, within %v", spec, i-int(n), i, n+1, w)
				}
			}
		}
	}
}
