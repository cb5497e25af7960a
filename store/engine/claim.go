package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// The bounds of one claim. What lies beyond them is looked at by the next one.
const (
	wakesPerClaim = 24 // sleeping lanes whose time has come, and lanes and limits of which something was announced; fewer for few places
	wakesSpare    = 16 // but so many beyond the places
	lanesPerClaim = 24 // lanes looked at, and so gates, however many places are free
	lanesSpare    = 8  // lanes looked at beyond those that could fill the places
)

// Claim takes jobs together with their permits.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	if told := s.db.Told(); !told && !r.Repeat && !r.More {
		// A look that writes nothing: most claims of an idle or blocked worker end here.
		res, busy, err := s.look(ctx, r)
		if err != nil || !busy {
			return res, err
		}
	}
	var c *claim
	err := s.db.Update(ctx, func(tx Tx) error {
		c = &claim{tx: tx, r: r}
		return c.run()
	})
	if err != nil {
		return store.ClaimResult{}, err
	}
	return c.res, nil
}

// look reports whether a claim could find something, else when it could.
func (s *Store) look(ctx context.Context, r store.ClaimRequest) (res store.ClaimResult, busy bool, err error) {
	err = s.db.Peek(ctx, func(tx Tx) error {
		c := claim{tx: tx, r: r}
		if err := tx.Ahead(Ahead{Announced: true, Bands: c.bandAsk()}); err != nil {
			return err
		}
		// First, for who takes the announcement writes what it does to gates.
		var err error
		if busy, err = tx.Announced(AnyLane); err != nil {
			return err
		}
		if err := c.begin(); err != nil {
			return err
		}
		res.Now, res.NextAt = c.now, Empty
		if busy || len(c.bands) == 0 {
			return nil
		}
		sleeper, err := tx.NextSleeper(c.bandIDs())
		if err != nil {
			return err
		}
		gate, err := tx.NextGate(c.bandIDs(), Always)
		if err != nil {
			return err
		}
		busy = sleeper <= c.now || gate <= c.openAt()
		res.NextAt = c.nextOf(sleeper, gate)
		return nil
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
	c.most = min(c.r.Places+c.r.Prefetch+lanesSpare, lanesPerClaim)
	if err := c.tx.Ahead(Ahead{Worker: c.r.Worker, TakeWakes: c.wakes(), Sleepers: c.wakes(), Bands: c.bandAsk(), Soon: c.pictureAsk()}); err != nil {
		return err
	}
	if w, ok, err := c.tx.Worker(c.r.Worker); err != nil {
		return err
	} else if !ok || w.SeenAt == declaredDead {
		return store.ErrUnknownWorker
	}
	if err := c.begin(); err != nil {
		return err
	}
	sleeping, err := wakeSleepers(c.tx, c.now, c.wakes())
	if err != nil {
		return err
	}
	woken, more, err := takeWakes(c.tx, c.now, c.wakes())
	if err != nil {
		return err
	}
	more = more || sleeping
	if err := c.join(woken); err != nil {
		return err
	}
	if err := c.see(); err != nil {
		return err
	}
	plan := c.picture.Plan()
	if err := c.commit(&plan); err != nil {
		return err
	}
	if !c.tookAll(woken) {
		if err := c.tx.Notify(); err != nil {
			return err
		}
	}
	c.res.Now = c.now
	// What was cut off may be startable, while there is a place for it. The next
	// look finds other gates, since those of refused lanes are shut now.
	if plan.Again || more || c.cut && len(c.res.Jobs) < c.r.Places {
		c.res.NextAt = c.now
		return nil
	}
	return c.nextAt()
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

// wakes is how many lanes wake in this claim: a worker with one place should not have
// to wait for what many lanes cost.
func (c *claim) wakes() int { return min(c.r.Places+c.r.Prefetch+wakesSpare, wakesPerClaim) }

// openAt is until when gates count as open.
func (c *claim) openAt() int64 { return c.now + c.r.Ahead().Microseconds() }

// horizonAt is the last instant at which a slot may lie.
func (c *claim) horizonAt() int64 { return c.now + c.reach().Microseconds() }

// reach is how far ahead slots may lie.
func (c *claim) reach() time.Duration { return c.r.Lead + c.r.Horizon }

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
	bands = slices.DeleteFunc(bands, func(b Band) bool { return b.Suspect && !c.r.SuspectFree })
	c.sort(bands)
	return bands, nil
}

// sort puts bands into serving order.
func (c *claim) sort(bands []Band) {
	places := map[string]int{}
	for _, q := range c.r.Queues {
		places[q.Name] = q.Place
	}
	slices.SortStableFunc(bands, func(a, b Band) int {
		return cmp.Or(places[a.Queue]-places[b.Queue], b.Priority-a.Priority, cmp.Compare(a.ID, b.ID))
	})
}

// join adds the bands of lanes that woke: nothing may have waited in them before.
func (c *claim) join(woken []Lane) error {
	ask := c.bandAsk()
	known := map[int64]bool{}
	for _, b := range c.bands {
		known[b.ID] = true
	}
	for _, l := range woken {
		b := l.Band
		if known[b.ID] || ask == nil || !ask.includes(b) || b.Suspect && !c.r.SuspectFree {
			continue
		}
		known[b.ID] = true
		if _, paused, err := c.tx.Queue(b.Queue); err != nil {
			return err
		} else if !paused {
			c.bands = append(c.bands, b)
		}
	}
	c.sort(c.bands)
	return nil
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

// tookAll reports whether nothing is left in the lanes. Whoever put something there
// has told of it; but where it was in a transaction of a caller's, or by a process that
// was killed, others find out by the announcement, which this claim has taken.
func (c *claim) tookAll(woken []Lane) bool {
	for _, l := range woken {
		if seen, ok := c.lanes[l.ID]; !ok || seen.State != LaneEmpty {
			return false
		}
	}
	return true
}

// see reads a bounded picture: open gates, their lanes, limits, first jobs.
func (c *claim) see() error {
	c.limits, c.lanes, c.gates, c.heads = newLimits(c.tx), map[int64]Lane{}, map[gateKey]*Gate{}, map[int64]*Job{}
	c.first = map[int64][]dispatch.Head{}
	c.picture = dispatch.Picture{Now: c.now, Lead: c.r.Lead, Horizon: c.r.Horizon, Early: c.r.Early, Places: c.r.Places, Prefetch: c.r.Prefetch,
		QueueMax: map[string]int{}, Limits: map[string]*dispatch.Limit{}}
	places := map[string]int{}
	for _, q := range c.r.Queues {
		places[q.Name], c.picture.QueueMax[q.Name] = q.Place, q.Max
	}
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

// pictureAsk is what the picture will be made of, as far as it is known at first.
func (c *claim) pictureAsk() *PictureAsk {
	return &PictureAsk{Open: c.r.Ahead().Microseconds(), Reach: c.reach().Microseconds(), Lanes: c.most, Heads: c.r.Places + c.r.Prefetch}
}

type bandGate struct {
	band Band
	gate Gate
}

// openGates returns the first open gates in the order of the bands.
func (c *claim) openGates() (gates []bandGate, err error) {
	ask := c.pictureAsk()
	ask.Bands, ask.Now = c.bandIDs(), c.now
	if err := c.tx.Ahead(Ahead{Picture: ask}); err != nil {
		return nil, err
	}
	for _, b := range c.bands {
		room := c.most - len(gates)
		if room <= 0 {
			c.cut = true
			break
		}
		found, err := c.tx.OpenGates(b.ID, c.openAt(), room)
		if err != nil {
			return nil, err
		}
		c.cut = c.cut || len(found) == room
		for _, g := range found {
			gates = append(gates, bandGate{b, g})
		}
	}
	return gates, nil
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
	return c.seeAwaited()
}

// seeAwaited notes which limits others wait for behind gates that do not count as
// open yet. A claim comes for whatever reason at whatever instant, and what it finds must
// not get permits that those are about to get who come first.
func (c *claim) seeAwaited() error {
	drawn := map[string]bool{}
	for _, l := range c.picture.Lanes {
		for _, d := range l.Draws {
			drawn[d.Limit] = true
		}
	}
	if len(drawn) == 0 || c.openAt() >= c.horizonAt() {
		return nil
	}
	at, err := c.tx.NextGates(slices.Sorted(maps.Keys(drawn)), c.bandIDs(), c.openAt(), c.horizonAt())
	for name, opens := range at {
		c.picture.Limits[name].Awaited = opens
	}
	return err
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

// nextAt notes the next instant at which something opens for this worker.
func (c *claim) nextAt() error {
	c.res.NextAt = Empty
	if len(c.bands) == 0 {
		return nil
	}
	return c.tx.NextLater(c.bandIDs(), c.openAt(), func(sleeper, gate int64) { c.res.NextAt = c.nextOf(sleeper, gate) })
}

// nextOf is when to claim next, by the first lane that wakes and the first gate that opens.
func (c *claim) nextOf(sleeper, gate int64) int64 {
	if gate < Held {
		gate = max(c.now, gate-(c.r.Ahead()-c.r.Stagger).Microseconds())
	}
	if next := min(sleeper, gate); next < Held {
		return next
	}
	return Empty
}
