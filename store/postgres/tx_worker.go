package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

const workerColumns = `id, host, pid, kinds, run, lease, seen_at`

func readWorker(s scan) (w engine.WorkerRow, err error) {
	var kinds string
	var lease int64
	if err := s(&w.ID, &w.Host, &w.PID, &kinds, &w.Run, &lease, &w.SeenAt); err != nil {
		return w, err
	}
	w.Lease = time.Duration(lease)
	if err := json.Unmarshal([]byte(kinds), &w.Kinds); err != nil {
		return w, fmt.Errorf("stored kinds of worker %q: %w", w.ID, err)
	}
	return w, nil
}

func (t *tx) Workers() (workers []engine.WorkerRow, err error) {
	err = t.read(`SELECT `+workerColumns+` FROM penstock.worker ORDER BY id COLLATE "C"`, func(s scan) error {
		w, err := readWorker(s)
		workers = append(workers, w)
		return err
	})
	return workers, err
}

// Worker locks the row, so that a heartbeat and the verdict that the worker is
// dead cannot pass each other. A claim, which reads it ahead, needs no lock: the
// verdict is never written beside a claim.
func (t *tx) Worker(id string) (w engine.WorkerRow, found bool, err error) {
	if m, ok := pick(t.kept.worker, id); ok {
		return m.row, m.found, nil
	}
	sql := sqlWorker
	if t.mode != view {
		sql += ` FOR UPDATE`
	}
	found, err = t.one(sql, func(s scan) error {
		w, err = readWorker(s)
		return err
	}, id)
	return w, found, err
}

const sqlWorker = `SELECT ` + workerColumns + ` FROM penstock.worker WHERE id = $1`

// SaveWorker leaves one alone that was declared dead meanwhile: a heartbeat may overlap that.
func (t *tx) SaveWorker(w engine.WorkerRow) error {
	kinds, err := json.Marshal(w.Kinds)
	if err != nil {
		return err
	}
	return t.write(`INSERT INTO penstock.worker (id, host, pid, kinds, run, lease, seen_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, kinds = excluded.kinds, run = excluded.run,
		lease = excluded.lease, seen_at = excluded.seen_at WHERE penstock.worker.seen_at <> 0`, w.ID, w.Host, w.PID, string(kinds), w.Run, int64(w.Lease), w.SeenAt)
}

func (t *tx) DropWorker(id string) error {
	return t.write(`DELETE FROM penstock.worker WHERE id = $1`, id)
}

func (t *tx) Queue(name string) (q engine.QueueRow, found bool, err error) {
	if t.kept.unpaused[name] {
		return q, false, nil
	}
	q.Name = name
	found, err = t.one(`SELECT reason, at FROM penstock.queue WHERE name = $1`, func(s scan) error { return s(&q.Reason, &q.At) }, name)
	if !found {
		q = engine.QueueRow{}
	}
	return q, found, err
}

func (t *tx) SaveQueue(q engine.QueueRow) error {
	t.kept.visible, t.kept.unpaused = nil, nil
	return t.write(`INSERT INTO penstock.queue (name, reason, at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET reason = excluded.reason, at = excluded.at`, q.Name, q.Reason, q.At)
}

func (t *tx) DropQueue(name string) error {
	t.kept.visible = nil
	return t.write(`DELETE FROM penstock.queue WHERE name = $1`, name)
}

func (t *tx) Counter(name string) (n int64, err error) {
	_, err = t.one(`SELECT value FROM penstock.counter WHERE name = $1`, func(s scan) error { return s(&n) }, name)
	return n, err
}

func (t *tx) SetCounter(name string, n int64) error {
	return t.write(`INSERT INTO penstock.counter (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, n)
}

func (t *tx) Counters(names []string) (map[string]int64, error) {
	out := make(map[string]int64)
	return out, t.read(`SELECT name, value FROM penstock.counter WHERE name = ANY ($1::text[])`, func(s scan) error {
		var name string
		var n int64
		err := s(&name, &n)
		out[name] = n
		return err
	}, names)
}

func (t *tx) DropCounters(prefix string, n int64) error {
	return t.write(`DELETE FROM penstock.counter WHERE value < $2 AND starts_with(name, $1)`, prefix, n)
}

func (t *tx) AddNote(n store.Note, notesKept int) error {
	if err := t.write(`INSERT INTO penstock.note (at, subject, text) VALUES ($1, $2, $3)`, n.At, n.Subject, n.Text); err != nil {
		return err
	}
	return t.write(`DELETE FROM penstock.note WHERE id <= (SELECT max(id) FROM penstock.note) - $1`, notesKept)
}

func (t *tx) Notes(subject string, n int) (out []store.Note, err error) {
	err = t.read(`SELECT id, at, subject, text FROM penstock.note WHERE $1 = '' OR subject = $1 ORDER BY id DESC LIMIT $2`, func(s scan) error {
		var note store.Note
		err := s(&note.ID, &note.At, &note.Subject, &note.Text)
		out = append(out, note)
		return err
	}, subject, n)
	return out, err
}
