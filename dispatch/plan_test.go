package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/penstockhq/penstock/limit"
)

const t0 limit.Instant = 1_772_366_400_000_000 // 2026-03-01T12:00:00Z

// picture builds a picture with one band per queue and priority.
type picture struct{ Picture }

func newPicture(places int) *picture {
	return &picture{Picture{Now: t0, Horizon: 5 * time.Millisecond, Places: places, QueueMax: map[string]int{}, Limits: map[string]*Limit{}}}
}

func (p *picture) limit(t *testing.T, name, spec string) *limit.State {
	t.Helper()
	sp, err := limit.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	p.Limits[name] = &Limit{Spec: sp, State: &limit.State{}}
	return p.Limits[name].State
}

// lane adds a lane with jobs of these ids, waiting at the gate of its first limit.
func (p *picture) lane(l Lane, ids ...int64) *Lane {
	if len(l.Draws) > 0 && l.Gate == "" {
		l.Gate = l.Draws[0].Limit
	}
	if l.ID == 0 {
		l.ID = int64(len(p.Lanes) + 1)
	}
	if l.Priority == 0 {
		l.Priority = 5
	}
	if l.Band == 0 {
		l.Band = int64(l.Place*10 + l.Priority)
	}
	for _, id := range ids {
		l.Heads = append(l.Heads, Head{ID: id, At: t0})
	}
	p.Lanes = append(p.Lanes, &l)
	if !slices.ContainsFunc(p.Gates, func(g Gate) bool { return g.Band == l.Band && g.Limit == l.Gate }) {
		p.Gates = append(p.Gates, Gate{Band: l.Band, Limit: l.Gate, Whole: true})
	}
	return &l
}

func granted(p Plan) []int64 {
	ids := []int64{}
	for _, g := range p.Grants {
		ids = append(ids, g.Job)
	}
	return ids
}

func wantGrants(t *testing.T, p Plan, want ...int64) {
	t.Helper()
	if got := granted(p); !slices.Equal(got, want) {
		t.Fatalf("granted %v, want %v", got, want)
	}
}

func gateOf(t *testing.T, p Plan, band int64, name string) GateChange {
	t.Helper()
	for _, g := range p.Gates {
		if g.Band == band && g.Limit == name {
			return g
		}
	}
	t.Fatalf("no change for gate %d/%q in %+v", band, name, p.Gates)
	return GateChange{}
}

func TestOrderIsPlaceThenPriorityThenAge(t *testing.T) {
	p := newPicture(10)
	p.lane(Lane{Place: 1, Priority: 9, Queue: "low"}, 40)
	p.lane(Lane{Place: 0, Priority: 3, Queue: "high"}, 30)
	p.lane(Lane{Place: 0, Priority: 7, Queue: "high"}, 20)
	wantGrants(t, p.Plan(), 20, 30, 40)
}

