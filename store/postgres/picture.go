package postgres

import (
	"cmp"
	"slices"

	"github.com/penstockhq/penstock/store/engine"
)

// floor is a place in the order in which a lane's jobs are due.
type floor struct{ at, id int64 }

func (f floor) before(o floor) bool { return f.at < o.at || f.at == o.at && f.id < o.id }

// sight is what a claim plans with, as it was read in one trip: gates, lanes, limits,
// first jobs.
type sight struct {
	ask     engine.PictureAsk
	gates   []engine.Gate   // open
	lanes   []engine.Lane   // lined up at them
	from    map[int64]floor // of these and of lanes about to wake: where their jobs were read from
	jobs    []*engine.Job   // their first ones
	guess   int             // how many of them were asked for
	opening []opening       // of what they draw on

	// What was read before lanes woke.
	worker string
	firsts map[int64]firsts                      // bands in which there was something
	before map[engine.GateKey]maybe[engine.Gate] // gates of lanes about to wake
}

// opening is a limit, with a gate that opens soon, or with none.
type opening struct {
	limit    string
	band, at *int64
}

func (t *tx) newSight(p engine.PictureAsk) *sight {
	return &sight{ask: p, guess: t.guess.heads(p.Heads), from: make(map[int64]floor), before: make(map[engine.GateKey]maybe[engine.Gate])}
}

func (s *sight) jobsFrom(lane int64, f floor) {
	if was, ok := s.from[lane]; !ok || f.before(was) {
		s.from[lane] = f
	}
}

// seePicture reads in one trip what a claim plans with.
func (t *tx) seePicture(p *engine.PictureAsk) error {
	s := t.newSight(*p)
	if err := t.ask(append([]statement{{sql: sqlMarkNone, args: []any{p.Now}}}, t.sight(s)...)); err != nil {
		return err
	}
	t.keepPicture(s, p, s.gates, s.lanes)
	return nil
}

// sight are the statements that read it. Each goes by what the one before it finds,
// said again, since asking for it first would cost a trip.
func (t *tx) sight(s *sight) []statement {
	of := []any{s.ask.Bands, s.ask.Open, s.ask.Lanes}
	return []statement{
		{sql: sqlOpenGates, args: of, each: func(sc scan) error {
			g, err := readGate(sc)
			s.gates = append(s.gates, g)
			return err
		}},
		{sql: sqlLinedUp, args: of, each: func(sc scan) error {
			var next *int64
			l, err := readLane(func(into ...any) error { return sc(append(into, &next)...) })
			if err != nil {
				return err
			}
			s.lanes = append(s.lanes, l)
			put(&t.kept.lanes, l.ID, l)
			t.keepLater(l.ID, next)
			s.jobsFrom(l.ID, floor{l.FloorAt, l.FloorID})
			return nil
		}},
		t.limits(sqlLimitsSeen, of...),
		{sql: sqlOpening, args: append(of[:3:3], s.ask.Reach), each: func(sc scan) error {
			var o opening
			err := sc(&o.limit, &o.band, &o.at)
			s.opening = append(s.opening, o)
			return err
		}},
		jobsOf(&s.jobs, readWaiting, sqlHeadsSeen, append(of[:3:3], s.guess, leastHeads)...),
	}
}

func (t *tx) keepLater(lane int64, at *int64) { put(&t.kept.later, lane, maybeOf(at)) }

// keepPicture notes what the methods will be asked for.
func (t *tx) keepPicture(s *sight, p *engine.PictureAsk, gates []engine.Gate, lanes []engine.Lane) {
	t.keepGates(p, gates)
	t.keepLanes(p, gates, lanes)
	t.keepHeads(s)
	t.keepAwaited(s, p)
}

// noneOpen reports whether it is known that no gate is open, and then notes it.
func (t *tx) noneOpen(p *engine.PictureAsk) bool {
	firsts, ok := t.firstsOf(p.Bands)
	if ok = ok && firsts.gate > p.At(); ok {
		t.keepGates(p, nil)
	}
	return ok
}

