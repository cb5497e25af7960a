package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// insertPlain writes new jobs by one statement that is a transaction of its own:
// ids, rows and commit are one round trip. It can if all of them are plain and the book
// knows their lanes. Else, or if that is not true any more, or if another transaction
// was in the way, nothing was written and done is false: the engine's way is to be
// taken, which waits, tries again, and says what is wrong with a job. Jobs that somebody
// would start at once may be started: see commitStarting.
func (d *db) insertPlain(ctx context.Context, jobs []store.NewJob) (out []store.Inserted, done bool, err error) {
	p, ok := d.plainOf(jobs)
	select {
	case <-d.done:
		ok = false
	default:
	}
	if !ok {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, appendWithin)
	defer cancel()
	// What is lost on the way may have happened, unless the server said good-bye before
	// it said that the statement has run.
	s := &session{pool: d.others, name: d.text}
	begun := time.Now()
	waits := false // one of them, to be claimed
	write := p.statement(d.clock)
	write.each = func(sc scan) error {
		in, now, started := store.Inserted{State: store.Waiting, Verdict: store.Created}, int64(0), false
		columns := []any{&in.ID}
		if p.starts != nil {
			columns = append(columns, &now, &started)
		}
		if err := sc(columns...); err != nil {
			return err
		}
		if started {
			in.State, in.Started = store.Running, engine.Started(&jobs[len(out)], in.ID, now)
		}
		out, waits = append(out, in), waits || !started
		return nil
	}
	if p.starts != nil {
		err = d.commitStarting(ctx, s, write)
	} else {
		err = s.only(ctx, write)
	}
	again := ctx.Err() == nil && (errors.Is(err, errConflict) || errors.Is(err, store.ErrBusy) || s.cutBefore(err))
	s.end(err)
	d.dialAnew(err, time.Since(begun))
	switch {
	case again || err == nil && len(out) == 0:
		return nil, false, nil
	case err != nil:
		return nil, true, err
	case waits:
		d.hub.tell()
	}
	return out, true, nil
}

// plain are the columns of plain jobs, of their lanes' wakes, and of the limits' rows
// that must be as they were.
type plain struct {
	lanes, ats, expires []int64
	payloads            [][]byte
	options             []string

	wakes   []int64 // lanes, each once
	wakeAts []int64
	parts   []string

	names, declared, set []string

	starts *starts // nil: nobody would start any of the jobs
}

// knows reports whether all jobs are plain and their lanes known.
func (d *db) knows(jobs []store.NewJob) bool {
	for i := range jobs {
		if !engine.Plain(&jobs[i]) {
			return false
		}
		if i > 0 && engine.SameKey(&jobs[i-1].LaneKey, &jobs[i].LaneKey) {
			continue
		}
		if _, _, ok := d.lanes.known(&jobs[i].LaneKey); !ok {
			return false
		}
	}
	return true
}

// plainOf lists what is to be written, and reports whether all jobs are plain and
// their lanes known.
func (d *db) plainOf(jobs []store.NewJob) (*plain, bool) {
	n := len(jobs)
	p := &plain{lanes: make([]int64, n), ats: make([]int64, n), expires: make([]int64, n), payloads: make([][]byte, n), options: make([]string, n)}
	wakes := make(map[int64]int)           // in p.wakes, by lane
	rows := make(map[engine.LimitRow]bool) // two of one name, of different times, cannot both be as they were
	k := 0                                 // the wake of the last job
	for i := range jobs {
		j := &jobs[i]
		if !engine.Plain(j) {
			return nil, false
		}
		if i == 0 || !engine.SameKey(&jobs[i-1].LaneKey, &j.LaneKey) {
			lane, limits, ok := d.lanes.known(&j.LaneKey)
			if !ok {
				return nil, false
			}
			if k, ok = wakes[lane]; !ok {
				k = len(p.wakes)
				wakes[lane] = k
				if !p.wake(lane, &j.LaneKey, j.At) {
					return nil, false
				}
			}
			for _, r := range limits {
				if !rows[r] {
					rows[r] = true
					p.names, p.declared, p.set = append(p.names, r.Name), append(p.declared, r.Declared), append(p.set, r.Set)
				}
			}
		}
		p.wakeAts[k] = min(p.wakeAts[k], j.At)
		p.lanes[i], p.ats[i], p.expires[i] = p.wakes[k], j.At, j.ExpiresAt
		p.payloads[i], p.options[i] = j.Payload, store.EncodeOptions(j.Options)
	}
	p.starts = startsOf(jobs)
	return p, n > 0
}

// wake lists the announcement of a lane that gets jobs, with the columns that AddWake
// writes.
func (p *plain) wake(lane int64, k *store.LaneKey, at int64) bool {
	text, err := encodeParts(k)
	p.wakes, p.wakeAts, p.parts = append(p.wakes, lane), append(p.wakeAts, at), append(p.parts, text)
	return err == nil
}

// statement returns the one that writes all, or nothing if limits' rows changed. Its
// rows are the ids, in the order of the jobs; where jobs may be started, with the time
// and whether they were.
func (p *plain) statement(clock func() int64) statement {
	var now any // the server's
	if clock != nil {
		now = clock()
	}
	if p.starts != nil {
		return p.starting(now)
	}
	args := []any{now, p.lanes, p.ats, p.expires, p.payloads, p.options, p.wakes, p.wakeAts, p.parts}
	if len(p.names) == 0 {
		return statement{sql: sqlPlain + sqlPlainRest, args: args}
	}
	return statement{sql: sqlPlain + sqlPlainIf + sqlPlainRest, args: append(args, p.names, p.declared, p.set)}
}

// The time is looked at once. Rows of limits are few, and looked up one by one.
const (
	sqlPlainNow = `(SELECT coalesce($1::bigint, floor(extract(epoch FROM statement_timestamp()) * 1000000)::bigint))`

	sqlPlain = `WITH new AS MATERIALIZED (
		SELECT nextval('penstock.job_id') AS id, lane, greatest(at, ` + sqlPlainNow + `) AS at, ` + sqlPlainNow + ` AS now, expires_at, payload, options
		FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[]) u (lane, at, expires_at, payload, options)`

	sqlPlainIf = ` WHERE NOT EXISTS (SELECT 1 FROM unnest($10::text[], $11::text[], $12::text[]) e (name, declared, set_spec)
		LEFT JOIN penstock.limit_spec s ON s.name = ANY (ARRAY[e.name]) WHERE coalesce(s.declared, '') <> e.declared OR coalesce(s.set_spec, '') <> e.set_spec)`

	sqlPlainRest = `), jobs AS (
		INSERT INTO penstock.job (id, lane, state, at, enqueued_at, expires_at, starts, cancel) SELECT id, lane, 1, at, now, expires_at, 0, false FROM new
	), bodies AS (
		INSERT INTO penstock.body (job, payload, options) SELECT id, nullif(payload, ''), nullif(options, '') FROM new
	), wakes AS (
		INSERT INTO penstock.wake (lane, at, parts) SELECT lane, greatest(at, ` + sqlPlainNow + `), parts
		FROM unnest($7::bigint[], $8::bigint[], $9::text[]) w (lane, at, parts) WHERE EXISTS (SELECT 1 FROM new)
	) SELECT id FROM new`
)
