package postgres

import (
	"cmp"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store/engine"
)

func readBand(s scan) (b engine.Band, err error) {
	return b, s(&b.ID, &b.Queue, &b.Kind, &b.Priority, &b.Run, &b.Load, &b.Suspect)
}

func bands(into *[]engine.Band, sql string, args ...any) statement {
	return statement{sql: sql, args: args, each: func(s scan) error {
		b, err := readBand(s)
		*into = append(*into, b)
		return err
	}}
}

func (t *tx) Bands(kinds []string, run string, queues []string) ([]engine.Band, error) {
	if found, ok := take(&t.kept.visible); ok {
		return found, nil
	}
	var found []engine.Band
	return found, t.ask([]statement{bands(&found, sqlBands, kinds, run, queues)})
}

// bandsWithFirsts is a query for what Bands returns, and for the first instant of each
// band's sleeping lanes and gates.
func (t *tx) bandsWithFirsts(a *engine.BandAsk) statement {
	t.kept.visible, t.kept.firsts = new([]engine.Band), map[int64]firsts{}
	return statement{sql: sqlBandsWithFirsts, args: []any{a.Kinds, a.Run, a.Queues}, each: func(s scan) error {
		var b engine.Band
		f := firsts{limit.Never, limit.Never}
		var sleeper, gate *int64
		err := s(&b.ID, &b.Queue, &b.Kind, &b.Priority, &b.Run, &b.Load, &b.Suspect, &sleeper, &gate)
		if sleeper != nil {
			f.sleeper = *sleeper
		}
		if gate != nil {
			f.gate = *gate
		}
		*t.kept.visible = append(*t.kept.visible, b)
		t.kept.firsts[b.ID] = f
		return err
	}}
}

// firstsOf are the first instants of several bands, if they were read.
func (t *tx) firstsOf(bands []int64) (f firsts, ok bool) {
	f = firsts{limit.Never, limit.Never}
	if t.kept.firsts == nil || bands == nil {
		return f, false
	}
	for _, id := range bands {
		of, ok := t.kept.firsts[id]
		if !ok {
			return f, false
		}
		f.sleeper, f.gate = min(f.sleeper, of.sleeper), min(f.gate, of.gate)
	}
	return f, true
}

const (
	sqlBandsWithFirsts = `SELECT b.*, (SELECT l.next_at FROM penstock.lane l WHERE l.band = b.id AND l.state = 2 ORDER BY l.next_at LIMIT 1),
		(SELECT g.opens_at FROM penstock.gate g WHERE g.band = b.id AND g.` + sqlNotEmpty + ` ORDER BY g.opens_at LIMIT 1) FROM (` + sqlBands + `) b`

	sqlNotEmpty = `opens_at < 9223372036854775807`

	// It steps from band to band in the indexes of gates and of sleeping lanes: the bands
	// where nothing waits, of runs long ended, cost a claim nothing.
	sqlBands = `WITH RECURSIVE gated (id) AS (
		(SELECT band FROM penstock.gate WHERE ` + sqlNotEmpty + ` ORDER BY band LIMIT 1) UNION ALL
		SELECT (SELECT g.band FROM penstock.gate g WHERE g.band > gated.id AND g.` + sqlNotEmpty + ` ORDER BY g.band LIMIT 1) FROM gated WHERE gated.id IS NOT NULL),
	asleep (id) AS (
		(SELECT band FROM penstock.lane WHERE state = 2 ORDER BY band LIMIT 1) UNION ALL
		SELECT (SELECT l.band FROM penstock.lane l WHERE l.band > asleep.id AND l.state = 2 ORDER BY l.band LIMIT 1) FROM asleep WHERE asleep.id IS NOT NULL)
	SELECT ` + bandColumns + ` FROM (SELECT id FROM gated UNION SELECT id FROM asleep) v
	CROSS JOIN LATERAL (SELECT * FROM penstock.band n WHERE n.id = v.id OFFSET 0) b WHERE b.load = ''
	AND ($1::text[] IS NULL OR b.kind = ANY ($1)) AND ($2 = '' OR b.run = $2) AND ($3::text[] IS NULL OR b.queue = ANY ($3))
	AND NOT EXISTS (SELECT 1 FROM penstock.queue q WHERE q.name = b.queue) ORDER BY b.id`
)

