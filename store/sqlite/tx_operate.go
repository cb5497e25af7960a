package sqlite

import (
	"encoding/json"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) Counter(name string) (n int64, err error) {
	_, err = one(t, func(r row) { n = r.int(0) }, `SELECT value FROM penstock_counter WHERE name = ?`, name)
	return n, err
}

func (t *tx) SetCounter(name string, n int64) error {
	return t.exec(`INSERT INTO penstock_counter (name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value`, name, n)
}

func (t *tx) Counters(names []string) (map[string]int64, error) {
	out := make(map[string]int64)
	return out, t.query(func(r row) { out[r.text(0)] = r.int(1) },
		`SELECT c.name, c.value FROM json_each(?) e CROSS JOIN penstock_counter c ON c.name = e.value`, encodeStrings(names))
}

func (t *tx) DropCounters(prefix string, n int64) error {
	return t.exec(`DELETE FROM penstock_counter WHERE value < ? AND instr(name, ?) = 1`, n, prefix)
}

func (t *tx) AddNote(n store.Note, notesKept int) error {
	if err := t.exec(`INSERT INTO penstock_note (at, subject, text) VALUES (?, ?, ?)`, n.At, n.Subject, n.Text); err != nil {
		return err
	}
	return t.exec(`DELETE FROM penstock_note WHERE id <= (SELECT max(id) FROM penstock_note) - ?`, int64(notesKept))
}

func (t *tx) Notes(subject string, n int) ([]store.Note, error) {
	var out []store.Note
	err := t.query(func(r row) {
		out = append(out, store.Note{ID: r.int(0), At: r.int(1), Subject: r.text(2), Text: r.text(3)})
	}, `SELECT id, at, subject, text FROM penstock_note WHERE ?1 = '' OR subject = ?1 ORDER BY id DESC LIMIT 0+?2`, subject, int64(n))
	return out, err
}

// CountAtGates counts by lane, where the index has the order, and adds up.
func (t *tx) CountAtGates(at int64) (map[string]int64, error) {
	counts := make(map[string]int64)
	err := t.query(func(r row) { counts[r.text(0)] = r.int(1) }, `SELECT l.gate, sum(c.n) FROM
		(SELECT lane, count(*) AS n FROM penstock_job WHERE state = 1 AND at <= ? GROUP BY lane) c`+sqlVisible+`
		AND l.state = 1 AND l.gate <> '' GROUP BY l.gate`, at)
	return counts, err
}

func (t *tx) CountDue(at int64) ([]store.Unserved, error) {
	var out []store.Unserved
	err := t.query(func(r row) {
		out = append(out, store.Unserved{Queue: r.text(0), Kind: r.text(1), Run: r.text(2), Due: r.int(3)})
	}, `SELECT b.queue, b.kind, b.run, sum(c.n) FROM
		(SELECT lane, count(*) AS n FROM penstock_job WHERE state = 1 AND at <= ? GROUP BY lane) c`+sqlVisible+`
		GROUP BY b.queue, b.kind, b.run ORDER BY b.queue, b.kind, b.run`, at)
	return out, err
}

func (t *tx) RecentEnds(since int64, n int) (map[string]store.Flow, error) {
	flows := make(map[string]store.Flow)
	err := t.query(func(r row) { flows[r.text(0)] = store.Flow{Ended: r.int(1), First: r.int(2)} },
		`SELECT b.queue, count(*), min(e.finished_at)
		FROM (SELECT lane, state, finished_at FROM penstock_ended ORDER BY id DESC LIMIT 0+?) e
		CROSS JOIN penstock_lane l ON l.id = e.lane CROSS JOIN penstock_band b ON b.id = l.band
		WHERE e.finished_at >= ? AND e.state <> 5 GROUP BY b.queue`, int64(n), since)
	return flows, err
}

func (t *tx) Newest() (at int64, err error) {
	_, err = one(t, func(r row) { at = max(r.int(0), r.int(1), r.int(2)) }, sqlNewest)
	return at, err
}

// Each part is one step in an index. Of the two jobs with the largest ids, waiting
// or ended, one is the newest of all.
const sqlNewest = `SELECT
	(SELECT max(finished_at) FROM penstock_ended WHERE state <> 4),
	(SELECT enqueued_at FROM penstock_job ORDER BY id DESC LIMIT 1),
	(SELECT enqueued_at FROM penstock_ended ORDER BY id DESC LIMIT 1)`

func (t *tx) UnusedLanes() ([]int64, error) {
	return t.listIDs(`SELECT id FROM penstock_lane WHERE state = 3
		AND id NOT IN (SELECT lane FROM penstock_job UNION SELECT lane FROM penstock_ended) ORDER BY id`)
}

func (t *tx) DropLanes(ids []int64) (int, error) {
	dropped, err := t.listIDs(`DELETE FROM penstock_lane WHERE id IN (SELECT value FROM json_each(?)) AND state = 3 RETURNING id`, encodeIDs(ids))
	return len(dropped), err
}

func (t *tx) UnusedGates() ([]engine.Gate, error) {
	var gates []engine.Gate
	err := t.query(func(r row) { gates = append(gates, readGate(r)) }, `SELECT `+gateColumns+` FROM penstock_gate
		WHERE opens_at = ? AND (band, limit_name) NOT IN (
			SELECT l.band, d.value ->> 0 FROM penstock_lane l, json_each(CASE l.draws WHEN '' THEN '[[""]]' ELSE l.draws END) d)`, engine.Empty)
	return gates, err
}

func (t *tx) DropGates(gates []engine.Gate) (int, error) {
	keys := make([][2]any, len(gates))
	for i, g := range gates {
		keys[i] = [2]any{g.Limit, g.Band}
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return 0, err
	}
	dropped, err := t.listIDs(`DELETE FROM penstock_gate WHERE (limit_name, band) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))
		AND opens_at = ? RETURNING band`, string(list), engine.Empty)
	return len(dropped), err
}

func (t *tx) DropBands() (int, error) {
	t.bands = nil
	dropped, err := t.listIDs(`DELETE FROM penstock_band WHERE id NOT IN (SELECT band FROM penstock_lane)
		AND id NOT IN (SELECT band FROM penstock_gate) RETURNING id`)
	return len(dropped), err
}
