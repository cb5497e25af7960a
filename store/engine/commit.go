package engine

import (
	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// commit writes what the plan decided: leases, ends of expired jobs, limits,
// lanes and gates.
func (c *claim) commit(plan *dispatch.Plan) (err error) {
	for name := range plan.Changed {
		c.limits.loaded[name].changed = true
	}
	jobs := make([]*Job, len(plan.Grants))
	for i, g := range plan.Grants {
		j := c.heads[g.Job]
		j.State, j.Worker, j.Token, j.Slot, j.LeaseAt, j.Charges = store.Running, c.r.Worker, c.r.Token, g.Slot, c.now, g.Charges
		j.Starts++
		jobs[i] = j
	}
	if err := c.tx.Lease(jobs); err != nil {
		return err
	}
	e := ender{tx: c.tx, now: c.now, limits: c.limits}
	for _, id := range plan.Expired {
		e.end(c.heads[id], store.Dead, store.Expired, "not started before its expiry")
	}
	ended := e.ended
	if err := c.tx.EndJobs(ended); err != nil {
		return err
	}
	if err := c.commitGates(plan); err != nil {
		return err
	}
	// Successors of expired jobs go last: they may wake lanes and gates written above.
	e.ended = nil
	if err := e.write(); err != nil {
		return err
	}
	if c.res.ExpiredJobs, err = views(c.tx, ended, true); err != nil {
		return err
	}
	if err := c.answer(jobs); err != nil {
		return err
	}
	for i, g := range plan.Grants {
		c.res.Jobs[i].Early = g.Early
	}
	return nil
}

// commitGates writes the lanes and gates the plan moved. Gates come last,
// because a lane that changes may open one again.
func (c *claim) commitGates(plan *dispatch.Plan) error {
	c.taken = taken(c.heads, plan)
	notify := false
	was := make(map[gateKey]Gate, len(plan.Gates))
	for _, g := range plan.Gates {
		row := c.gates[gateKey{g.Band, g.Limit}]
		was[gateKey{g.Band, g.Limit}] = *row
		row.OpensAt, row.VClock = g.OpensAt, g.VClock
	}
	if err := c.commitAhead(plan); err != nil {
		return err
	}
	for _, ch := range plan.Lanes {
		l := c.lanes[ch.ID]
		g, err := c.gate(l.Band.ID, ch.Gate)
		if err != nil {
			return err
		}
		l.Gate, l.VTime = ch.Gate, g.VClock+ch.Lag
		if at, id, moved := c.floor(l.ID); moved {
			l.FloorAt, l.FloorID = at, id
		}
		if ch.Moved {
			g.OpensAt = min(g.OpensAt, ch.OpensAt)
		}
		if ch.Short {
			at, found, err := c.tx.FirstAfter(l.ID, c.now)
			if err != nil {
				return err
			}
			l.rest(at, found)
			notify = notify || l.State == LaneSleeping
		}
		c.lanes[l.ID] = l
		if err := c.tx.SaveLane(l); err != nil {
			return err
		}
	}
	for key, g := range c.gates {
		old, seen := was[key]
		if seen && old == *g {
			continue
		}
		// A gate that was seen was open, so whoever may serve it has looked at it. Of
		// another one others may believe that it opens later.
		notify = notify || !seen
		if err := c.tx.SaveGate(*g); err != nil {
			return err
		}
	}
	if notify {
		return c.tx.Notify()
	}
	return nil
}

// taken counts by lane the first jobs that the plan took from it.
func taken(heads map[int64]*Job, plan *dispatch.Plan) map[int64]int {
	n := make(map[int64]int)
	for _, g := range plan.Grants {
		n[g.Lane]++
	}
	for _, id := range plan.Expired {
		n[heads[id].Lane]++
	}
	return n
}

// floor is the lane's first job that the plan left, or what comes behind the last
// one that it took; moved is false if it took none.
func (c *claim) floor(lane int64) (at, id int64, moved bool) {
	n := c.taken[lane]
	if n == 0 {
		return 0, 0, false
	}
	heads := c.first[lane]
	if n < len(heads) {
		return heads[n].At, heads[n].ID, true
	}
	last := heads[len(heads)-1]
	return last.At, last.ID + 1, true
}

// commitAhead lets the store fetch what moving the lanes reads.
func (c *claim) commitAhead(plan *dispatch.Plan) error {
	a := Ahead{HeadsAt: c.now}
	for _, ch := range plan.Lanes {
		if ch.Short {
			a.Later = append(a.Later, ch.ID)
		}
		if key := (gateKey{c.lanes[ch.ID].Band.ID, ch.Gate}); ch.Moved && c.gates[key] == nil {
			a.Gates = append(a.Gates, GateKey{key.band, key.limit})
		}
	}
	return c.tx.Ahead(a)
}

// gate returns the claim's working copy of a gate.
func (c *claim) gate(band int64, name string) (*Gate, error) {
	key := gateKey{band, name}
	if g, ok := c.gates[key]; ok {
		return g, nil
	}
	g, err := gateOf(c.tx, band, name)
	if err != nil {
		return nil, err
	}
	c.gates[key] = &g
	return &g, nil
}

// answer fills in the claimed jobs with what a worker needs to run them.
func (c *claim) answer(jobs []*Job) error {
	vs, err := views(c.tx, jobs, false)
	if err != nil {
		return err
	}
	out := make([]store.Claimed, len(vs))
	ids := make([]int64, len(vs))
	for i, v := range vs {
		out[i], ids[i] = store.Claimed{Job: v, Charges: jobs[i].Charges}, v.ID
	}
	c.res.Jobs = out
	return c.tx.BodiesLater(ids, func(bodies []Body) error {
		for i, b := range bodies {
			if err := setBody(&out[i].Job, b); err != nil {
				return err
			}
		}
		return nil
	})
}
