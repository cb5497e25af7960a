package postgres

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/penstockhq/penstock/store/engine"
)

// seePicture reads in one trip what a claim plans with: gates, lanes, limits, first
// jobs. Each statement goes by what the one before it finds, said again, since
// asking for it first would cost a trip.
func (t *tx) seePicture(p *engine.PictureAsk) error {
	var gates []engine.Gate
	var lanes []engine.Lane
	var jobs []*engine.Job
	guess := t.guess.heads(p.Heads)
	of := []any{p.Bands, p.At, p.Lanes}
	err := t.ask([]statement{
		{sql: sqlOpenGates, args: of, each: func(s scan) error {
			g, err := readGate(s)
			gates = append(gates, g)
			return err
		}},
		{sql: sqlLinedUp, args: append(of[:3:3], p.Now), each: func(s scan) error {
			var next *int64
			l, err := readLane(func(into ...any) error { return s(append(into, &next)...) })
			if err != nil {
				return err
			}
			lanes = append(lanes, l)
			m := maybe[int64]{found: next != nil}
			if m.found {
				m.row = *next
			}
			put(&t.kept.later, l.ID, m)
			return nil
		}},
		t.limits(sqlLimitsLinedUp, of...),
		t.nextGates(sqlNextGatesLinedUp, p.Bands, p.At, p.Until, p.Lanes),
		jobsOf(&jobs, readWaiting, sqlHeadsLinedUp, append(of[:3:3], p.Now, guess, leastHeads)...),
	})
	if err != nil {
		return err
	}
	t.keepGates(p, gates)
	t.keepLanes(p, gates, lanes)
	t.keepHeads(lanes, jobs, guess)
	return nil
}

// noneOpen reports whether it is known that no gate is open, and then notes it.
func (t *tx) noneOpen(p *engine.PictureAsk) bool {
	firsts, ok := t.firstsOf(p.Bands)
	if ok = ok && firsts.gate > p.At; ok {
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
func (t *tx) keepHeads(lanes []engine.Lane, jobs []*engine.Job, guess int) {
	t.kept.heads = make(map[int64]part[*engine.Job], len(lanes))
	for _, l := range lanes {
		t.kept.heads[l.ID] = part[*engine.Job]{}
	}
	for _, j := range jobs {
		of := t.kept.heads[j.Lane]
		of.list = append(of.list, j)
		t.kept.heads[j.Lane] = of
	}
	for id, of := range t.kept.heads {
		slices.SortFunc(of.list, func(a, b *engine.Job) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID)) })
		of.all = len(of.list) < headsOfLane(guess, len(lanes))
		t.kept.heads[id] = of
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

// headsOfLane is how many first jobs of each lane are read, as in sqlHeadsLinedUp.
func headsOfLane(guess, lanes int) int { return max(leastHeads, guess/max(lanes, 1)) }

// guess is how many first jobs claims of this process wanted lately: the picture is
// read before it is known what limits allow.
type guess struct{ last atomic.Int64 }

func (g *guess) heads(most int) int { return min(most, int(g.last.Load())*5/4+8) }

func (g *guess) wanted(a engine.Ahead) {
	n, free := 0, 0
	for _, h := range a.Heads {
		if h.Free {
			free = a.FreeMost
		} else {
			n += h.N
		}
	}
	g.last.Store(int64(n + free))
}

const (
	sqlOpen = `SELECT ` + gateColumns + `, row_number() OVER (ORDER BY e.ord, g.opens_at, g.limit_name) AS ord FROM unnest($1::bigint[]) WITH ORDINALITY e (band, ord)
		CROSS JOIN LATERAL (SELECT * FROM penstock.gate o WHERE o.band = e.band AND o.opens_at <= $2 AND o.` + sqlNotEmpty + ` ORDER BY o.opens_at, o.limit_name LIMIT $3) g
		ORDER BY ord LIMIT $3`
	sqlOpenGates = `SELECT ` + gateColumns + ` FROM (` + sqlOpen + `) g ORDER BY g.ord`

	// Each gate's lanes come from the index in order.
	sqlLined = `SELECT r.*, g.ord FROM (` + sqlOpen + `) g
		CROSS JOIN LATERAL (SELECT * FROM penstock.lane i WHERE i.band = g.band AND i.gate = g.limit_name AND i.state = 1 ORDER BY i.vtime, i.id LIMIT $3) r
		ORDER BY g.ord, r.vtime, r.id LIMIT $3`
	sqlLinedUp = `SELECT ` + laneColumns + `, (SELECT f.at FROM penstock.job f WHERE f.lane = l.id AND f.state = 1 AND f.at > $4 ORDER BY f.at, f.id LIMIT 1)
		FROM (` + sqlLined + `) l JOIN penstock.band b ON b.id = ANY (ARRAY[l.band]) ORDER BY l.ord, l.vtime, l.id`
	sqlLimitsLinedUp = sqlLimits + sqlDrawn + sqlLimitParts
	sqlDrawn         = `(SELECT DISTINCT d.value ->> 0 FROM (` + sqlLined + `) l CROSS JOIN LATERAL jsonb_array_elements(l.draws::jsonb) d WHERE l.draws <> '') n (name)`
	sqlHeadsLinedUp  = `SELECT ` + waitingColumns + ` FROM (SELECT l.id, l.floor_at, l.floor_id, greatest($6::bigint, $5::bigint / count(*) OVER ()) AS n FROM (` + sqlLined + `) l) e
		CROSS JOIN LATERAL (SELECT * FROM penstock.job d WHERE d.lane = e.id AND d.state = 1 AND d.at <= $4 AND (d.at, d.id) >= (e.floor_at, e.floor_id) ORDER BY d.at, d.id LIMIT e.n) j`
)

// Its parameters are numbered otherwise: $3 is until when, and $4 how many lanes.
var sqlNextGatesLinedUp = sqlNextGates + strings.ReplaceAll(sqlDrawn, "$3", "$4")
