package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/store/engine"
)

const workerColumns = `id, host, boot, pid, kinds, run, lease, seen_at`

func (t *tx) readWorker(r row) (w engine.WorkerRow, err error) {
	w.ID, w.Host, w.PID, w.Run = r.text(0), r.text(1), r.num(3), r.text(5)
	w.Lease, w.SeenAt = time.Duration(r.int(6)), r.int(7)
	if err := json.Unmarshal([]byte(r.text(4)), &w.Kinds); err != nil {
		return w, fmt.Errorf("stored kinds of worker %q: %w", w.ID, err)
	}
	if t.live != nil {
		t.live.learn(w.ID, r.text(2))
	}
	return w, nil
}

func (t *tx) listWorkers(sql string, args ...driver.Value) ([]engine.WorkerRow, error) {
	var workers []engine.WorkerRow
	var bad error
	err := t.query(func(r row) {
		w, err := t.readWorker(r)
		if err != nil {
			bad = err
		}
		workers = append(workers, w)
	}, sql, args...)
	if err != nil {
		return nil, err
	}
	return workers, bad
}

func (t *tx) Workers() ([]engine.WorkerRow, error) {
	return t.listWorkers(`SELECT ` + workerColumns + ` FROM penstock_worker ORDER BY id`)
}

func (t *tx) Worker(id string) (engine.WorkerRow, bool, error) {
	workers, err := t.listWorkers(sqlWorker, id)
	if err != nil || len(workers) == 0 {
		return engine.WorkerRow{}, false, err
	}
	return workers[0], true, nil
}

const sqlWorker = `SELECT ` + workerColumns + ` FROM penstock_worker WHERE id = ?`

// SaveWorker keeps the boot of a worker's first save: its own.
func (t *tx) SaveWorker(w engine.WorkerRow) error {
	boot := ""
	if t.live != nil && t.live.mine(w.Worker) {
		boot = t.live.boot
		t.registered = append(t.registered, w.ID)
	}
	kinds := []byte("null")
	if w.Kinds != nil {
		kinds = appendStrings(nil, w.Kinds)
	}
	return t.exec(`INSERT INTO penstock_worker (id, host, boot, pid, kinds, run, lease, seen_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET host = excluded.host, pid = excluded.pid, kinds = excluded.kinds, run = excluded.run,
		lease = excluded.lease, seen_at = excluded.seen_at`,
		w.ID, w.Host, boot, int64(w.PID), string(kinds), w.Run, int64(w.Lease), w.SeenAt)
}

func (t *tx) DropWorker(id string) error {
	t.dropped = append(t.dropped, id)
	return t.exec(`DELETE FROM penstock_worker WHERE id = ?`, id)
}

func (t *tx) Queue(name string) (q engine.QueueRow, found bool, err error) {
	found, err = one(t, func(r row) { q = engine.QueueRow{Name: name, Reason: r.text(0), At: r.int(1)} },
		`SELECT reason, at FROM penstock_queue WHERE name = ?`, name)
	return q, found, err
}

func (t *tx) SaveQueue(q engine.QueueRow) error {
	return t.exec(`INSERT INTO penstock_queue (name, reason, at) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET reason = excluded.reason, at = excluded.at`, q.Name, q.Reason, q.At)
}

func (t *tx) DropQueue(name string) error {
	return t.exec(`DELETE FROM penstock_queue WHERE name = ?`, name)
}
