package dispatch

import (
	"testing"
	"time"
)

// TestFarLimitsLetStartsBeginEarly: under limits that are far from used up, starts are
// charged a while ahead and may begin at once; one limit that is not far keeps its
// lanes' starts to their slots, and so does one that others are about to come for.
func TestFarLimitsLetStartsBeginEarly(t *testing.T) {
	draws := func(names ...string) (list []Draw) {
		for _, n := range names {
			list = append(list, Draw{n, 1})
		}
		return list
	}
	const early, lead = 40 * time.Millisecond, 60 * time.Millisecond
	for _, c := range []struct {
		name  string
		set   func(p *picture)
		draws []Draw
		early time.Duration // 0: not early
	}{
		{"far", nil, draws("far"), early},
		{"two that are far", nil, draws("far", "quota"), early},
		{"one is near", nil, draws("far", "near"), 0},
		{"no rate", nil, draws("free"), 0},
		{"no limit", nil, nil, 0},
		{"nobody asked for it", func(p *picture) { p.Early = 0 }, draws("far"), 0},
		{"beyond the horizon", func(p *picture) { p.Horizon = early - 1 }, draws("far"), 0},
		{"others come for it", func(p *picture) { p.Limits["far"].Awaited = t0 + 1_000_000 }, draws("far"), 0},
		{"a slow claim", func(p *picture) { p.Lead = lead }, draws("far"), lead},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPicture(3)
			p.Horizon, p.Early = 50*time.Millisecond, early
			p.limit(t, "far", "100000/s")
			p.limit(t, "quota", "100000/day@UTC")
			p.limit(t, "near", "50/s")
			p.limit(t, "free", "unlimited")
			if c.set != nil {
				c.set(p)
			}
			p.lane(Lane{Draws: c.draws}, 1, 2)
			plan := p.Plan()
			if len(plan.Grants) != 2 {
				t.Fatalf("%d grants, want 2", len(plan.Grants))
			}
			for _, g := range plan.Grants {
				if at := time.Duration(g.Slot-t0) * time.Microsecond; g.Early != (c.early > 0) || g.Early && at != c.early {
					t.Errorf("early %v, slot after %v; want %v after %v", g.Early, at, c.early > 0, c.early)
				}
				for _, ch := range g.Charges {
					if ch.Slot != g.Slot {
						t.Errorf("charged at %d, slot %d", ch.Slot, g.Slot)
					}
				}
			}
		})
	}
}
