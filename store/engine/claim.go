package engine

import (
	"context"
	"slices"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// The bounds of one claim. What lies beyond them is looked at by the next one.
const (
	wakesPerClaim = 128 // sleeping lanes whose time has come, and announcements
	lanesPerClaim = 64  // lanes looked at, and so gates, however many places are free
	lanesSpare    = 8   // lanes looked at beyond those that could fill the places
)

// Claim takes jobs together with their permits.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	if !r.Repeat {
		// A look that writes nothing: most claims of an idle or blocked worker end here.
		res, busy, err := s.look(ctx, r)
		if err != nil || !busy {
			return res, err
		}
	}
	var res store.ClaimResult
	err := s.db.Update(ctx, func(tx Tx) error {
		c := claim{tx: tx, r: r}
		if err := c.run(); err != nil {
			return err
		}
		res = c.res
		return nil
	})
	if err != nil {
		return store.ClaimResult{}, err
	}
	return res, nil
}

// look reports whether a claim could find something, else when it could.
func (s *Store) look(ctx context.Context, r store.ClaimRequest) (res store.ClaimResult, busy bool, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		c := claim{tx: tx, r: r}
		if err := tx.Ahead(Ahead{Announced: true, Sleepers: 1, Bands: c.bandAsk()}); err != nil {
			return err
		}
		if err := c.begin(); err != nil {
			return err
		}
		sleepers, err := tx.SleepingLanes(c.now, 1)
		if err != nil {
			return err
		}
		announced, err := tx.Announced(AnyLane)
		if err != nil {
			return err
		}
		if busy = announced || len(sleepers) > 0; busy {
			return nil
		}
		bands := c.bandIDs()
		if err := tx.Ahead(Ahead{OpenGates: &GateAsk{Bands: bands, At: c.horizonAt(), Most: 1},
			Next: &NextAsk{Bands: bands, After: c.horizonAt()}}); err != nil {
			return err
		}
		for _, b := range c.bands {
			gates, err := tx.OpenGates(b.ID, c.horizonAt(), 1)
			if err != nil {
				return err
			}
			if busy = len(gates) > 0; busy {
				return nil
			}
		}
		res.Now = c.now
		res.NextAt, err = c.nextAt()
		return err
	})
	return res, busy, err
}

// claim is one claim under way.
type claim struct {
	tx      Tx
	r       store.ClaimRequest
	now     int64
	bands   []Band // that it may serve, in serving order
	picture dispatch.Picture
	limits  *limits
	lanes   map[int64]Lane
	gates   map[gateKey]*Gate
	heads   map[int64]*Job
	first   map[int64][]dispatch.Head // by lane: its heads
	taken   map[int64]int             // by lane: how many of them the plan took
	most    int                       // lanes to look at
	cut     bool                      // the picture left something out
	res     store.ClaimResult
}

type gateKey struct {
	band  int64
	limit string
}

func (c *claim) run() error {
	if c.r.Repeat {
		if found, err := c.repeat(); err != nil || found {
			return err
		}
	}
	if err := c.tx.Ahead(Ahead{Worker: c.r.Worker, TakeWakes: wakesPerClaim, Sleepers: wakesPerClaim, Bands: c.bandAsk()}); err != nil {
		return err
	}
	if _, ok, err := c.tx.Worker(c.r.Worker); err != nil {
		return err
	} else if !ok {
		return store.ErrUnknownWorker
	}
	if err := c.begin(); err != nil {
		return err
	}
	sleeping, err := wakeSleepers(c.tx, c.now, wakesPerClaim)
	if err != nil {
		return err
	}
	announced, more, err := takeWakes(c.tx, c.now)
	if err != nil {
		return err
	}
	more = more || sleeping
	if announced || more || len(c.bands) == 0 {
		// A lane that woke may belong to a band that had nothing before.
		if c.bands, err = c.servable(); err != nil {
			return err
		}
	}
	if err := c.see(); err != nil {
		return err
	}
	plan := c.picture.Plan()
	if err := c.commit(&plan); err != nil {
		return err
	}
	c.res.Now = c.now
	// What was cut off may be startable, while there is a place for it. The next
	// look finds other gates, since those of refused lanes are shut now.
	if plan.Again || more || c.cut && len(c.res.Jobs) < c.r.Places {
		c.res.NextAt = c.now
		return nil
	}
	c.res.NextAt, err = c.nextAt()
	return err
}

