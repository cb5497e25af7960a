package sqlite

import (
	"cmp"
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store/engine"
)

const bandColumns = `b.id, b.queue, b.kind, b.priority, b.run, b.load, b.suspect`

func readBand(r row) engine.Band {
	return engine.Band{
		ID: r.int(0), Queue: r.text(1), Kind: r.text(2), Priority: r.num(3),
		Run: r.text(4), Load: r.text(5), Suspect: r.bool(6),
	}
}

func (t *tx) listBands(sql string, args ...driver.Value) ([]engine.Band, error) {
	var bands []engine.Band
	err := t.query(func(r row) { bands = append(bands, readBand(r)) }, sql, args...)
	return bands, err
}

// band returns a band that a lane or a gate refers to.
func (t *tx) band(id int64) (engine.Band, error) {
	if b, ok := t.bands[id]; ok {
		return b, nil
	}
	var b engine.Band
	_, err := one(t, func(r row) { b = readBand(r) }, `SELECT `+bandColumns+` FROM penstock_band b WHERE b.id = ?`, id)
	if err == nil {
		t.remember(b)
	}
	return b, err
}

func (t *tx) remember(b engine.Band) {
	if t.bands == nil {
		t.bands = make(map[int64]engine.Band)
	}
	t.bands[b.ID] = b
}

