package dispatch

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstockhq/penstock/limit"
)

var specs = []string{"5/s", "50/s burst 50", "3 in flight", "20/m", "unlimited", "paused", "10/s, 40/m, 5 in flight", "7/day", "50000/s", "2000/h"}

// drawPicture makes a random picture of at most 8 lanes over at most 3 limits.
func drawPicture(t *rapid.T) *Picture {
	p := &Picture{Now: t0, Horizon: time.Duration(rapid.IntRange(0, 50).Draw(t, "horizon ms")) * time.Millisecond,
		Early:  time.Duration(rapid.IntRange(0, 60).Draw(t, "early ms")) * time.Millisecond,
		Places: rapid.IntRange(1, 12).Draw(t, "places"), Prefetch: rapid.IntRange(0, 5).Draw(t, "prefetch"),
		QueueMax: map[string]int{}, Limits: map[string]*Limit{}}
	for i := range rapid.IntRange(1, 3).Draw(t, "limits") {
		sp, err := limit.Parse(rapid.SampledFrom(specs).Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		p.Limits[fmt.Sprint("l", i)] = &Limit{Spec: sp, State: &limit.State{}}
	}
	seen, id := map[gateKey]bool{}, int64(0)
	for n := range rapid.IntRange(1, 8).Draw(t, "lanes") {
		l := &Lane{ID: int64(n + 1), Priority: rapid.IntRange(1, 9).Draw(t, "priority"), Place: rapid.IntRange(0, 1).Draw(t, "place"),
			VTime: int64(rapid.IntRange(0, 20).Draw(t, "vtime"))}
		l.Band = int64(l.Place*10 + l.Priority)
		for i := range len(p.Limits) { // in order: a replay must draw the same
			name := fmt.Sprint("l", i)
			lim := p.Limits[name]
			cost := int64(rapid.IntRange(1, 3).Draw(t, "cost"))
			if rapid.Bool().Draw(t, "draws") && lim.Spec.CheckCost(cost) == nil {
				l.Draws = append(l.Draws, Draw{name, cost})
			}
		}
		if len(l.Draws) > 0 {
			l.Gate = l.Draws[0].Limit
		}
		for range rapid.IntRange(0, 6).Draw(t, "heads") {
			id++
			l.Heads = append(l.Heads, Head{ID: id, At: t0})
		}
		p.Lanes = append(p.Lanes, l)
		if k := (gateKey{l.Band, l.Gate}); !seen[k] {
			seen[k] = true
			p.Gates = append(p.Gates, Gate{Band: l.Band, Limit: l.Gate, Whole: true})
		}
	}
	return p
}

func TestPlanKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPicture(t)
		lanes := map[int64]*Lane{}
		for _, l := range p.Lanes {
			lanes[l.ID] = l
		}
		plan := p.Plan()
		limited, inFlight, given := 0, map[string]int64{}, map[int64]bool{}
		for _, g := range plan.Grants {
			l := lanes[g.Lane]
			if given[g.Job] {
				t.Fatalf("job %d granted twice", g.Job)
			}
			given[g.Job] = true
			if len(g.Charges) != len(l.Draws) {
				t.Fatalf("job %d has %d charges for %d limits", g.Job, len(g.Charges), len(l.Draws))
			}
			if g.Slot < p.Now || g.Slot > p.Now+p.Horizon.Microseconds() {
				t.Fatalf("slot %d µs from now is outside the horizon %v", g.Slot-p.Now, p.Horizon)
			}
			if g.Early && g.Slot != p.Now+p.Early.Microseconds() {
				t.Fatalf("a start that may begin at once has its slot %d µs from now, not %v", g.Slot-p.Now, p.Early)
			}
			if len(l.Draws) > 0 {
				limited++
			}
			for _, c := range g.Charges {
				inFlight[c.Limit]++
			}
		}
		if limited > p.Places || len(plan.Grants) > p.Places+p.Prefetch {
			t.Fatalf("%d jobs with limits and %d in all for %d places and %d to prefetch", limited, len(plan.Grants), p.Places, p.Prefetch)
		}
		for name, n := range inFlight {
			if got := p.Limits[name].State.InFlight(); got != n {
				t.Fatalf("limit %s holds %d in flight after %d grants", name, got, n)
			}
			if most := p.Limits[name].Spec.InFlight; most > 0 && n > most {
				t.Fatalf("limit %s: %d in flight of %d", name, n, most)
			}
		}
		if len(plan.Gates) != len(p.Gates) {
			t.Fatalf("%d of %d gates have an opening time", len(plan.Gates), len(p.Gates))
		}
		nothingLeftOut(t, p, plan, given)
	})
}

// nothingLeftOut: asked again at once, with fresh places, a plan grants only
// from gates that the first one left open. Where a lane may have booked an
// instant, a gate may open a little late (a stronger booking or a grant can void
// the one that stood in the way), but it must open by itself.
func nothingLeftOut(t *rapid.T, p *Picture, plan Plan, given map[int64]bool) {
	open, booked := map[gateKey]bool{}, false
	for _, l := range p.Lanes {
		booked = booked || len(l.Draws) > 1 || len(l.Draws) == 1 && l.Draws[0].Cost > 1
	}
	at := map[int64]string{}
	for _, g := range plan.Gates {
		open[gateKey{g.Band, g.Limit}] = g.OpensAt <= p.Now+p.Horizon.Microseconds() || booked && g.OpensAt < Held
	}
	for _, c := range plan.Lanes {
		if c.Moved {
			at[c.ID] = c.Gate
		}
	}
	next := *p
	next.Lanes, next.Places = nil, 100
	for _, l := range p.Lanes {
		l := *l
		var heads []Head
		for _, h := range l.Heads {
			if !given[h.ID] {
				heads = append(heads, h)
			}
		}
		l.Heads = heads
		next.Lanes = append(next.Lanes, &l)
	}
	for _, g := range next.Plan().Grants {
		for _, l := range p.Lanes {
			if l.ID != g.Lane {
				continue
			}
			if to, moved := at[l.ID]; moved && !booked {
				t.Fatalf("lane %d moved to gate %q although it could be served at once", l.ID, to)
			}
			if !open[gateKey{l.Band, l.Gate}] {
				t.Fatalf("job %d could be granted, but gate %d/%q was shut", g.Job, l.Band, l.Gate)
			}
		}
	}
}

// Reading as many heads as Wants says never makes a plan smaller.
func TestWantsIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPicture(t)
		short := *p
		short.Limits = map[string]*Limit{}
		for name, l := range p.Limits {
			st := l.State.Clone()
			short.Limits[name] = &Limit{Spec: l.Spec, State: &st}
		}
		short.Lanes = nil
		taken := 0
		for _, l := range p.Lanes {
			l := *l
			n := Wants(&short, &l, taken)
			if n < len(l.Heads) {
				l.Heads, l.More = l.Heads[:n], true
			}
			if len(l.Draws) == 0 {
				taken += len(l.Heads)
			}
			short.Lanes = append(short.Lanes, &l)
		}
		whole, part := p.Plan(), short.Plan()
		if len(part.Grants) < len(whole.Grants) && !part.Again {
			t.Fatalf("granted %d with the heads that Wants asked for, %d with all of them", len(part.Grants), len(whole.Grants))
		}
	})
}