// repeat finds the jobs that the same token leased before.
func (c *claim) repeat() (bool, error) {
	after := int64(0)
	var mine []*Job
	for {
		page, err := c.tx.HeldBy(c.r.Worker, after, 256)
		if err != nil {
			return false, err
		}
		for _, j := range page {
			after = j.ID
			if j.Token == c.r.Token {
				mine = append(mine, j)
			}
		}
		if len(page) < 256 {
			break
		}
	}
	if len(mine) == 0 {
		return false, nil
	}
	now, err := c.tx.Now()
	if err != nil {
		return false, err
	}
	c.res.Now, c.res.NextAt = now, now
	return true, c.answer(mine)
}

func (c *claim) begin() (err error) {
	if c.now, err = c.tx.Now(); err != nil {
		return err
	}
	c.bands, err = c.servable()
	return err
}

func (c *claim) horizonAt() int64 { return c.now + (c.r.Lead + c.r.Horizon).Microseconds() }

// servable returns the bands this worker may serve, in serving order.
func (c *claim) servable() ([]Band, error) {
	ask := c.bandAsk()
	if ask == nil {
		return nil, nil
	}
	bands, err := c.tx.Bands(ask.Kinds, ask.Run, ask.Queues)
	if err != nil {
		return nil, err
	}
	places := map[string]int{}
	for _, q := range c.r.Queues {
		places[q.Name] = q.Place
	}
	bands = slices.DeleteFunc(bands, func(b Band) bool { return b.Suspect && !c.r.SuspectFree })
	slices.SortStableFunc(bands, func(a, b Band) int {
		if d := places[a.Queue] - places[b.Queue]; d != 0 {
			return d
		}
		return b.Priority - a.Priority
	})
	return bands, nil
}

// bandAsk says which bands the worker may serve, nil for none.
func (c *claim) bandAsk() *BandAsk {
	var queues []string
	for _, q := range c.r.Queues {
		if q.Max > 0 {
			queues = append(queues, q.Name)
		}
	}
	if len(c.r.Queues) > 0 && len(queues) == 0 || len(c.r.Kinds) == 0 {
		return nil
	}
	return &BandAsk{c.r.Kinds, c.r.Run, queues}
}

func (c *claim) bandIDs() []int64 {
	ids := make([]int64, len(c.bands))
	for i, b := range c.bands {
		ids[i] = b.ID
	}
	return ids
}

// see reads a bounded picture: open gates, their lanes, limits, first jobs.
func (c *claim) see() error {
	c.limits, c.lanes, c.gates, c.heads = newLimits(c.tx), map[int64]Lane{}, map[gateKey]*Gate{}, map[int64]*Job{}
	c.first = map[int64][]dispatch.Head{}
	c.picture = dispatch.Picture{Now: c.now, Lead: c.r.Lead, Horizon: c.r.Horizon, Places: c.r.Places, Prefetch: c.r.Prefetch,
		QueueMax: map[string]int{}, Limits: map[string]*dispatch.Limit{}}
	places := map[string]int{}
	for _, q := range c.r.Queues {
		places[q.Name], c.picture.QueueMax[q.Name] = q.Place, q.Max
	}
	c.most = min(c.r.Places+c.r.Prefetch+lanesSpare, lanesPerClaim)
	gates, err := c.openGates()
	if err != nil {
		return err
	}
	for _, g := range gates {
		if err := c.seeGate(g.band, g.gate, places[g.band.Queue]); err != nil {
			return err
		}
	}
	if err := c.seeLimits(); err != nil {
		return err
	}
	return c.seeHeads()
}

type bandGate struct {
	band Band
	gate Gate
}

// openGates returns the first open gates in the order of the bands.
func (c *claim) openGates() (gates []bandGate, err error) {
	if err := c.tx.Ahead(Ahead{OpenGates: &GateAsk{Bands: c.bandIDs(), At: c.horizonAt(), Most: c.most}}); err != nil {
		return nil, err
	}
	var keys []GateKey
	for _, b := range c.bands {
		room := c.most - len(gates)
		if room <= 0 {
			c.cut = true
			break
		}
		found, err := c.tx.OpenGates(b.ID, c.horizonAt(), room)
		if err != nil {
			return nil, err
		}
		c.cut = c.cut || len(found) == room
		for _, g := range found {
			gates, keys = append(gates, bandGate{b, g}), append(keys, GateKey{b.ID, g.Limit})
		}
	}
	return gates, c.tx.Ahead(Ahead{Ready: keys, ReadyMost: c.most})
}

