package limit

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFarStartsBreakNoWindow: several processes take permits, those of far asks for a
// while ahead. However early or late each start begins that may, no window of the
// limit ever sees more than it allows, and no bucket overflows that lets a tenth come at once.
func TestFarStartsBreakNoWindow(t *testing.T) {
	far, near := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1000, 20_000).Draw(t, "n")
		w := rapid.SampledFrom([]time.Duration{time.Second, 2 * time.Second, 10 * time.Second}).Draw(t, "window")
		sp := Spec{Rates: []Rate{{N: n, Window: w}}}
		if rapid.Bool().Draw(t, "second rate") {
			sp.Rates = append(sp.Rates, Rate{N: 3 * n, Window: 6 * w})
		}
		if rapid.Bool().Draw(t, "unpaced") {
			sp.Rates[0].Burst = n
		}
		var s State
		var starts []charge
		now := testStart
		wild := rapid.SampledFrom([]string{"early", "late", "any"}).Draw(t, "starts")
		for range rapid.IntRange(20, 200).Draw(t, "claims") {
			now += Instant(rapid.SampledFrom([]int64{100, 1_000, 10_000, 60_000, 400_000, 1_100_000}).Draw(t, "step"))
			reach := Instant(rapid.SampledFrom([]int64{10_000, 40_000, 60_000}).Draw(t, "reach"))
			cost := rapid.Int64Range(1, 5).Draw(t, "cost")
			for range rapid.IntRange(1, 900).Draw(t, "jobs") {
				a := Ask{Cost: cost}
				from, slot := now, now+reach
				if !s.Far(sp, a, now, slot) {
					if from, _ = s.Earliest(sp, a, now); from > now+100_000 {
						break
					}
					slot = from
					near++
				} else {
					far++
				}
				s.Take(sp, a, slot)
				late := slot + micros(Delta)
				at := from
				switch wild {
				case "late":
					at = late
				case "any":
					at = from + Instant(rapid.Int64Range(0, int64(late-from)).Draw(t, "at"))
				}
				starts = append(starts, charge{at, cost})
			}
		}
		slices.SortFunc(starts, func(a, b charge) int { return cmp.Compare(a.at, b.at) })
		for _, r := range sp.Rates {
			if bad := fullestBySum(starts, micros(r.Window)); bad > r.N {
				t.Fatalf("%d started within %v of a limit of %d", bad, r.Window, r.N)
			}
		}
		if sp.Rates[0].Burst == 0 {
			if most := deepest(starts, float64(micros(w))/float64(n)); most > float64(n)/10 {
				t.Fatalf("a bucket that lets %d come at once saw %.0f", n/10, most)
			}
		}
	})
	t.Logf("%d far asks, %d near ones", far, near)
	if far == 0 || near == 0 {
		t.Error("all asks were of one kind")
	}
}

// fullestBySum is the most permits that start within any window of this length.
func fullestBySum(starts []charge, window Instant) (most int64) {
	sum, first := int64(0), 0
	for _, c := range starts {
		sum += c.cost
		for starts[first].at <= c.at-window {
			sum -= starts[first].cost
			first++
		}
		most = max(most, sum)
	}
	return most
}

// deepest is the most that a bucket holds that loses one permit per interval.
func deepest(starts []charge, interval float64) (most float64) {
	debt, at := 0.0, Instant(0)
	for _, c := range starts {
		debt = max(0, debt-float64(c.at-at)/interval) + float64(c.cost)
		at = c.at
		most = max(most, debt)
	}
	return most
}

// TestFar: what stands against a far ask.
func TestFar(t *testing.T) {
	spec := func(text string) Spec {
		sp, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return sp
	}
	const now, reach = testStart, Instant(40_000)
	taken := func(n int64, slot Instant) func(*State, Spec) {
		return func(s *State, sp Spec) { s.Take(sp, Ask{Cost: n}, slot) }
	}
	for _, c := range []struct {
		spec string
		set  func(*State, Spec)
		want bool
	}{
		{"100000/s", nil, true},
		{"999/s", nil, false}, // half of it has no room to speak of
		{"1100/h", nil, true},
		{"100000/s", taken(3000, now-500_000), true},
		{"100000/s burst 100000", taken(60_000, now-500_000), false},
		{"100000/s burst 100000", taken(60_000, now-1_080_000), false}, // a start may be so late that it is still in the window
		{"100000/s burst 100000", taken(60_000, now-1_100_000), true},
		{"100000/s burst 4000", nil, false}, // those that come late would meet those that come then
		{"100000/s burst 5000", nil, true},
		{"100000/s", taken(1, now+reach), true},
		{"100000/s", taken(1, now+reach+1), false}, // a slot that nobody may go below
		{"100000/s, 5000 in flight", nil, true},
		{"100000/s, 999 in flight", nil, false},
		{"100000/s", func(s *State, sp Spec) { s.Book(Booking{At: now, Expires: now + 1, Cost: 1, Holder: 7}) }, false},
		{"1 in flight", nil, false},
	} {
		t.Run(fmt.Sprint(c.spec, c.want), func(t *testing.T) {
			var s State
			sp := spec(c.spec)
			if c.set != nil {
				c.set(&s, sp)
			}
			before := s.Clone()
			if got := s.Far(sp, Ask{Cost: 1}, now, now+reach); got != c.want {
				t.Errorf("far %v, want %v", got, c.want)
			}
			if s.last != before.last || s.inFlight != before.inFlight {
				t.Error("the question changed the state")
			}
		})
	}
	t.Run("quota", func(t *testing.T) {
		sp := spec("10000/day@UTC")
		var s State
		midnight := Instant(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		for at, want := range map[Instant]bool{midnight - 600_000: true, midnight - 530_000: false, midnight + 100_000: false, midnight + 600_000: true} {
			if got := s.Far(sp, Ask{Cost: 1}, at, at+reach); got != want {
				t.Errorf("%v before midnight: far %v, want %v", time.Duration(midnight-at)*time.Microsecond, got, want)
			}
		}
		s.Take(sp, Ask{Cost: 4600}, midnight+1_000_000)
		if s.Far(sp, Ask{Cost: 1}, midnight+2_000_000, midnight+2_040_000) {
			t.Error("a quota that is nearly half used up is far")
		}
	})
	t.Run("paused", func(t *testing.T) {
		sp := spec("100000/s")
		sp.Paused = true
		var s State
		if s.Far(sp, Ask{Cost: 1}, now, now+reach) {
			t.Error("a paused limit is far")
		}
	})
}