// keepGates notes which open gates there are in each band.
func (t *tx) keepGates(p *engine.PictureAsk, gates []engine.Gate) {
	t.kept.open = make(map[int64]part[engine.Gate], len(p.Bands))
	for _, b := range p.Bands {
		t.kept.open[b] = part[engine.Gate]{all: true}
	}
	for _, g := range gates {
		put(&t.kept.gates, engine.GateKey{Band: g.Band, Limit: g.Limit}, maybe[engine.Gate]{g, true})
		of := t.kept.open[g.Band]
		of.list = append(of.list, g)
		t.kept.open[g.Band] = of
	}
	if len(gates) < p.Lanes {
		return
	}
	// What comes behind the last one was not looked at.
	last := gates[len(gates)-1].Band
	of := t.kept.open[last]
	of.all = false
	t.kept.open[last] = of
	for _, later := range p.Bands[slices.Index(p.Bands, last)+1:] {
		delete(t.kept.open, later)
	}
}

// keepLanes notes which lanes are ready at each gate.
func (t *tx) keepLanes(p *engine.PictureAsk, gates []engine.Gate, lanes []engine.Lane) {
	t.kept.lined = make(map[engine.GateKey]part[engine.Lane], len(gates))
	for _, l := range lanes {
		put(&t.kept.lanes, l.ID, l)
		k := engine.GateKey{Band: l.Band.ID, Limit: l.Gate}
		of := t.kept.lined[k]
		of.list = append(of.list, l)
		t.kept.lined[k] = of
	}
	for _, g := range gates {
		k := engine.GateKey{Band: g.Band, Limit: g.Limit}
		of := t.kept.lined[k]
		full := len(lanes) == p.Lanes && len(of.list) > 0 && of.list[len(of.list)-1].ID == lanes[len(lanes)-1].ID
		of.all = !full
		t.kept.lined[k] = of
		if full { // what comes behind the last one was not looked at
			return
		}
	}
}

// keepHeads notes the first jobs of each lane.
func (t *tx) keepHeads(s *sight) {
	t.kept.heads = make(map[int64]part[*engine.Job], len(s.from))
	for id := range s.from {
		t.kept.heads[id] = part[*engine.Job]{}
	}
	for _, j := range s.jobs {
		of := t.kept.heads[j.Lane]
		of.list = append(of.list, j)
		t.kept.heads[j.Lane] = of
	}
	for id, of := range t.kept.heads {
		slices.SortFunc(of.list, func(a, b *engine.Job) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID)) })
		of.all = len(of.list) < headsOfLane(s.guess, len(s.from))
		t.kept.heads[id] = of
	}
}

// keepAwaited notes when the first gate of each limit opens, if it does soon.
func (t *tx) keepAwaited(s *sight, p *engine.PictureAsk) {
	t.kept.awaited = make(map[string]maybe[int64])
	for _, o := range s.opening {
		m := t.kept.awaited[o.limit]
		if o.at != nil && slices.Contains(p.Bands, *o.band) && (!m.found || *o.at < m.row) {
			m = maybe[int64]{*o.at, true}
		}
		t.kept.awaited[o.limit] = m
	}
}

// knownHeads takes out of what comes next those heads that are here already.
func (t *tx) knownHeads(a *engine.Ahead) {
	var missing []engine.HeadAsk
	short := false // of the lanes without limits, one that comes before
	for _, h := range a.Heads {
		if !h.Free {
			if _, ok := t.kept.heads[h.Lane].first(h.N); !ok {
				missing = append(missing, h)
			}
			continue
		}
		jobs, ok := t.kept.heads[h.Lane].first(max(min(h.N, a.FreeMost), 1))
		if short = short || !ok; short {
			missing = append(missing, h)
		} else {
			a.FreeMost -= len(jobs)
		}
	}
	a.Heads = missing
}

