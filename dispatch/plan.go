package dispatch

import (
	"container/heap"
	"time"

	"github.com/penstockhq/penstock/limit"
)

// bookingGrace is how long after its instant a booking still holds room for
// its lane. It covers a claim that comes late.
const bookingGrace = time.Second

// noProgress is how long a gate stays shut whose shown lanes were all refused
// although its limit has room, so that looking again cannot spin.
const noProgress = time.Millisecond

// maxRounds bounds the search for one slot that suits all limits of a job. Each
// round moves the slot later; calendars and pauses need two or three.
const maxRounds = 64

// Wants returns how many heads of the lane are worth reading: an upper bound on
// what the plan can grant from it, at least 1 so that its opening time can be
// told. taken counts heads read for lanes without limits before this one.
func Wants(p *Picture, l *Lane, taken int) int {
	n := p.Places
	if len(l.Draws) == 0 {
		n = p.Places + p.Prefetch - taken
	}
	if most, ok := p.QueueMax[l.Queue]; ok {
		n = min(n, most)
	}
	for _, d := range l.Draws {
		lim := p.Limits[d.Limit]
		if lim == nil {
			continue
		}
		n = int(min(int64(n), lim.State.Room(lim.Spec, d.Cost, p.Now, p.horizonAt())))
	}
	if l.Suspect {
		n = min(n, 1)
	}
	return max(n, 1)
}

// planner is the working state of one Plan.
type planner struct {
	*Picture
	plan      Plan
	line      line
	gates     map[gateKey]*gateView
	room      map[string]int // places left by queue
	places    int            // left for any job
	prefetch  int            // left for jobs without limits
	tookOne   bool           // a suspect was granted
	from      []*gateView    // per plan.Lanes: the gate the lane was at
	horizonAt limit.Instant
}

type gateKey struct {
	band  int64
	limit string
}

// gateView is what the plan knows of a gate.
type gateView struct {
	Gate
	base     int64         // VClock when the plan began
	priority int           // of its lanes
	opensAt  limit.Instant // earliest instant of its refused lanes
	open     bool          // a lane that might go now was left unserved
	progress bool          // something was granted, expired or moved away
}

// Plan decides what is granted. It charges the states in p.Limits; the caller
// commits them with the plan or forgets both.
func (p *Picture) Plan() Plan {
	pl := newPlanner(p)
	for pl.line.Len() > 0 {
		pl.serve(pl.line.lanes[0])
	}
	return pl.finish()
}

// until is the last instant at which a slot of the limit may lie.
func (pl *planner) until(lim *Limit) limit.Instant {
	if lim != nil && lim.Awaited != 0 {
		return min(pl.horizonAt, lim.Awaited-1)
	}
	return pl.horizonAt
}

// horizonAt is the last instant at which a granted slot may lie.
func (p *Picture) horizonAt() limit.Instant { return p.Now + (p.Lead + p.Horizon).Microseconds() }

func newPlanner(p *Picture) *planner {
	pl := &planner{
		Picture:   p,
		plan:      Plan{Changed: map[string]bool{}},
		gates:     make(map[gateKey]*gateView, len(p.Gates)),
		room:      make(map[string]int, len(p.QueueMax)),
		places:    p.Places,
		prefetch:  p.Prefetch,
		horizonAt: p.horizonAt(),
	}
	for q, n := range p.QueueMax {
		pl.room[q] = n
	}
	for _, g := range p.Gates {
		pl.gates[gateKey{g.Band, g.Limit}] = &gateView{Gate: g, base: g.VClock, opensAt: Empty}
	}
	for _, l := range p.Lanes {
		g := pl.gates[gateKey{l.Band, l.Gate}]
		if g == nil {
			continue // a lane whose gate is not shown cannot be planned
		}
		g.priority = l.Priority
		pl.line.lanes = append(pl.line.lanes, &laneView{Lane: l, gate: g, vtime: max(l.VTime, g.VClock)})
	}
	heap.Init(&pl.line)
	return pl
}

