package sqlite

import (
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) Call(run, ref string) (c engine.Call, found bool, err error) {
	found, err = one(t, func(r row) {
		c = engine.Call{Run: run, Ref: ref, Job: r.int(0), Hash: r.text(1), Line: r.int(2)}
	}, sqlCall, run, ref)
	return c, found, err
}

const sqlCall = `SELECT job, hash, line FROM penstock_call WHERE run = ? AND ref = ?`

func (t *tx) AddCall(c engine.Call) error {
	return t.exec(`INSERT INTO penstock_call (run, ref, job, hash, line) VALUES (?, ?, ?, ?, ?)`, c.Run, c.Ref, c.Job, c.Hash, c.Line)
}

func (t *tx) DropCalls(jobs []int64) error {
	return t.exec(`DELETE FROM penstock_call WHERE job IN (SELECT value FROM json_each(?))`, encodeIDs(jobs))
}

func (t *tx) AddEvent(e store.Event) error {
	return t.exec(`INSERT INTO penstock_event (job, n, at, started, outcome, error, next_at, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET at = excluded.at, started = excluded.started, outcome = excluded.outcome, error = excluded.error,
		next_at = excluded.next_at, detail = excluded.detail`,
		e.JobID, int64(e.N), e.At, e.Started, int64(e.Outcome), orNull(e.Error), e.NextAt, blobOrNull(e.Detail))
}

func (t *tx) DropEvent(job int64, n int) error {
	return t.exec(`DELETE FROM penstock_event WHERE job = ? AND n = ?`, job, int64(n))
}

func (t *tx) Events(job int64) ([]store.Event, error) {
	var events []store.Event
	err := t.query(func(r row) {
		events = append(events, store.Event{
			JobID: job, N: r.num(0), At: r.int(1), Started: r.int(2), Outcome: store.Outcome(r.int(3)),
			Error: r.text(4), NextAt: r.int(5), Detail: r.blob(6),
		})
	}, `SELECT n, at, started, outcome, error, next_at, detail FROM penstock_event WHERE job = ? ORDER BY n`, job)
	return events, err
}

func (t *tx) Effect(key string) (e engine.EffectRow, found bool, err error) {
	found, err = one(t, func(r row) {
		e = engine.EffectRow{Key: key, Job: r.int(0), Token: r.int(1), Done: r.bool(2), At: r.int(3), Result: r.blob(4)}
	}, `SELECT job, token, done, at, result FROM penstock_effect WHERE key = ?`, key)
	return e, found, err
}

func (t *tx) SaveEffect(e engine.EffectRow) error {
	return t.exec(`INSERT INTO penstock_effect (key, job, token, done, at, result) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET job = excluded.job, token = excluded.token, done = excluded.done, at = excluded.at, result = excluded.result`,
		e.Key, e.Job, e.Token, flag(e.Done), e.At, blobOrNull(e.Result))
}

func (t *tx) DropEffect(key string) error {
	return t.exec(`DELETE FROM penstock_effect WHERE key = ?`, key)
}

func (t *tx) DropBegun(job int64) error {
	return t.exec(`DELETE FROM penstock_effect WHERE job = ? AND done = 0`, job)
}