func (t *tx) Bands(kinds []string, run string, queues []string) ([]engine.Band, error) {
	sql, args := bandsQuery(kinds, run, queues)
	bands, err := t.listBands(sql, args...)
	slices.SortFunc(bands, func(a, b engine.Band) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Compact(bands), err
}

// bandsQuery steps from band to band in the indexes of gates and of sleeping lanes:
// the bands where nothing waits, of runs long ended, cost a claim nothing. A band
// with both comes twice.
func bandsQuery(kinds []string, run string, queues []string) (string, []driver.Value) {
	var s strings.Builder
	var args []driver.Value
	s.WriteString(sqlActiveBands + `SELECT ` + bandColumns + `
		FROM (SELECT id FROM gated UNION ALL SELECT id FROM asleep) a CROSS JOIN penstock_band b ON b.id = a.id
		WHERE b.load = '' AND NOT EXISTS (SELECT 1 FROM penstock_queue q WHERE q.name = b.queue)`)
	if kinds != nil {
		s.WriteString(` AND b.kind IN (SELECT value FROM json_each(?))`)
		args = append(args, encodeStrings(kinds))
	}
	if run != "" {
		s.WriteString(` AND b.run = ?`)
		args = append(args, run)
	}
	if queues != nil {
		s.WriteString(` AND b.queue IN (SELECT value FROM json_each(?))`)
		args = append(args, encodeStrings(queues))
	}
	return s.String(), args
}

// sqlNotEmpty is the condition of the index penstock_gate_opens.
const sqlNotEmpty = `opens_at < 9223372036854775807`

const sqlActiveBands = `WITH RECURSIVE
	gated (id) AS (
		SELECT min(band) FROM penstock_gate WHERE ` + sqlNotEmpty + ` UNION ALL
		SELECT (SELECT min(g.band) FROM penstock_gate g WHERE g.band > gated.id AND g.` + sqlNotEmpty + `) FROM gated WHERE gated.id IS NOT NULL),
	asleep (id) AS (
		SELECT min(band) FROM penstock_lane WHERE state = 2 UNION ALL
		SELECT (SELECT min(l.band) FROM penstock_lane l WHERE l.band > asleep.id AND l.state = 2) FROM asleep WHERE asleep.id IS NOT NULL)
`

func (t *tx) LoadBands(load, run string) ([]engine.Band, error) {
	if load != "" {
		return t.listBands(`SELECT `+bandColumns+` FROM penstock_band b WHERE b.load = ? AND b.load <> '' ORDER BY b.id`, load)
	}
	return t.listBands(`SELECT `+bandColumns+` FROM penstock_band b WHERE b.run = ? AND b.load <> '' ORDER BY b.id`, run)
}

func (t *tx) ReleaseBands(ids []int64) error {
	t.bands = nil
	return t.exec(`UPDATE penstock_band SET load = '' WHERE id IN (SELECT value FROM json_each(?))`, encodeIDs(ids))
}

const gateColumns = `band, limit_name, opens_at, vclock`

func readGate(r row) engine.Gate {
	return engine.Gate{Band: r.int(0), Limit: r.text(1), OpensAt: r.int(2), VClock: r.int(3)}
}

func (t *tx) Gate(band int64, limit string) (g engine.Gate, found bool, err error) {
	found, err = one(t, func(r row) { g = readGate(r) }, sqlGate, limit, band)
	return g, found, err
}

const sqlGate = `SELECT ` + gateColumns + ` FROM penstock_gate WHERE limit_name = ? AND band = ?`

func (t *tx) SaveGate(g engine.Gate) error {
	return t.exec(`INSERT INTO penstock_gate (limit_name, band, opens_at, vclock) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET opens_at = excluded.opens_at, vclock = excluded.vclock`,
		g.Limit, g.Band, g.OpensAt, g.VClock)
}

func (t *tx) OpenGates(band, at int64, n int) ([]engine.Gate, error) {
	var gates []engine.Gate
	err := t.query(func(r row) { gates = append(gates, readGate(r)) }, sqlOpenGates, band, at, int64(n))
	return gates, err
}

const sqlOpenGates = `SELECT ` + gateColumns + ` FROM penstock_gate WHERE band = ? AND opens_at <= ? AND ` + sqlNotEmpty + ` ORDER BY opens_at, limit_name LIMIT 0+?`

// NextLater looks at once.
func (t *tx) NextLater(bands []int64, at int64, then func(sleeper, gate int64)) error {
	return engine.NextNow(t, bands, at, then)
}

// NextGate need not see empty gates: their instant is limit.Never, and so is none.
func (t *tx) NextGate(bands []int64, at int64) (int64, error) {
	return t.earliest(sqlNextGate, at, encodeIDs(bands))
}

const sqlNextGate = `SELECT min((SELECT min(g.opens_at) FROM penstock_gate g WHERE g.band = e.value AND g.opens_at > ? AND g.` + sqlNotEmpty + `)) FROM json_each(?) e`

func (t *tx) NextGates(limits []string, bands []int64, at, until int64) (map[string]int64, error) {
	next := map[string]int64{}
	return next, t.query(func(r row) {
		if was, ok := next[r.text(0)]; !ok || r.int(1) < was {
			next[r.text(0)] = r.int(1)
		}
	}, sqlNextGates, encodeStrings(limits), at, until, encodeIDs(bands))
}

const sqlNextGates = `SELECT e.value, g.opens_at FROM json_each(?) e CROSS JOIN penstock_gate g ON g.limit_name = e.value
	WHERE +g.opens_at > ? AND +g.opens_at <= ? AND g.band IN (SELECT value FROM json_each(?))`

func (t *tx) WakeGates(limit string, at int64) error {
	if base, ok := strings.CutSuffix(limit, "/*"); ok {
		// All names with the prefix "base/": '0' is the byte after '/'.
		return t.exec(`UPDATE penstock_gate SET opens_at = ? WHERE limit_name >= ? AND limit_name < ? AND opens_at > ? AND opens_at < ?`,
			at, base+"/", base+"0", at, engine.Empty)
	}
	return t.exec(sqlWakeGates, at, limit, at, engine.Empty)
}

const sqlWakeGates = `UPDATE penstock_gate SET opens_at = ? WHERE limit_name = ? AND opens_at > ? AND opens_at < ?`

// earliest reads one instant, limit.Never if there is none.
func (t *tx) earliest(sql string, args ...driver.Value) (int64, error) {
	at := limit.Never
	_, err := one(t, func(r row) {
		if r[0] != nil {
			at = r.int(0)
		}
	}, sql, args...)
	return at, err
}