func TestGroupsShareByCost(t *testing.T) {
	p := newPicture(9)
	p.limit(t, "api", "100/s burst 100")
	p.lane(Lane{Draws: []Draw{{"api", 2}}}, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	p.lane(Lane{Draws: []Draw{{"api", 1}}}, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	cheap := 0
	for _, id := range granted(p.Plan()) {
		if id > 10 {
			cheap++
		}
	}
	if cheap != 6 {
		t.Fatalf("the group whose jobs cost half got %d of 9 starts, want 6", cheap)
	}
}

func TestGroupThatWasAwayGetsNoCredit(t *testing.T) {
	p := newPicture(6)
	p.lane(Lane{VTime: 1000}, 1, 2, 3, 4, 5, 6)
	p.lane(Lane{VTime: 3}, 11, 12, 13, 14, 15, 16)
	p.Gates[0].VClock = 1000
	mine := 0
	for _, id := range granted(p.Plan()) {
		if id < 10 {
			mine++
		}
	}
	if mine != 3 {
		t.Fatalf("the busy group got %d of 6 starts beside one that came back, want 3", mine)
	}
}

func TestAllLimitsOrNone(t *testing.T) {
	p := newPicture(5)
	minute, day := p.limit(t, "minute", "100/m"), p.limit(t, "day", "5/day")
	for range 5 {
		day.Take(p.Limits["day"].Spec, limit.Ask{Cost: 1}, t0-1)
	}
	before := minute.Used(time.Minute, t0)
	p.lane(Lane{Draws: []Draw{{"minute", 1}, {"day", 1}}}, 1, 2, 3)
	plan := p.Plan()
	wantGrants(t, plan)
	if got := minute.Used(time.Minute, t0); got != before {
		t.Fatalf("the minute was charged %d permits though the day refused", got-before)
	}
	if len(plan.Lanes) != 1 || plan.Lanes[0].Gate != "day" || !plan.Lanes[0].Moved {
		t.Fatalf("lane changes %+v, want one move to the gate of day, which opens last", plan.Lanes)
	}
}

func TestRefusedLaneStatesWhenItsGateOpens(t *testing.T) {
	p := newPicture(5)
	st := p.limit(t, "api", "2/s burst 1")
	lane := p.lane(Lane{Draws: []Draw{{"api", 1}}}, 1, 2, 3)
	plan := p.Plan()
	wantGrants(t, plan, 1)
	opens := gateOf(t, plan, lane.Band, "api").OpensAt
	if at, _ := st.Earliest(p.Limits["api"].Spec, limit.Ask{Cost: 1}, t0); at != opens {
		t.Fatalf("gate opens at +%d µs, its limit at +%d µs", opens-t0, at-t0)
	}
	if plan.Again {
		t.Fatal("asks to look again at once although nothing can be granted")
	}
}

func TestFullLimitIsHeldAndEmptyGateIsEmpty(t *testing.T) {
	p := newPicture(5)
	p.limit(t, "cap", "1 in flight")
	held := p.lane(Lane{Draws: []Draw{{"cap", 1}}}, 1, 2)
	empty := p.lane(Lane{Priority: 6}, 3)
	plan := p.Plan()
	wantGrants(t, plan, 3, 1)
	if g := gateOf(t, plan, held.Band, "cap"); g.OpensAt != Held {
		t.Fatalf("gate of a full limit opens at %d, want Held", g.OpensAt)
	}
	if g := gateOf(t, plan, empty.Band, ""); g.OpensAt != Empty {
		t.Fatalf("gate whose only lane is used up opens at %d, want Empty", g.OpensAt)
	}
}

func TestGateStaysOpenForWantOfPlaces(t *testing.T) {
	p := newPicture(1)
	lane := p.lane(Lane{}, 1, 2)
	plan := p.Plan()
	wantGrants(t, plan, 1)
	if g := gateOf(t, plan, lane.Band, ""); g.OpensAt != t0 {
		t.Fatalf("gate opens at %d, want now", g.OpensAt)
	}
}

func TestGateNotWhollyShownStaysOpenWhileThereIsProgress(t *testing.T) {
	p := newPicture(5)
	lane := p.lane(Lane{}, 1)
	p.Gates[0].Whole = false
	plan := p.Plan()
	if g := gateOf(t, plan, lane.Band, ""); g.OpensAt != t0 || !plan.Again {
		t.Fatalf("gate opens at %d, again %v: want now and true, lanes were left out", g.OpensAt, plan.Again)
	}
}

func TestGateNotWhollyShownCannotSpin(t *testing.T) {
	p := newPicture(5)
	p.limit(t, "a", "10/s burst 10")
	p.limit(t, "b", "1 in flight").Take(p.Limits["b"].Spec, limit.Ask{Cost: 1}, t0-1)
	lane := p.lane(Lane{Gate: "b", Draws: []Draw{{"a", 1}, {"b", 1}}}, 1)
	p.Gates[0].Whole = false
	plan := p.Plan()
	if g := gateOf(t, plan, lane.Band, "b"); g.OpensAt <= t0 || plan.Again {
		t.Fatalf("gate opens at %d, again %v: want later and false", g.OpensAt-t0, plan.Again)
	}
}

func TestQueueCapAndPrefetch(t *testing.T) {
	p := newPicture(2)
	p.Prefetch = 2
	p.QueueMax = map[string]int{"q": 3, "other": 9}
	p.limit(t, "api", "100/s burst 100")
	p.lane(Lane{Queue: "q", Place: 0}, 1, 2, 3, 4)
	p.lane(Lane{Queue: "other", Place: 1, Draws: []Draw{{"api", 1}}}, 11)
	p.lane(Lane{Queue: "other", Place: 1}, 21, 22)
	wantGrants(t, p.Plan(), 1, 2, 3, 21)
}

func TestOneSuspectPerPlan(t *testing.T) {
	p := newPicture(9)
	lane := p.lane(Lane{Suspect: true}, 1, 2)
	plan := p.Plan()
	wantGrants(t, plan, 1)
	if g := gateOf(t, plan, lane.Band, ""); g.OpensAt != t0 {
		t.Fatalf("gate of the second suspect opens at %d, want now: other workers may take it", g.OpensAt)
	}
}

func TestExpiredJobsAreSetAside(t *testing.T) {
	p := newPicture(9)
	l := p.lane(Lane{}, 1, 2)
	l.Heads[0].ExpiresAt = t0
	p.Lanes[0].Heads[0].ExpiresAt = t0
	plan := p.Plan()
	wantGrants(t, plan, 2)
	if !slices.Equal(plan.Expired, []int64{1}) {
		t.Fatalf("expired %v, want [1]", plan.Expired)
	}
}

// A costly job at the head gets its turn although small ones keep coming: it
// books an instant that they must leave possible.
func TestCostlyHeadIsNotStarved(t *testing.T) {
	st := &limit.State{}
	sp, _ := limit.Parse("10/10s burst 10")
	now, costly := t0, limit.Instant(0)
	for step := 0; step < 60_000 && costly == 0; step++ {
		p := &picture{Picture{Now: now, Horizon: 0, Places: 10, QueueMax: map[string]int{}, Limits: map[string]*Limit{"api": {Spec: sp, State: st}}}}
		p.lane(Lane{ID: 1, Draws: []Draw{{"api", 8}}}, 1)
		p.lane(Lane{ID: 2, VTime: -1, Draws: []Draw{{"api", 1}}}, int64(100+step))
		for _, g := range p.Plan().Grants {
			if g.Job == 1 {
				costly = now
			}
		}
		now += 10_000
	}
	if costly == 0 || costly-t0 > 25_000_000 {
		t.Fatalf("the job of cost 8 ran after %d µs of a 10/10s limit beside a stream of cost 1", costly-t0)
	}
}

// A job that draws on a busy limit and on a slow one is not starved on the busy
// one by jobs that draw on that alone: it books one instant in both.
func TestJobOfSeveralLimitsIsNotStarved(t *testing.T) {
	busy, slow := &limit.State{}, &limit.State{}
	busySpec, _ := limit.Parse("10/s burst 1")
	slowSpec, _ := limit.Parse("1/s burst 1")
	now, both := t0, 0
	for step := range 1000 { // 10 s
		p := &picture{Picture{Now: now, Places: 10, QueueMax: map[string]int{}, Limits: map[string]*Limit{
			"busy": {Spec: busySpec, State: busy}, "slow": {Spec: slowSpec, State: slow}}}}
		// The small ones have the smaller share so far, and are asked first.
		p.lane(Lane{ID: 2, VTime: -1 << 40, Draws: []Draw{{"busy", 1}}}, int64(100+2*step), int64(101+2*step))
		p.lane(Lane{ID: 1, Draws: []Draw{{"busy", 1}, {"slow", 1}}}, 1, 2)
		p.Gates[0].VClock = -1 << 40
		for _, g := range p.Plan().Grants {
			if g.Lane == 1 {
				both++
			}
		}
		now += 10_000
	}
	if both < 8 {
		t.Fatalf("%d starts in 10 s under 1/s beside a stream on its other limit, want at least 8", both)
	}
}

// A job's other limit pushes its slot; the next grant must not look back.
func TestSlotsNeverDecreaseWithinALimit(t *testing.T) {
	p := newPicture(100)
	p.Horizon = 200 * time.Millisecond
	p.limit(t, "wide", "50/s burst 50")
	p.limit(t, "slow", "11/s burst 1")
	p.lane(Lane{Draws: []Draw{{"wide", 1}, {"slow", 1}}}, 1, 2)
	p.lane(Lane{Draws: []Draw{{"wide", 1}}}, 11, 12, 13, 14)
	last := limit.Instant(0)
	for _, g := range p.Plan().Grants {
		if g.Slot < last {
			t.Fatalf("slot +%d µs after slot +%d µs", g.Slot-t0, last-t0)
		}
		last = g.Slot
	}
}
