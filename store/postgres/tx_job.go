package postgres

import (
	"slices"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// The columns of a job that waits, and those that it has besides while it runs.
const (
	waitingColumns = `j.id, j.lane, j.state, j.at, j.enqueued_at, j.expires_at, coalesce(j.unique_key, ''), coalesce(j.run, ''), coalesce(j.ref, ''),
		j.starts, j.cancel, j.past, coalesce(j.error, '')`
	jobColumns = waitingColumns + `, coalesce(j.worker, ''), coalesce(j.token, 0), coalesce(j.slot, 0), coalesce(j.lease_at, 0), coalesce(j.charges, '')`
)

func waitingFields(j *engine.Job, state *int16, past *[]byte) []any {
	return append(make([]any, 0, 18), &j.ID, &j.Lane, state, &j.At, &j.EnqueuedAt, &j.ExpiresAt, &j.Unique, &j.Run, &j.Ref,
		&j.Starts, &j.Cancel, past, &j.Error)
}

func readWaiting(s scan) (*engine.Job, error) {
	j := new(engine.Job)
	var state int16
	var past []byte
	if err := s(waitingFields(j, &state, &past)...); err != nil {
		return nil, err
	}
	j.State = store.State(state)
	return j, engine.DecodePast(j, past)
}

func readJob(s scan) (*engine.Job, error) {
	j := new(engine.Job)
	var state int16
	var past []byte
	var charges string
	if err := s(append(waitingFields(j, &state, &past), &j.Worker, &j.Token, &j.Slot, &j.LeaseAt, &charges)...); err != nil {
		return nil, err
	}
	j.State = store.State(state)
	if err := engine.DecodePast(j, past); err != nil {
		return nil, err
	}
	var err error
	j.Charges, err = decodeCharges(charges)
	return j, err
}

func jobsOf(into *[]*engine.Job, read func(scan) (*engine.Job, error), sql string, args ...any) statement {
	return statement{sql: sql, args: args, each: func(s scan) error {
		j, err := read(s)
		*into = append(*into, j)
		return err
	}}
}

func (t *tx) listJobs(read func(scan) (*engine.Job, error), sql string, args ...any) (jobs []*engine.Job, err error) {
	err = t.ask([]statement{jobsOf(&jobs, read, sql, args...)})
	return jobs, err
}

const sqlTakeIDs = `SELECT nextval('penstock.job_id') FROM generate_series(1, $1)`

func (t *tx) AddJobs(jobs []*engine.Job, bodies []engine.Body) error {
	if len(jobs) == 0 {
		return nil
	}
	t.kept.jobsMoved()
	if n := len(jobs) - len(t.ids); n > 0 {
		if err := t.ask([]statement{{sql: sqlTakeIDs, args: []any{n}, each: collect(&t.ids)}}); err != nil {
			return err
		}
	}
	payloads, options := make([][]byte, len(jobs)), make([]string, len(jobs))
	for i, j := range jobs {
		j.ID = t.ids[i]
		if payloads[i] = bodies[i].Payload; payloads[i] == nil {
			payloads[i] = []byte{}
		}
		options[i] = bodies[i].Options
	}
	t.ids = t.ids[len(jobs):]
	if err := t.addJobs(jobs); err != nil {
		return err
	}
	ids := engine.JobIDs(jobs)
	if alike(options) {
		return t.write(`INSERT INTO penstock.body (job, payload, options)
			SELECT u.job, nullif(u.payload, ''), nullif($3, '') FROM unnest($1::bigint[], $2::bytea[]) u (job, payload)`, ids, payloads, options[0])
	}
	return t.write(`INSERT INTO penstock.body (job, payload, options)
		SELECT u.job, nullif(u.payload, ''), nullif(u.options, '') FROM unnest($1::bigint[], $2::bytea[], $3::text[]) u (job, payload, options)`, ids, payloads, options)
}

func alike[T comparable](list []T) bool {
	for _, v := range list[1:] {
		if v != list[0] {
			return false
		}
	}
	return true
}

// addJobs writes hot rows: those of jobs that have a lane and times and nothing
// else, as nearly all new ones, by a short statement.
func (t *tx) addJobs(jobs []*engine.Job) error {
	if slices.ContainsFunc(jobs, func(j *engine.Job) bool { return !fresh(j) || j.EnqueuedAt != jobs[0].EnqueuedAt }) {
		c := columnsOf(jobs)
		return t.write(sqlAddJobs, append(c.common(), c.lease()...)...)
	}
	n := len(jobs)
	ids, lanes, ats, expires := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i, j := range jobs {
		ids[i], lanes[i], ats[i], expires[i] = j.ID, j.Lane, j.At, j.ExpiresAt
	}
	if alike(lanes) && alike(ats) && alike(expires) {
		return t.write(`INSERT INTO penstock.job (id, lane, state, at, enqueued_at, expires_at, starts, cancel)
			SELECT id, $2, 1, $3, $4, $5, 0, false FROM unnest($1::bigint[]) u (id)`, ids, lanes[0], ats[0], jobs[0].EnqueuedAt, expires[0])
	}
	return t.write(`INSERT INTO penstock.job (id, lane, state, at, enqueued_at, expires_at, starts, cancel)
		SELECT id, lane, 1, at, $5, expires_at, 0, false FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) u (id, lane, at, expires_at)`,
		ids, lanes, ats, expires, jobs[0].EnqueuedAt)
}

// fresh says that a job has no more than a lane and times.
func fresh(j *engine.Job) bool {
	return j.State == store.Waiting && j.Unique == "" && j.Run == "" && j.Ref == "" && j.Starts == 0 && !j.Cancel &&
		j.Error == "" && engine.NoPast(j) && j.Worker == "" && j.Token == 0 && j.Slot == 0 && j.LeaseAt == 0 && len(j.Charges) == 0
}

func (t *tx) Job(id int64) (*engine.Job, bool, error) {
	if j, ok := pick(t.kept.jobs, id); ok {
		return j, j != nil, nil
	}
	jobs, err := t.listJobs(readJob, sqlJobs+t.locking(), []int64{id})
	if err != nil || len(jobs) == 0 {
		return nil, false, err
	}
	return jobs[0], true, nil
}

// locking locks the jobs that a query finds, in a transaction that may be about to
// take them from their worker: that may end them at this moment.
func (t *tx) locking() string {
	if t.mode == alone {
		return ` FOR UPDATE OF j`
	}
	return ""
}

func (t *tx) Jobs(ids []int64) ([]*engine.Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	jobs, err := t.listJobs(readJob, sqlJobs, ids)
	return engine.InOrder(ids, jobs), err
}

const sqlJobs = `SELECT ` + jobColumns + ` FROM penstock.job j WHERE j.id = ANY ($1::bigint[])`

func (t *tx) SaveJobs(jobs []*engine.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	t.kept.jobsMoved()
	c := columnsOf(jobs)
	return t.write(sqlSaveJobs, append(c.common(), c.lease()...)...)
}

// Lease writes jobs with equal leases by a short statement: those without limits,
// or with one slot under limits that are far away, come in large claims.
func (t *tx) Lease(jobs []*engine.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	t.kept.jobsLeft()
	j, charges := jobs[0], encodeCharges(jobs[0].Charges)
	if !slices.ContainsFunc(jobs, func(o *engine.Job) bool { return !engine.SameLease(j, o) }) {
		return t.write(`UPDATE penstock.job SET state = $2, worker = $3, token = $4, slot = $5, lease_at = $6, charges = nullif($7, ''), starts = $8
			WHERE id = ANY ($1::bigint[])`, engine.JobIDs(jobs), int16(j.State), j.Worker, j.Token, j.Slot, j.LeaseAt, charges, j.Starts)
	}
	n := len(jobs)
	slots, texts, starts := make([]int64, n), make([]string, n), make([]int32, n)
	for i, j := range jobs {
		slots[i], texts[i], starts[i] = j.Slot, encodeCharges(j.Charges), int32(j.Starts)
	}
	return t.write(`UPDATE penstock.job j SET state = $2, worker = $3, token = $4, lease_at = $5, slot = u.slot, charges = nullif(u.charges, ''), starts = u.starts
		FROM unnest($1::bigint[], $6::bigint[], $7::text[], $8::int[]) u (id, slot, charges, starts) WHERE j.id = ANY (ARRAY[u.id])`,
		engine.JobIDs(jobs), int16(j.State), j.Worker, j.Token, j.LeaseAt, slots, texts, starts)
}

func (t *tx) Heads(lane, at int64, n int) ([]*engine.Job, error) {
	if p, ok := pick(t.kept.heads, lane); ok {
		if jobs, ok := p.first(n); ok {
			return jobs, nil
		}
	}
	return t.listJobs(readWaiting, `SELECT `+waitingColumns+` FROM penstock.job j WHERE j.lane = $1 AND j.state = 1 AND j.at <= $2 ORDER BY j.at, j.id LIMIT $3`, lane, at, n)
}

// headsAhead reads the heads of lanes that draw on limits, and those of the others:
// of these up to a bound in all, and then only the first of each.
func (t *tx) headsAhead(a engine.Ahead) (q []statement) {
	ask := func(asks []engine.HeadAsk, most int) {
		if len(asks) == 0 {
			return
		}
		lanes, ns := make([]int64, len(asks)), make([]int32, len(asks))
		for i, h := range asks {
			lanes[i], ns[i] = h.Lane, int32(h.N)
		}
		got := make(map[int64]int, len(asks))
		for _, h := range asks {
			put(&t.kept.heads, h.Lane, part[*engine.Job]{})
		}
		ats, ids := t.floors(lanes)
		q = append(q, statement{sql: sqlHeadsOf, args: []any{lanes, ns, a.HeadsAt, most, ats, ids}, each: func(s scan) error {
			j, err := readWaiting(s)
			if err != nil {
				return err
			}
			p := t.kept.heads[j.Lane]
			if got[j.Lane]++; got[j.Lane] > len(p.list) {
				p.list = append(p.list, j)
			}
			t.kept.heads[j.Lane] = p
			return nil
		}})
	}
	var free, first, drawn []engine.HeadAsk
	sum := 0
	for _, h := range a.Heads {
		if !h.Free {
			drawn = append(drawn, h)
			sum += h.N
			continue
		}
		free = append(free, h)
		h.N = 1
		first = append(first, h)
	}
	ask(drawn, sum)
	ask(free, a.FreeMost)
	if len(first) > 1 {
		ask(first, len(first))
	}
	return q
}

// headsAreWhole marks the lanes of which all due jobs were read.
func (t *tx) headsAreWhole(a engine.Ahead) {
	free := 0
	for _, h := range a.Heads {
		p := t.kept.heads[h.Lane]
		if h.Free {
			if free += len(p.list); free >= a.FreeMost {
				p.all = len(p.list) == 0
				t.kept.heads[h.Lane] = p
				continue
			}
		}
		p.all = len(p.list) < h.N
		t.kept.heads[h.Lane] = p
	}
}

const sqlHeadsOf = `SELECT ` + waitingColumns + ` FROM unnest($1::bigint[], $2::int[], $5::bigint[], $6::bigint[]) WITH ORDINALITY e (lane, n, floor_at, floor_id, ord)
	CROSS JOIN LATERAL (SELECT * FROM penstock.job d WHERE d.lane = e.lane AND d.state = 1 AND d.at <= $3 AND (d.at, d.id) >= (e.floor_at, e.floor_id) ORDER BY d.at, d.id LIMIT e.n) j
	ORDER BY e.ord, j.at, j.id LIMIT $4`

func (t *tx) DropJobs(ids []int64) error {
	t.kept.jobsMoved()
	return t.write(`DELETE FROM penstock.job WHERE id = ANY ($1::bigint[])`, ids)
}

func (t *tx) HeldBy(worker string, after int64, n int) ([]*engine.Job, error) {
	return t.listJobs(readJob, `SELECT `+jobColumns+` FROM penstock.job j WHERE j.worker = $1 AND j.state = 2 AND j.id > $2 ORDER BY j.id LIMIT $3`+t.locking(), worker, after, n)
}

func (t *tx) CancelsOf(worker string) ([]int64, error) {
	return t.listIDs(`SELECT id FROM penstock.job WHERE worker = $1 AND state = 2 AND cancel ORDER BY id`, worker)
}

func (t *tx) UniqueHolder(key string) (*engine.Job, bool, error) {
	if j, ok := t.kept.holders[key]; ok {
		return j, j != nil, nil
	}
	jobs, err := t.listJobs(readJob, sqlHolders+t.locking(), []string{key})
	if err != nil || len(jobs) == 0 {
		return nil, false, err
	}
	return jobs[0], true, nil
}

const sqlHolders = `SELECT ` + jobColumns + ` FROM penstock.job j WHERE j.unique_key = ANY ($1::text[])`
