package sqlite

import (
	"database/sql/driver"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// The columns of a job that waits, and those that it has besides while it runs.
const (
	waitingColumns = `j.id, j.lane, j.state, j.at, j.enqueued_at, j.expires_at, j.unique_key, j.run, j.ref, j.starts, j.cancel, j.past, j.error`
	jobColumns     = waitingColumns + `, j.worker, j.token, j.slot, j.lease_at, j.charges`
)

func readJob(r row) (*engine.Job, error) {
	j := &engine.Job{
		ID: r.int(0), Lane: r.int(1), State: store.State(r.int(2)), At: r.int(3), EnqueuedAt: r.int(4), ExpiresAt: r.int(5),
		Unique: r.text(6), Run: r.text(7), Ref: r.text(8), Starts: r.num(9), Cancel: r.bool(10), Error: r.text(12),
	}
	if err := engine.DecodePast(j, r.blob(11)); err != nil {
		return nil, err
	}
	if len(r) == 13 {
		return j, nil
	}
	j.Worker, j.Token, j.Slot, j.LeaseAt = r.text(13), r.int(14), r.int(15), r.int(16)
	var err error
	j.Charges, err = decodeCharges(r.text(17))
	return j, err
}

func (t *tx) listJobs(read func(row) (*engine.Job, error), sql string, args ...driver.Value) ([]*engine.Job, error) {
	var jobs []*engine.Job
	var bad error
	err := t.query(func(r row) {
		j, err := read(r)
		if err != nil {
			bad = err
			return
		}
		jobs = append(jobs, j)
	}, sql, args...)
	if err != nil {
		return nil, err
	}
	return jobs, bad
}

// jobValues are the values of the columns that waiting, running and ended jobs have.
func jobValues(j *engine.Job) []driver.Value {
	return append(make([]driver.Value, 0, 20),
		j.ID, j.Lane, int64(j.State), j.At, j.EnqueuedAt, j.ExpiresAt, orNull(j.Unique), orNull(j.Run), orNull(j.Ref),
		int64(j.Starts), flag(j.Cancel), blobOrNull(engine.EncodePast(j)), orNull(j.Error))
}

// leaseValues are NULL but in a running job.
func leaseValues(j *engine.Job) []driver.Value {
	if j.State != store.Running && j.Worker == "" && j.Token == 0 && j.Slot == 0 && j.LeaseAt == 0 && len(j.Charges) == 0 {
		return []driver.Value{nil, nil, nil, nil, nil}
	}
	return []driver.Value{orNull(j.Worker), j.Token, j.Slot, j.LeaseAt, encodeCharges(j.Charges)}
}

func (t *tx) Job(id int64) (*engine.Job, bool, error) {
	jobs, err := t.listJobs(readJob, sqlJob, id)
	if err != nil || len(jobs) == 0 {
		return nil, false, err
	}
	return jobs[0], true, nil
}

const sqlJob = `SELECT ` + jobColumns + ` FROM penstock_job j WHERE j.id = ?`

func (t *tx) Jobs(ids []int64) ([]*engine.Job, error) {
	switch len(ids) {
	case 0:
		return nil, nil
	case 1:
		jobs, err := t.listJobs(readJob, sqlJob, ids[0])
		return engine.InOrder(ids, jobs), err
	}
	jobs, err := t.listJobs(readJob, sqlJobs, encodeIDs(ids))
	if t.read == nil {
		t.read = make(map[int64]place, len(jobs))
	}
	for _, j := range jobs {
		t.read[j.ID] = placeOf(j)
	}
	return engine.InOrder(ids, jobs), err
}

const sqlJobs = `SELECT ` + jobColumns + ` FROM json_each(?) e CROSS JOIN penstock_job j ON j.id = e.value`

func (t *tx) SaveJobs(jobs []*engine.Job) error {
	for _, j := range jobs {
		delete(t.read, j.ID)
		args := append(jobValues(j)[1:], leaseValues(j)...)
		if err := t.exec(sqlSaveJob, append(args, j.ID)...); err != nil {
			return err
		}
	}
	return nil
}

const sqlSaveJob = `UPDATE penstock_job SET lane = ?, state = ?, at = ?, enqueued_at = ?, expires_at = ?, unique_key = ?, run = ?, ref = ?,
	starts = ?, cancel = ?, past = ?, error = ?, worker = ?, token = ?, slot = ?, lease_at = ?, charges = ? WHERE id = ?`

// Lease writes jobs with equal leases by one statement: those without limits, or
// with one slot under limits that are far away, come in large claims.
func (t *tx) Lease(jobs []*engine.Job) error {
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && engine.SameLease(jobs[0], jobs[n]) {
			n++
		}
		j, sql, id := jobs[0], sqlLease, driver.Value(jobs[0].ID)
		if n > 1 {
			sql, id = sqlLeases, encodeIDs(engine.JobIDs(jobs[:n]))
		}
		if err := t.exec(sql, int64(j.State), j.Worker, j.Token, j.Slot, j.LeaseAt, encodeCharges(j.Charges), int64(j.Starts), id); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

const (
	sqlSetLease = `UPDATE penstock_job SET state = ?, worker = ?, token = ?, slot = ?, lease_at = ?, charges = ?, starts = ?`
	sqlLease    = sqlSetLease + ` WHERE id = ?`
	sqlLeases   = sqlSetLease + ` WHERE id IN (SELECT value FROM json_each(?))`
)

func (t *tx) Heads(lane, at int64, n int) ([]*engine.Job, error) {
	return t.listJobs(readJob, sqlHeads, lane, at, int64(n))
}

const sqlHeads = `SELECT ` + waitingColumns + ` FROM penstock_job j WHERE j.lane = ? AND j.state = 1 AND j.at <= ? ORDER BY j.at, j.id LIMIT 0+?`

func (t *tx) DropJobs(ids []int64) error {
	return t.exec(sqlDropJobs, encodeIDs(ids))
}

const sqlDropJobs = `DELETE FROM penstock_job WHERE id IN (SELECT value FROM json_each(?))`

func (t *tx) HeldBy(worker string, after int64, n int) ([]*engine.Job, error) {
	return t.listJobs(readJob, sqlHeldBy, worker, after, int64(n))
}

const sqlHeldBy = `SELECT ` + jobColumns + ` FROM penstock_job j WHERE j.worker = ? AND j.state = 2 AND j.id > ? ORDER BY j.id LIMIT 0+?`

func (t *tx) CancelsOf(worker string) ([]int64, error) {
	return t.listIDs(sqlCancelsOf, worker)
}

const sqlCancelsOf = `SELECT id FROM penstock_job WHERE worker = ? AND state = 2 AND cancel = 1 ORDER BY id`

func (t *tx) UniqueHolder(key string) (*engine.Job, bool, error) {
	jobs, err := t.listJobs(readJob, sqlUniqueHolder, key)
	if err != nil || len(jobs) == 0 {
		return nil, false, err
	}
	return jobs[0], true, nil
}

const sqlUniqueHolder = `SELECT ` + jobColumns + ` FROM penstock_job j WHERE j.unique_key = ?`

func (t *tx) listIDs(sql string, args ...driver.Value) ([]int64, error) {
	var ids []int64
	err := t.query(func(r row) { ids = append(ids, r.int(0)) }, sql, args...)
	return ids, err
}
