package sqlite

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

const (
	endedColumns = waitingColumns + `, j.finished_at, j.reason, j.result`
	// Results may be large: they are read only where they are asked for.
	endedColumnsBare = waitingColumns + `, j.finished_at, j.reason, NULL`
)

func readEnded(r row) (*engine.Job, error) {
	j, err := readJob(r[:13])
	if err == nil {
		j.FinishedAt, j.Reason, j.Result = r.int(13), store.Reason(r.text(14)), r.blob(15)
	}
	return j, err
}

// EndJobs moves jobs that ended alike, and have nothing to remember, by one
// statement.
func (t *tx) EndJobs(jobs []*engine.Job) error {
	ids := engine.JobIDs(jobs)
	for rest := jobs; len(rest) > 0; {
		n := t.endAlike(rest)
		j := rest[0]
		var err error
		if n >= setFrom {
			err = t.exec(sqlMoveEnded, int64(j.State), int64(j.Starts), j.FinishedAt, encodeIDs(ids[len(ids)-len(rest):][:n]))
		} else {
			n = 1
			err = t.exec(sqlAddEnded, append(jobValues(j), j.FinishedAt, orNull(string(j.Reason)), blobOrNull(j.Result))...)
		}
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return t.DropJobs(ids)
}

const sqlMoveEnded = `INSERT INTO penstock_ended (id, lane, state, at, enqueued_at, expires_at, starts, cancel, finished_at)
	SELECT id, lane, ?, at, enqueued_at, expires_at, ?, 0, ? FROM penstock_job WHERE id IN (SELECT value FROM json_each(?))`

// endAlike returns how many of the first jobs sqlMoveEnded moves as they are.
func (t *tx) endAlike(jobs []*engine.Job) int {
	n, first := 0, jobs[0]
	for n < len(jobs) {
		j := jobs[n]
		if j.State != first.State || j.Starts != first.Starts || j.FinishedAt != first.FinishedAt || !t.plain(j) {
			break
		}
		n++
	}
	return n
}

// plain says that the job's lane and times are those stored, and that nothing
// else is to be kept of it but its state, its starts and its end.
func (t *tx) plain(j *engine.Job) bool {
	was, ok := t.read[j.ID]
	return ok && was == placeOf(j) && j.Unique == "" && j.Run == "" && j.Ref == "" && !j.Cancel && j.Error == "" &&
		j.Reason == "" && len(j.Result) == 0 && engine.NoPast(j)
}

// place is a job's lane and times.
type place struct{ lane, at, enqueuedAt, expiresAt int64 }

func placeOf(j *engine.Job) place { return place{j.Lane, j.At, j.EnqueuedAt, j.ExpiresAt} }

const sqlAddEnded = `INSERT INTO penstock_ended (id, lane, state, at, enqueued_at, expires_at, unique_key, run, ref,
	starts, cancel, past, error, finished_at, reason, result) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// EndDone reads three columns of the jobs instead of all, and moves the rows as
// they are.
func (t *tx) EndDone(worker string, leases []engine.DoneLease, at int64, then func([]engine.DoneJob) error) error {
	tokens := make(map[int64]int64, len(leases))
	ids := make([]int64, len(leases))
	for i, l := range leases {
		ids[i], tokens[l.ID] = l.ID, l.Token
	}
	done := make([]engine.DoneJob, 0, len(leases))
	var bad error
	err := t.query(func(r row) {
		id, charges := r.int(0), r.text(2)
		if r.int(1) != tokens[id] {
			return
		}
		list, err := decodeCharges(charges)
		if err != nil {
			bad = err
		}
		done = append(done, engine.DoneJob{ID: id, Charges: list})
	}, sqlPlainJobs, encodeIDs(ids), worker)
	if err != nil || bad != nil {
		return errors.Join(err, bad)
	}
	if len(done) > 0 {
		ended := make([]int64, len(done))
		for i, j := range done {
			ended[i] = j.ID
		}
		if err := t.exec(sqlMoveDone, at, encodeIDs(ended)); err != nil {
			return err
		}
		if err := t.DropJobs(ended); err != nil {
			return err
		}
	}
	return then(done)
}

const (
	sqlPlainJobs = `SELECT j.id, j.token, j.charges FROM json_each(?) e CROSS JOIN penstock_job j ON j.id = e.value
		WHERE j.state = 2 AND j.worker = ? AND j.past IS NULL AND j.cancel = 0`
	sqlMoveDone = `INSERT INTO penstock_ended (id, lane, state, at, enqueued_at, expires_at, unique_key, run, ref, starts, cancel, finished_at)
		SELECT id, lane, 3, at, enqueued_at, expires_at, unique_key, run, ref, starts, 0, ? FROM penstock_job WHERE id IN (SELECT value FROM json_each(?))`
)

func (t *tx) EndedJobs(ids []int64) ([]*engine.Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	jobs, err := t.listJobs(readEnded, sqlEndedJobs, encodeIDs(ids))
	return engine.InOrder(ids, jobs), err
}

const sqlEndedJobs = `SELECT ` + endedColumnsBare + ` FROM json_each(?) e CROSS JOIN penstock_ended j ON j.id = e.value`

func (t *tx) UnendJobs(jobs []*engine.Job) error {
	ids := make([]int64, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
		if err := t.addJob(j); err != nil {
			return err
		}
	}
	return t.exec(`DELETE FROM penstock_ended WHERE id IN (SELECT value FROM json_each(?))`, encodeIDs(ids))
}

func (t *tx) DropEnded(ids []int64) error {
	if err := t.exec(`DELETE FROM penstock_ended WHERE id IN (SELECT value FROM json_each(?))`, encodeIDs(ids)); err != nil {
		return err
	}
	return t.DropBodies(ids)
}

func (t *tx) DropBodies(ids []int64) error {
	list := encodeIDs(ids)
	if err := t.exec(`DELETE FROM penstock_body WHERE job IN (SELECT value FROM json_each(?))`, list); err != nil {
		return err
	}
	return t.exec(`DELETE FROM penstock_event WHERE job IN (SELECT value FROM json_each(?))`, list)
}

// EndedBefore finds done and cancelled jobs by the index of what can be pruned.
// Dead letters are in another one.
func (t *tx) EndedBefore(states []store.State, before int64, n int) ([]int64, error) {
	var ids []int64
	alive := slices.DeleteFunc(slices.Clone(states), func(s store.State) bool { return s == store.Dead })
	if len(alive) > 0 {
		found, err := t.listIDs(sqlPrunable(alive), before, int64(n))
		if err != nil {
			return nil, err
		}
		ids = found
	}
	if len(alive) < len(states) && len(ids) < n {
		found, err := t.listIDs(sqlDeadBefore, before, int64(n-len(ids)))
		if err != nil {
			return nil, err
		}
		ids = append(ids, found...)
	}
	return ids, nil
}

func sqlPrunable(states []store.State) string {
	return `SELECT id FROM penstock_ended WHERE state <> 4 AND state IN (` + stateList(states) + `) AND finished_at < ? ORDER BY finished_at LIMIT 0+?`
}

const sqlDeadBefore = `SELECT id FROM penstock_ended WHERE state = 4 AND finished_at < ? ORDER BY id LIMIT 0+?`

func stateList(states []store.State) string {
	s := make([]string, len(states))
	for i, st := range states {
		s[i] = strconv.Itoa(int(st))
	}
	return strings.Join(s, ", ")
}

func (t *tx) Bodies(ids []int64) ([]engine.Body, error) {
	bodies := make([]engine.Body, len(ids))
	at := make(map[int64]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	read := func(r row) { bodies[at[r.int(0)]] = engine.Body{Payload: r.blob(1), Options: r.text(2)} }
	if len(ids) == 1 {
		return bodies, t.query(read, `SELECT job, payload, options FROM penstock_body WHERE job = ?`, ids[0])
	}
	return bodies, t.query(read, sqlBodies, encodeIDs(ids))
}

const sqlBodies = `SELECT b.job, b.payload, b.options FROM json_each(?) e CROSS JOIN penstock_body b ON b.job = e.value`

func (t *tx) SaveBody(id int64, b engine.Body) error {
	return t.exec(`INSERT INTO penstock_body (job, payload, options) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET payload = excluded.payload, options = excluded.options`, id, blobOrNull(b.Payload), orNull(b.Options))
}
