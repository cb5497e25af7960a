package postgres

import (
	"context"
	"slices"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// A job that a worker would start at once is written as claimed, by a statement that
// otherwise is the one of plain jobs. As a claim, it must see all that those did who were
// alone before it, and none may be alone beside it. So it holds their lock, which it
// shares with others of its kind. It does not wait for it: if the lock is not free, the
// statement behind it, which goes in the same trip, starts nothing.

// startBytes is how much may be written under the lock, in payloads and options. A
// process that is stopped while it sends keeps the lock, and so what it sends must
// go into the network in one piece.
const startBytes = 8 << 10

// rowBytes is what a job takes of them whatever is in it.
const rowBytes = 64

// heedStart returns the jobs of one call without wishes that cannot be granted, and makes
// sure that the lane of one that can is in the book.
func (d *db) heedStart(ctx context.Context, jobs []store.NewJob) ([]store.NewJob, error) {
	if !slices.ContainsFunc(jobs, func(n store.NewJob) bool { return n.Start != nil }) {
		return jobs, nil
	}
	if !engine.Startable(jobs) {
		jobs = slices.Clone(jobs)
		for i := range jobs {
			jobs[i].Start = nil
		}
		return jobs, nil
	}
	if _, _, known := d.lanes.known(&jobs[0].LaneKey); known {
		return jobs, nil
	}
	// One after the other, so that those who come together look it up once.
	select {
	case d.lanes.turn <- struct{}{}:
		defer func() { <-d.lanes.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	_, err := d.lanes.find(ctx, []store.LaneKey{jobs[0].LaneKey}, nil)
	return jobs, err
}

// starts are the columns of plain jobs that tell who would start them; nobody: "".
type starts struct {
	workers, queues []string
	tokens          []int64
}

// startsOf lists the wishes, nil if there are none or too much is to be written.
func startsOf(jobs []store.NewJob) *starts {
	s, any, size := &starts{}, false, 0
	for i := range jobs {
		j := &jobs[i]
		worker, token := "", int64(0)
		if j.Start != nil {
			worker, token, any = j.Start.Worker, j.Start.Token, true
		}
		size += len(j.Payload) + len(j.Options.IdempotencyKey) + len(j.Queue) + rowBytes
		s.workers, s.queues, s.tokens = append(s.workers, worker), append(s.queues, j.Queue), append(s.tokens, token)
	}
	if !any || size > startBytes {
		return nil
	}
	return s
}

// commitStarting runs the statement under the lock that is shared, and commits, in one
// trip.
func (d *db) commitStarting(ctx context.Context, s *session, write statement) error {
	s.first = []statement{{sql: beginAdding}, {sql: sqlShareLock, args: []any{d.lock}}}
	if d.pooled {
		s.first = slices.Insert(s.first, 1, statement{sql: setTransaction})
	}
	return s.commit(ctx, []statement{write}, nil)
}

const (
	// It is a statement of its own, since one sees what was committed before it began.
	// Whether the lock was to be had is told by a setting of the transaction, whose name is the
	// same in all schemas.
	sqlShareLock = `SELECT set_config('penstock_tx.shares_lock', pg_try_advisory_xact_lock_shared($1)::text, true)`

	// A lane that is retired is made an empty one, as for any job that comes to it. One that
	// was removed is restored by the next claim, so nothing is started there.
	sqlStarting = `WITH new AS MATERIALIZED (
		SELECT nextval('penstock.job_id') AS id, u.lane, greatest(u.at, ` + sqlPlainNow + `) AS at, ` + sqlPlainNow + ` AS now, u.expires_at, u.payload, u.options, u.token,
			CASE WHEN u.worker <> '' AND u.at <= ` + sqlPlainNow + ` AND (u.expires_at = 0 OR u.expires_at > ` + sqlPlainNow + `)
				AND current_setting('penstock_tx.shares_lock') = 'true'
				AND EXISTS (SELECT 1 FROM penstock.worker w WHERE w.id = ANY (ARRAY[u.worker]) AND w.seen_at <> 0)
				AND NOT EXISTS (SELECT 1 FROM penstock.queue q WHERE q.name = ANY (ARRAY[u.queue]))
				AND EXISTS (SELECT 1 FROM penstock.lane l WHERE l.id = ANY (ARRAY[u.lane]) AND coalesce((SELECT j.at FROM penstock.job j
					WHERE j.lane = l.id AND j.state = 1 AND (j.at, j.id) >= (l.floor_at, l.floor_id) ORDER BY j.at, j.id LIMIT 1) > ` + sqlPlainNow + `, true))
				AND NOT EXISTS (SELECT 1 FROM (SELECT k.lane, k.at, row_number() OVER (ORDER BY k.id) AS n FROM penstock.wake k ORDER BY k.id LIMIT 256) k WHERE k.lane = u.lane AND k.at <= ` + sqlPlainNow + ` OR k.n = 256)
				THEN u.worker END AS worker
		FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $8::bigint[], $13::text[], $14::text[])
			u (lane, at, expires_at, payload, options, token, worker, queue)`

	sqlStartingRest = `), jobs AS (
		INSERT INTO penstock.job (id, lane, state, at, enqueued_at, expires_at, starts, cancel, worker, token, slot, lease_at)
		SELECT id, lane, CASE WHEN worker IS NULL THEN 1 ELSE 2 END, at, now, expires_at, CASE WHEN worker IS NULL THEN 0 ELSE 1 END, false, worker,
			CASE WHEN worker IS NOT NULL THEN token END, CASE WHEN worker IS NOT NULL THEN now END, CASE WHEN worker IS NOT NULL THEN now END FROM new
	), bodies AS (
		INSERT INTO penstock.body (job, payload, options) SELECT id, nullif(payload, ''), nullif(options, '') FROM new
	), lanes AS (
		UPDATE penstock.lane SET state = 0 WHERE state = 3 AND id = ANY (ARRAY(SELECT lane FROM new WHERE worker IS NOT NULL))
	), wakes AS (
		INSERT INTO penstock.wake (lane, at, parts) SELECT lane, min(at), ($9::text[])[array_position($7::bigint[], lane)] FROM new WHERE worker IS NULL GROUP BY lane
	) SELECT id, now, worker IS NOT NULL FROM new`
)

// starting returns the statement that writes all, and starts those of the jobs that may be.
func (p *plain) starting(now any) statement {
	return statement{sql: sqlStarting + sqlPlainIf + sqlStartingRest, args: []any{now, p.lanes, p.ats, p.expires, p.payloads, p.options,
		p.wakes, p.starts.tokens, p.parts, p.names, p.declared, p.set, p.starts.workers, p.starts.queues}}
}