// serve grants, expires or refuses the first job of the lane at the top.
func (pl *planner) serve(l *laneView) {
	heads := l.left()
	if len(heads) == 0 && !l.More {
		pl.leave(l, true)
		return
	}
	if len(heads) > 0 && heads[0].ExpiresAt != 0 && heads[0].ExpiresAt <= pl.Now {
		pl.plan.Expired = append(pl.plan.Expired, heads[0].ID)
		l.gate.progress = true
		l.next++
		heap.Fix(&pl.line, 0)
		return
	}
	if l.Suspect && pl.tookOne || !pl.hasPlace(l) {
		l.gate.open = true
		pl.leave(l, false)
		return
	}
	at, early, refused := pl.slot(l)
	switch {
	case refused != nil:
		pl.refuse(l, at, *refused)
	case len(heads) == 0: // there is more than was read, and room for it
		l.gate.open = true
		pl.plan.Again = true
		pl.leave(l, false)
	default:
		pl.grant(l, heads[0], at, early)
	}
}

// hasPlace reports whether the worker can take one more job of the lane.
func (pl *planner) hasPlace(l *laneView) bool {
	if room, ok := pl.room[l.Queue]; ok && room <= 0 {
		return false
	}
	return pl.places > 0 || len(l.Draws) == 0 && pl.prefetch > 0
}

func (pl *planner) grant(l *laneView, h Head, slot limit.Instant, early bool) {
	g := Grant{Job: h.ID, Lane: l.ID, Slot: slot, Early: early}
	for _, d := range l.Draws {
		if lim := pl.Limits[d.Limit]; lim != nil {
			lim.State.Take(lim.Spec, l.ask(d), slot)
			pl.plan.Changed[d.Limit] = true
			g.Charges = append(g.Charges, Charge{Limit: d.Limit, Cost: d.Cost, Slot: slot})
		}
	}
	pl.plan.Grants = append(pl.plan.Grants, g)
	if pl.places > 0 {
		pl.places--
	} else {
		pl.prefetch--
	}
	if _, ok := pl.room[l.Queue]; ok {
		pl.room[l.Queue]--
	}
	pl.tookOne = pl.tookOne || l.Suspect
	l.gate.progress = true
	l.gate.VClock = max(l.gate.VClock, l.vtime)
	l.vtime += l.weight()
	l.served = true
	l.next++
	heap.Fix(&pl.line, 0)
}

// refusal says which limit refuses a job.
type refusal struct {
	limit   string
	windows bool // windows and pacing alone refuse: an instant can be booked
}

// slot finds the earliest instant that suits all limits of the lane's jobs. A
// refusal names the limit that opens last. Within a limit slots never decrease,
// because Earliest never returns an instant before the limit's last slot. Early says
// that a start may begin before it.
func (pl *planner) slot(l *laneView) (slot limit.Instant, early bool, refused *refusal) {
	if at := pl.Now + max(pl.Lead, pl.Early).Microseconds(); pl.Early > 0 && at <= pl.horizonAt && pl.rated(l) && pl.far(l, at) {
		return at, true, nil
	}
	at, refused := pl.earliest(l)
	return at, false, refused
}

// far says whether all limits of the lane are far from being used up, until the instant.
func (pl *planner) far(l *laneView, until limit.Instant) bool {
	for _, d := range l.Draws {
		if lim := pl.Limits[d.Limit]; lim != nil && (lim.Awaited != 0 || !lim.State.Far(lim.Spec, l.ask(d), pl.Now, until)) {
			return false
		}
	}
	return true
}

// earliest is slot for starts that do not begin before it.
func (pl *planner) earliest(l *laneView) (limit.Instant, *refusal) {
	at, until, r := pl.Now, pl.horizonAt, refusal{windows: true}
	if pl.rated(l) {
		at += pl.Lead.Microseconds()
	}
	for range maxRounds {
		before := at
		for _, d := range l.Draws {
			lim := pl.Limits[d.Limit]
			if lim == nil {
				continue
			}
			until = min(until, pl.until(lim))
			t, why := lim.State.Earliest(lim.Spec, l.ask(d), at)
			if t <= at {
				continue
			}
			at, r.limit = t, d.Limit
			if why != limit.Window && why != limit.Pacing && why != limit.Announced && why != limit.Booked {
				r.windows = false
			}
			if at == limit.Never {
				return at, &r
			}
		}
		if at == before {
			if at <= until {
				return at, nil
			}
			return at, &r
		}
	}
	return max(at, pl.horizonAt+1), &r
}