// leastHeads is how many first jobs of a lane are read at least.
const leastHeads = 2

// headsOfLane is how many first jobs of each lane are read, as in sqlHeadsSeen.
func headsOfLane(guess, lanes int) int { return max(leastHeads, guess/max(lanes, 1)) }

const (
	sqlOpen = `SELECT ` + gateColumns + `, row_number() OVER (ORDER BY e.ord, g.opens_at, g.limit_name) AS ord FROM unnest($1::bigint[]) WITH ORDINALITY e (band, ord)
		CROSS JOIN LATERAL (SELECT * FROM penstock.gate o WHERE o.band = e.band AND o.opens_at <= ` + sqlNow + ` + $2 AND o.` + sqlNotEmpty + ` ORDER BY o.opens_at, o.limit_name LIMIT $3) g
		ORDER BY ord LIMIT $3`
	sqlOpenGates = `SELECT ` + gateColumns + ` FROM (` + sqlOpen + `) g ORDER BY g.ord`

	// Each gate's lanes come from the index in order.
	sqlLined = `SELECT r.*, g.ord FROM (` + sqlOpen + `) g
		CROSS JOIN LATERAL (SELECT * FROM penstock.lane i WHERE i.band = g.band AND i.gate = g.limit_name AND i.state = 1 ORDER BY i.vtime, i.id LIMIT $3) r
		ORDER BY g.ord, r.vtime, r.id LIMIT $3`
	sqlLater   = `(SELECT f.at FROM penstock.job f WHERE f.lane = l.id AND f.state = 1 AND f.at > ` + sqlNow + ` ORDER BY f.at, f.id LIMIT 1)`
	sqlLinedUp = `SELECT ` + laneColumns + `, ` + sqlLater + ` FROM (` + sqlLined + `) l JOIN penstock.band b ON b.id = ANY (ARRAY[l.band]) ORDER BY l.ord, l.vtime, l.id`

	// The lanes that are lined up or were noted as about to wake, each once.
	sqlSeen = `SELECT DISTINCT ON (v.id) v.* FROM (SELECT id, floor_at, floor_id, draws FROM (` + sqlLined + `) r UNION ALL
		SELECT l.id, least(l.floor_at, w.at), CASE WHEN w.at <= l.floor_at THEN 0 ELSE l.floor_id END, l.draws FROM ` + sqlWoken + ` JOIN penstock.lane l ON l.id = ANY (ARRAY[w.id])) v
		ORDER BY v.id, v.floor_at, v.floor_id`
	sqlDrawn      = `SELECT DISTINCT d.value ->> 0 FROM (` + sqlSeen + `) l CROSS JOIN LATERAL jsonb_array_elements(l.draws::jsonb) d WHERE l.draws <> ''`
	sqlLimitsSeen = sqlLimits + `(` + sqlDrawn + ` UNION SELECT unnest(current_setting('penstock_claim.limits')::text[])) n (name)` + sqlLimitParts
	sqlHeadsSeen  = `SELECT ` + waitingColumns + ` FROM (SELECT l.*, greatest($5::bigint, $4::bigint / count(*) OVER ()) AS n FROM (` + sqlSeen + `) l) e
		CROSS JOIN LATERAL (SELECT * FROM penstock.job d WHERE d.lane = e.id AND d.state = 1 AND d.at <= ` + sqlNow + ` AND (d.at, d.id) >= (e.floor_at, e.floor_id) ORDER BY d.at, d.id LIMIT e.n) j`

	sqlOpening = `SELECT n.name, g.band, g.opens_at FROM (` + sqlDrawn + `) n (name) LEFT JOIN penstock.gate g ON g.limit_name = ANY (ARRAY[n.name])
		AND g.band + 0 = ANY ($1::bigint[]) AND g.opens_at > ` + sqlNow + ` + $2 AND g.opens_at <= ` + sqlNow + ` + $4`
)
