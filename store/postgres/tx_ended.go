package postgres

import (
	"slices"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

const (
	endedColumns = waitingColumns + `, j.finished_at, coalesce(j.reason, ''), j.result`
	// Results may be large: they are read only where they are asked for.
	endedColumnsBare = waitingColumns + `, j.finished_at, coalesce(j.reason, ''), NULL::bytea`
)

func readEnded(s scan) (*engine.Job, error) {
	j := new(engine.Job)
	var state int16
	var past []byte
	var reason string
	if err := s(append(waitingFields(j, &state, &past), &j.FinishedAt, &reason, &j.Result)...); err != nil {
		return nil, err
	}
	j.State, j.Reason = store.State(state), store.Reason(reason)
	return j, engine.DecodePast(j, past)
}

// EndJobs moves jobs that were done at the first start, and have nothing to
// remember, as they are stored.
func (t *tx) EndJobs(jobs []*engine.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	t.kept.jobsMoved()
	var plain, rest []*engine.Job
	for _, j := range jobs {
		if endsPlainly(j) && j.Starts == jobs[0].Starts && j.FinishedAt == jobs[0].FinishedAt {
			plain = append(plain, j)
		} else {
			rest = append(rest, j)
		}
	}
	if len(plain) > 0 {
		if err := t.write(sqlMoveEnded, engine.JobIDs(plain), plain[0].Starts, plain[0].FinishedAt); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	c := columnsOf(rest)
	if err := t.write(sqlEndJobs, append(c.common(), c.end()...)...); err != nil {
		return err
	}
	return t.DropJobs(engine.JobIDs(rest))
}

// endsPlainly says that nothing is to be kept of the job but its lane and times,
// which ending does not change, its starts and its end.
func endsPlainly(j *engine.Job) bool {
	return j.State == store.Done && j.Unique == "" && j.Run == "" && j.Ref == "" && !j.Cancel && j.Error == "" &&
		j.Reason == "" && len(j.Result) == 0 && engine.NoPast(j)
}

const sqlMoveEnded = `WITH gone AS (DELETE FROM penstock.job WHERE id = ANY ($1::bigint[]) RETURNING id, lane, at, enqueued_at, expires_at)
	INSERT INTO penstock.ended (id, lane, state, at, enqueued_at, expires_at, starts, cancel, finished_at)
	SELECT id, lane, 3, at, enqueued_at, expires_at, $2, false, $3 FROM gone`

// EndDone moves the rows by one statement, which travels with the commit if nobody
// needs its answer before.
func (t *tx) EndDone(worker string, leases []engine.DoneLease, at int64, then func([]engine.DoneJob) error) error {
	t.kept.jobsMoved()
	if at == 0 && t.clock != nil {
		at = t.clock()
	}
	n := len(leases)
	ids, tokens, passed := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, l := range leases {
		ids[i], tokens[i], passed[i] = l.ID, l.Token, l.PassedAt
	}
	var done []engine.DoneJob
	s := statement{sql: sqlEndDone, args: []any{ids, tokens, worker, at, t.mode == adding, passed}, each: func(s scan) error {
		var j engine.DoneJob
		var charges string
		var announced bool
		err := s(&j.ID, &charges, &announced)
		if err == nil {
			j.Charges, err = decodeCharges(charges)
		}
		t.ended = t.ended || announced
		done = append(done, j)
		return err
	}}
	if t.mode == adding {
		t.ready = append(t.ready, s)
		t.then = append(t.then, func() error { return then(done) })
		return nil
	}
	if err := t.ask([]statement{s}); err != nil {
		return err
	}
	return then(done)
}

// state + 0: so that no partial index of running jobs comes into question. The
// planner takes one of those while its statistics say that few jobs run.
const sqlEndDone = `WITH gone AS (DELETE FROM penstock.job j USING unnest($1::bigint[], $2::bigint[], $6::bigint[]) u (id, token, passed)
		WHERE j.id = ANY (ARRAY[u.id]) AND j.token = u.token AND j.worker = $3 AND j.state + 0 = 2 AND j.past IS NULL AND NOT j.cancel
		RETURNING j.id, j.lane, j.at, j.enqueued_at, j.expires_at, j.unique_key, j.run, j.ref, j.starts, j.charges, u.passed),
	moved AS (INSERT INTO penstock.ended (id, lane, state, at, enqueued_at, expires_at, unique_key, run, ref, starts, cancel, finished_at)
		SELECT id, lane, 3, at, enqueued_at, expires_at, unique_key, run, ref, starts, false, CASE WHEN $4::bigint = 0 THEN ` + nowOnServer + ` ELSE $4 END FROM gone),
	told AS (INSERT INTO penstock.wake (limit_name, at, ended, passed_at, slot)
		SELECT c.value ->> 0, CASE WHEN $4::bigint = 0 THEN ` + nowOnServer + ` ELSE $4 END, count(*), max(gone.passed),
			coalesce(max((c.value ->> 2)::bigint) FILTER (WHERE gone.passed <> 0), 0) FROM gone, jsonb_array_elements(gone.charges::jsonb) c (value)
		WHERE $5 AND gone.charges IS NOT NULL GROUP BY 1)
	SELECT id, CASE WHEN $5 THEN '' ELSE coalesce(charges, '') END, $5 AND charges IS NOT NULL FROM gone`

func (t *tx) EndedJobs(ids []int64) ([]*engine.Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	jobs, err := t.listJobs(readEnded, `SELECT `+endedColumnsBare+` FROM penstock.ended j WHERE j.id = ANY ($1::bigint[])`, ids)
	return engine.InOrder(ids, jobs), err
}

func (t *tx) UnendJobs(jobs []*engine.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	t.kept.jobsMoved()
	c := columnsOf(jobs)
	if err := t.write(sqlAddJobs, append(c.common(), c.lease()...)...); err != nil {
		return err
	}
	return t.write(`DELETE FROM penstock.ended WHERE id = ANY ($1::bigint[])`, engine.JobIDs(jobs))
}

func (t *tx) DropEnded(ids []int64) error {
	if err := t.write(`DELETE FROM penstock.ended WHERE id = ANY ($1::bigint[])`, ids); err != nil {
		return err
	}
	return t.DropBodies(ids)
}

func (t *tx) DropBodies(ids []int64) error {
	if err := t.write(`DELETE FROM penstock.body WHERE job = ANY ($1::bigint[])`, ids); err != nil {
		return err
	}
	return t.write(`DELETE FROM penstock.event WHERE job = ANY ($1::bigint[])`, ids)
}

// EndedBefore finds done and cancelled jobs by the index of what can be pruned.
// Dead letters are in another one.
func (t *tx) EndedBefore(states []store.State, before int64, n int) (ids []int64, err error) {
	alive := make([]int16, 0, len(states))
	for _, s := range states {
		if s != store.Dead {
			alive = append(alive, int16(s))
		}
	}
	if len(alive) > 0 {
		ids, err = t.listIDs(`SELECT id FROM penstock.ended WHERE state <> 4 AND state = ANY ($1::smallint[]) AND finished_at < $2 ORDER BY finished_at LIMIT $3`, alive, before, n)
		if err != nil {
			return nil, err
		}
	}
	if slices.Contains(states, store.Dead) && len(ids) < n {
		dead, err := t.listIDs(`SELECT id FROM penstock.ended WHERE state = 4 AND finished_at < $1 ORDER BY finished_at LIMIT $2`, before, n-len(ids))
		if err != nil {
			return nil, err
		}
		ids = append(ids, dead...)
	}
	return ids, nil
}

// bodies is a query that fills in bodies by the position of their job's id.
func bodiesOf(ids []int64, bodies []engine.Body) statement {
	at := make(map[int64]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	return statement{sql: `SELECT job, payload, coalesce(options, '') FROM penstock.body WHERE job = ANY ($1::bigint[])`, args: []any{ids}, each: func(s scan) error {
		var id int64
		var b engine.Body
		err := s(&id, &b.Payload, &b.Options)
		bodies[at[id]] = b
		return err
	}}
}

func (t *tx) Bodies(ids []int64) ([]engine.Body, error) {
	bodies := make([]engine.Body, len(ids))
	return bodies, t.ask([]statement{bodiesOf(ids, bodies)})
}

// BodiesLater reads them in the trip of the commit, behind it: a large answer must
// not hold what others wait for.
func (t *tx) BodiesLater(ids []int64, then func([]engine.Body) error) error {
	if len(ids) == 0 {
		return nil
	}
	bodies := make([]engine.Body, len(ids))
	t.after = append(t.after, bodiesOf(ids, bodies))
	t.then = append(t.then, func() error { return then(bodies) })
	return nil
}

func (t *tx) SaveBody(id int64, b engine.Body) error {
	return t.write(`INSERT INTO penstock.body (job, payload, options) VALUES ($1, nullif($2::bytea, ''), nullif($3, ''))
		ON CONFLICT (job) DO UPDATE SET payload = excluded.payload, options = excluded.options`, id, notNil(b.Payload), b.Options)
}