// rated says whether a limit of the lane has a rate, so that slots matter.
func (pl *planner) rated(l *laneView) bool {
	for _, d := range l.Draws {
		if lim := pl.Limits[d.Limit]; lim != nil && lim.Spec.HasRate() {
			return true
		}
	}
	return false
}

// refuse parks the lane at the gate of the limit that refused it. Nothing is
// booked for a job that may not be there: a lane that was served of all its jobs
// would keep the others waiting for nobody.
func (pl *planner) refuse(l *laneView, at limit.Instant, r refusal) {
	if r.windows && len(l.left()) > 0 && pl.worthBooking(l) {
		for _, d := range l.Draws {
			if lim := pl.Limits[d.Limit]; lim != nil {
				lim.State.Book(limit.Booking{At: at, Expires: at + bookingGrace.Microseconds(),
					Cost: d.Cost, Priority: l.Priority, Holder: uint64(l.ID)})
				pl.plan.Changed[d.Limit] = true
			}
		}
	}
	at = min(at, Held)
	if r.limit == l.Gate {
		l.gate.opensAt = min(l.gate.opensAt, at)
		pl.leave(l, false)
		return
	}
	l.gate.progress = true
	l.moved, l.movedTo, l.opensAt = true, r.limit, at
	pl.leave(l, false)
}

// worthBooking: a job that takes one permit of one limit is next whenever a
// permit is due, so it needs no booking.
func (pl *planner) worthBooking(l *laneView) bool {
	if len(l.Draws) > 1 {
		return true
	}
	return len(l.Draws) == 1 && l.Draws[0].Cost > 1
}

// leave takes the lane at the top out of the line and notes its change. Short
// says that nothing due is left in it.
func (pl *planner) leave(l *laneView, short bool) {
	heap.Pop(&pl.line)
	if !l.served && !l.moved && !short {
		return
	}
	c := LaneChange{ID: l.ID, Gate: l.Gate, Lag: l.vtime, Short: short, Moved: l.moved, OpensAt: l.opensAt}
	if l.moved {
		c.Gate = l.movedTo
	}
	pl.plan.Lanes = append(pl.plan.Lanes, c)
	pl.from = append(pl.from, l.gate)
}

// finish states when each gate opens next, and makes virtual times relative to
// the final clocks.
func (pl *planner) finish() Plan {
	for i := range pl.plan.Lanes {
		c := &pl.plan.Lanes[i]
		c.Lag = max(c.Lag-pl.from[i].VClock, 0)
	}
	for _, g := range pl.Gates {
		v := pl.gates[gateKey{g.Band, g.Limit}]
		opens := v.opensAt
		if v.open {
			opens = pl.Now
		} else if !v.Whole {
			opens = min(opens, pl.unseen(v))
		}
		pl.plan.Gates = append(pl.plan.Gates, GateChange{Band: g.Band, Limit: g.Limit, OpensAt: opens, VClock: v.VClock})
	}
	return pl.plan
}

// unseen tells when lanes of the gate that were not shown may run: they may be
// cheaper than those that were.
func (pl *planner) unseen(v *gateView) limit.Instant {
	t, lim := pl.Now, pl.Limits[v.Limit]
	if lim != nil {
		t, _ = lim.State.Earliest(lim.Spec, limit.Ask{Cost: 1, Priority: v.priority}, pl.Now)
	}
	if t > pl.until(lim) {
		return min(t, Held)
	}
	if !v.progress {
		return max(t, pl.Now+noProgress.Microseconds())
	}
	pl.plan.Again = pl.plan.Again || pl.places > 0
	return pl.Now
}