func (t *tx) LoadBands(load, run string) (found []engine.Band, err error) {
	q := bands(&found, `SELECT `+bandColumns+` FROM penstock.band b WHERE b.run = $1 AND b.run <> '' AND b.load <> '' ORDER BY b.id`, run)
	if load != "" {
		q = bands(&found, `SELECT `+bandColumns+` FROM penstock.band b WHERE b.load = $1 AND b.load <> '' ORDER BY b.id`, load)
	} else if run == "" {
		q = bands(&found, `SELECT `+bandColumns+` FROM penstock.band b WHERE b.run = '' AND b.load <> '' ORDER BY b.id`)
	}
	return found, t.ask([]statement{q})
}

func (t *tx) ReleaseBands(ids []int64) error {
	t.kept.moved()
	t.kept.lanes = nil
	return t.write(`UPDATE penstock.band SET load = '' WHERE id = ANY ($1::bigint[])`, ids)
}

const gateColumns = `g.band, g.limit_name, g.opens_at, g.vclock`

func readGate(s scan) (g engine.Gate, err error) {
	return g, s(&g.Band, &g.Limit, &g.OpensAt, &g.VClock)
}

func (t *tx) Gate(band int64, limit string) (engine.Gate, bool, error) {
	key := engine.GateKey{Band: band, Limit: limit}
	if _, ok := t.kept.gates[key]; !ok {
		if err := t.ask([]statement{t.gatesByKey([]engine.GateKey{key})}); err != nil {
			return engine.Gate{}, false, err
		}
	}
	m := t.kept.gates[key]
	return m.row, m.found, nil
}

func (t *tx) gatesByKey(keys []engine.GateKey) statement {
	bands, names := make([]int64, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		bands[i], names[i] = k.Band, k.Limit
		put(&t.kept.gates, k, maybe[engine.Gate]{})
	}
	return statement{sql: sqlGates, args: []any{names, bands}, each: func(s scan) error {
		g, err := readGate(s)
		t.kept.gates[engine.GateKey{Band: g.Band, Limit: g.Limit}] = maybe[engine.Gate]{g, true}
		return err
	}}
}

const sqlGates = `SELECT ` + gateColumns + ` FROM unnest($1::text[], $2::bigint[]) e (name, band)
	JOIN penstock.gate g ON g.limit_name = ANY (ARRAY[e.name]) AND g.band = ANY (ARRAY[e.band])`

func (t *tx) SaveGate(g engine.Gate) error {
	key := engine.GateKey{Band: g.Band, Limit: g.Limit}
	put(&t.kept.gates, key, maybe[engine.Gate]{g, true})
	put(&t.dirty.gates, key, g)
	t.kept.moved()
	return nil
}

func (t *tx) flushGates(m map[engine.GateKey]engine.Gate) {
	list := make([]engine.Gate, 0, len(m))
	for _, g := range m {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b engine.Gate) int {
		return cmp.Or(cmp.Compare(a.Band, b.Band), cmp.Compare(a.Limit, b.Limit))
	})
	n := len(list)
	names, bands, opens, clocks := make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, g := range list {
		names[i], bands[i], opens[i], clocks[i] = g.Limit, g.Band, g.OpensAt, g.VClock
	}
	_ = t.write(`INSERT INTO penstock.gate (limit_name, band, opens_at, vclock)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
		ON CONFLICT (limit_name, band) DO UPDATE SET opens_at = excluded.opens_at, vclock = excluded.vclock`, names, bands, opens, clocks)
}

