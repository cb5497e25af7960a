package postgres

import (
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) Call(run, ref string) (engine.Call, bool, error) {
	if m, ok := t.kept.calls[callKey(run, ref)]; ok {
		return m.row, m.found, nil
	}
	c := engine.Call{Run: run, Ref: ref}
	found, err := t.one(sqlCalls, func(s scan) error { return s(&c.Ref, &c.Job, &c.Hash, &c.Line) }, run, []string{ref})
	return c, found, err
}

// Each by itself: asked for all at once, a plan that was made while the table was empty
// goes through the whole run.
const sqlCalls = `SELECT c.ref, c.job, c.hash, c.line FROM unnest($2::text[]) e (ref)
	CROSS JOIN LATERAL (SELECT * FROM penstock.call k WHERE k.run = $1 AND k.ref = e.ref LIMIT 1) c`

func (t *tx) AddCall(c engine.Call) error {
	delete(t.kept.calls, callKey(c.Run, c.Ref))
	t.calls = append(t.calls, c)
	return nil
}

// flushCalls puts the calls in line in the order of their ids, so that two
// transactions with the same ones wait for one another at the first of them.
func (t *tx) flushCalls() {
	var runs, refs, hashes []string
	var jobs, lines []int64
	for _, c := range t.calls {
		runs, refs, hashes = append(runs, c.Run), append(refs, c.Ref), append(hashes, c.Hash)
		jobs, lines = append(jobs, c.Job), append(lines, c.Line)
	}
	_ = t.write(`INSERT INTO penstock.call (run, ref, job, hash, line)
		SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) u (run, ref, job, hash, line) ORDER BY u.run, u.ref`,
		runs, refs, jobs, hashes, lines)
	t.calls = nil
}

func (t *tx) DropCalls(jobs []int64) error {
	return t.write(`DELETE FROM penstock.call WHERE job = ANY ($1::bigint[])`, jobs)
}

func (t *tx) AddEvent(e store.Event) error {
	return t.write(`INSERT INTO penstock.event (job, n, at, started, outcome, error, next_at, detail) VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, nullif($8::bytea, ''))
		ON CONFLICT (job, n) DO UPDATE SET at = excluded.at, started = excluded.started, outcome = excluded.outcome, error = excluded.error,
		next_at = excluded.next_at, detail = excluded.detail`,
		e.JobID, e.N, e.At, e.Started, int16(e.Outcome), e.Error, e.NextAt, notNil(e.Detail))
}

func (t *tx) DropEvent(job int64, n int) error {
	return t.write(`DELETE FROM penstock.event WHERE job = $1 AND n = $2`, job, n)
}

func (t *tx) Events(job int64) (events []store.Event, err error) {
	err = t.read(`SELECT n, at, started, outcome, coalesce(error, ''), next_at, detail FROM penstock.event WHERE job = $1 ORDER BY n`, func(s scan) error {
		e := store.Event{JobID: job}
		var outcome int16
		err := s(&e.N, &e.At, &e.Started, &outcome, &e.Error, &e.NextAt, &e.Detail)
		e.Outcome = store.Outcome(outcome)
		events = append(events, e)
		return err
	}, job)
	return events, err
}

// Effect locks the row in a transaction that others overlap: whoever else would
// begin, take over or finish the effect waits for its end.
func (t *tx) Effect(key string) (engine.EffectRow, bool, error) {
	sql := `SELECT job, token, done, at, result FROM penstock.effect WHERE key = $1`
	if t.mode == adding {
		sql += ` FOR UPDATE`
	}
	e := engine.EffectRow{Key: key}
	found, err := t.one(sql, func(s scan) error { return s(&e.Job, &e.Token, &e.Done, &e.At, &e.Result) }, key)
	if !found {
		e = engine.EffectRow{}
	}
	put(&t.effects, key, found)
	return e, found, err
}

// SaveEffect writes an effect that was not there as a new row: if it is there by
// now, the transaction meets it as errConflict and is run again.
func (t *tx) SaveEffect(e engine.EffectRow) error {
	sql := `INSERT INTO penstock.effect (key, job, token, done, at, result) VALUES ($1, $2, $3, $4, $5, nullif($6::bytea, ''))`
	if there, looked := t.effects[e.Key]; there || !looked {
		sql += ` ON CONFLICT (key) DO UPDATE SET job = excluded.job, token = excluded.token, done = excluded.done, at = excluded.at, result = excluded.result`
	}
	put(&t.effects, e.Key, true)
	// It is sent at once: the caller's own transaction is told of the conflict here.
	return t.ask([]statement{{sql: sql, args: []any{e.Key, e.Job, e.Token, e.Done, e.At, notNil(e.Result)}}})
}

func (t *tx) DropEffect(key string) error {
	return t.write(`DELETE FROM penstock.effect WHERE key = $1`, key)
}

func (t *tx) DropBegun(job int64) error {
	return t.write(`DELETE FROM penstock.effect WHERE job = $1 AND NOT done`, job)
}