// seeGate adds an open gate and its first lanes.
func (c *claim) seeGate(b Band, g Gate, place int) error {
	room := c.most - len(c.picture.Lanes)
	if room <= 0 {
		c.cut = true
		return nil
	}
	lanes, err := c.tx.ReadyLanes(b.ID, g.Limit, room)
	if err != nil {
		return err
	}
	c.gates[gateKey{b.ID, g.Limit}] = &g
	c.picture.Gates = append(c.picture.Gates, dispatch.Gate{Band: b.ID, Limit: g.Limit, VClock: g.VClock, Whole: len(lanes) < room})
	for _, l := range lanes {
		c.lanes[l.ID] = l
		c.picture.Lanes = append(c.picture.Lanes, &dispatch.Lane{ID: l.ID, Band: b.ID, Queue: b.Queue, Place: place,
			Priority: b.Priority, Suspect: b.Suspect, Gate: g.Limit, VTime: l.VTime, Draws: l.Draws})
	}
	return nil
}

// seeLimits adds the limits of the lanes and gates.
func (c *claim) seeLimits() error {
	var names []string
	for _, l := range c.picture.Lanes {
		for _, d := range l.Draws {
			names = append(names, d.Limit)
		}
	}
	for _, g := range c.picture.Gates {
		if g.Limit != "" {
			names = append(names, g.Limit)
		}
	}
	if err := c.tx.Ahead(Ahead{Limits: names}); err != nil {
		return err
	}
	for _, name := range names {
		if err := c.seeLimit(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *claim) seeLimit(name string) error {
	if c.picture.Limits[name] != nil {
		return nil
	}
	l, err := c.limits.get(name)
	if err != nil {
		return err
	}
	c.picture.Limits[name] = &dispatch.Limit{Spec: l.Spec, State: &l.State}
	return nil
}

// seeHeads reads each lane's first due jobs, no more than could be granted.
func (c *claim) seeHeads() error {
	asks := make([]HeadAsk, len(c.picture.Lanes))
	for i, l := range c.picture.Lanes {
		asks[i] = HeadAsk{l.ID, dispatch.Wants(&c.picture, l, 0), len(l.Draws) == 0}
	}
	if err := c.tx.Ahead(Ahead{Heads: asks, HeadsAt: c.now, FreeMost: c.r.Places + c.r.Prefetch}); err != nil {
		return err
	}
	taken := 0
	for _, l := range c.picture.Lanes {
		n := dispatch.Wants(&c.picture, l, taken)
		jobs, err := c.tx.Heads(l.ID, c.now, n)
		if err != nil {
			return err
		}
		l.More = len(jobs) == n
		l.Heads = make([]dispatch.Head, len(jobs))
		c.first[l.ID] = l.Heads
		for i, j := range jobs {
			c.heads[j.ID] = j
			l.Heads[i] = dispatch.Head{ID: j.ID, At: j.At, ExpiresAt: j.ExpiresAt}
		}
		if len(l.Draws) == 0 {
			taken += len(jobs)
		}
	}
	return nil
}

// nextAt is the next instant at which something opens for this worker.
func (c *claim) nextAt() (int64, error) {
	ids := c.bandIDs()
	if len(ids) == 0 {
		return Empty, nil
	}
	if err := c.tx.Ahead(Ahead{Next: &NextAsk{Bands: ids, After: c.horizonAt()}}); err != nil {
		return 0, err
	}
	next, err := c.tx.NextSleeper(ids)
	if err != nil {
		return 0, err
	}
	gate, err := c.tx.NextGate(ids, c.horizonAt())
	if err != nil {
		return 0, err
	}
	if gate < Held {
		// Halfway into the horizon, so that slots close to one another are claimed
		// together, and there is time left to commit.
		gate = max(c.now, gate-(c.r.Lead+c.r.Horizon/2).Microseconds())
	}
	if next = min(next, gate); next >= Held {
		next = Empty
	}
	return next, nil
}