func (t *tx) OpenGates(band, at int64, n int) ([]engine.Gate, error) {
	if p, ok := t.kept.open[band]; ok {
		if gates, ok := p.first(n); ok {
			return gates, nil
		}
	}
	var gates []engine.Gate
	err := t.read(`SELECT `+gateColumns+` FROM penstock.gate g WHERE g.band = $1 AND g.opens_at <= $2 AND g.`+sqlNotEmpty+` ORDER BY g.opens_at, g.limit_name LIMIT $3`, func(s scan) error {
		g, err := readGate(s)
		if err != nil {
			return err
		}
		put(&t.kept.gates, engine.GateKey{Band: g.Band, Limit: g.Limit}, maybe[engine.Gate]{g, true})
		gates = append(gates, g)
		return nil
	}, band, at, n)
	return gates, err
}

// NextGate need not see empty gates: their instant is limit.Never, and so is none.
func (t *tx) NextGate(bands []int64, at int64) (next int64, err error) {
	if firsts, ok := t.firstsOf(bands); ok && at == engine.Always {
		return firsts.gate, nil
	}
	return next, t.ask([]statement{earliest(&next, sqlNextGate, bands, at)})
}

// NextGates is known by the picture of a claim.
func (t *tx) NextGates(limits []string, bands []int64, at, until int64) (map[string]int64, error) {
	if missing := unknown(limits, t.kept.awaited); len(missing) > 0 {
		err := t.read(sqlNextGates, func(s scan) error {
			var name string
			var at *int64
			err := s(&name, &at)
			put(&t.kept.awaited, name, maybeOf(at))
			return err
		}, bands, at, until, missing)
		if err != nil {
			return nil, err
		}
	}
	next := make(map[string]int64)
	for _, name := range limits {
		if m := t.kept.awaited[name]; m.found {
			next[name] = m.row
		}
	}
	return next, nil
}

// A limit has few gates, found by its name; those of a band may be many.
const sqlNextGates = `SELECT n.name, (SELECT min(g.opens_at) FROM penstock.gate g WHERE g.limit_name = ANY (ARRAY[n.name])
	AND g.band + 0 = ANY ($1::bigint[]) AND g.opens_at > $2 AND g.opens_at <= $3) FROM unnest($4::text[]) n (name)`

// NextLater reads in the trip of the commit, before it.
func (t *tx) NextLater(bands []int64, at int64, then func(sleeper, gate int64)) error {
	if firsts, ok := t.firstsOf(bands); ok && firsts.gate > at {
		then(firsts.sleeper, firsts.gate)
		return nil
	}
	var sleeper, gate int64
	t.last = append(t.last, earliest(&sleeper, sqlNextSleeperOf, bands), earliest(&gate, sqlNextGate, bands, at))
	t.then = append(t.then, func() error { then(sleeper, gate); return nil })
	return nil
}

const sqlNextGate = `SELECT min(f.opens_at) FROM unnest($1::bigint[]) e (band) CROSS JOIN LATERAL
	(SELECT g.opens_at FROM penstock.gate g WHERE g.band = e.band AND g.opens_at > $2 AND g.` + sqlNotEmpty + ` ORDER BY g.opens_at LIMIT 1) f`

func (t *tx) WakeGates(limit string, at int64) error {
	t.flush() // what was saved before must not overwrite it
	t.kept.moved()
	t.kept.gates, t.soon = nil, nil
	if base, ok := strings.CutSuffix(limit, "/*"); ok {
		// All names with the prefix "base/": '0' is the byte after '/', and the column sorts by bytes.
		return t.write(`UPDATE penstock.gate SET opens_at = $1 WHERE limit_name >= $2 AND limit_name < $3 AND opens_at > $1 AND `+sqlNotEmpty, at, base+"/", base+"0")
	}
	return t.write(`UPDATE penstock.gate SET opens_at = $1 WHERE limit_name = $2 AND opens_at > $1 AND `+sqlNotEmpty, at, limit)
}
