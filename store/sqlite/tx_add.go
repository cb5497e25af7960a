package sqlite

import (
	"strconv"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// AddJobs counts ids in a row of its own: they stay unique though rows move and
// vanish.
func (t *tx) AddJobs(jobs []*engine.Job, bodies []engine.Body) error {
	if len(jobs) == 0 {
		return nil
	}
	var last int64
	if _, err := one(t, func(r row) { last = r.int(0) },
		`UPDATE penstock_counter SET value = value + ? WHERE name = 'job' RETURNING value`, int64(len(jobs))); err != nil {
		return err
	}
	for i, j := range jobs {
		j.ID = last - int64(len(jobs)-1-i)
	}
	for rest := bodies; len(rest) > 0; {
		n := alikeBodies(rest)
		if err := t.addBodies(jobs[len(jobs)-len(rest)].ID, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	for len(jobs) > 0 {
		n := alikeJobs(jobs)
		if err := t.addJobs(jobs[:n]); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

// One statement writes a row far slower than one row of a statement that writes
// many. So jobs that differ in nothing but their payloads, as those of a batch
// mostly do, are written by two statements.

const (
	setFrom  = 4       // below so many rows, single statements cost less
	setBytes = 4 << 20 // of payload in one statement
)

// alikeBodies returns how many of the first bodies one statement can write.
func alikeBodies(b []engine.Body) int {
	n, size := 0, 0
	for n < len(b) && b[n].Options == b[0].Options && size <= setBytes {
		size += len(b[n].Payload)
		n++
	}
	return n
}

func (t *tx) addBodies(first int64, bodies []engine.Body) error {
	if len(bodies) < setFrom {
		for i, b := range bodies {
			if err := t.exec(sqlAddBody, first+int64(i), blobOrNull(b.Payload), orNull(b.Options)); err != nil {
				return err
			}
		}
		return nil
	}
	size := 0
	for _, b := range bodies {
		size += len(b.Payload)
	}
	payloads := make([]byte, 0, size+1)
	spans := append(make([]byte, 0, 16*len(bodies)), '[')
	for i, b := range bodies {
		if i > 0 {
			spans = append(spans, ',')
		}
		spans = strconv.AppendInt(spans, int64(len(payloads))<<32|int64(len(b.Payload)), 10)
		payloads = append(payloads, b.Payload...)
	}
	return t.exec(sqlAddBodies, first, payloads, orNull(bodies[0].Options), string(append(spans, ']')))
}

const (
	sqlAddBody = `INSERT INTO penstock_body (job, payload, options) VALUES (?, ?, ?)`
	// All payloads come as one blob; e.value has the offset and, below 32 bits, the length.
	sqlAddBodies = `INSERT INTO penstock_body (job, payload, options)
		SELECT ? + e.key, substr(?, (e.value >> 32) + 1, e.value & 0xffffffff), ? FROM json_each(?) e`
)

// alikeJobs returns how many of the first jobs one statement can write.
func alikeJobs(jobs []*engine.Job) int {
	if !fresh(jobs[0]) {
		return 1
	}
	n := 1
	for n < len(jobs) && fresh(jobs[n]) && jobs[n].Lane == jobs[0].Lane && jobs[n].At == jobs[0].At &&
		jobs[n].EnqueuedAt == jobs[0].EnqueuedAt && jobs[n].ExpiresAt == jobs[0].ExpiresAt {
		n++
	}
	return n
}

// fresh says that a job has no more than a lane and times.
func fresh(j *engine.Job) bool {
	return j.State == store.Waiting && j.Unique == "" && j.Run == "" && j.Ref == "" && j.Starts == 0 && !j.Cancel &&
		j.Error == "" && engine.NoPast(j) && j.Worker == "" && j.Token == 0 && j.Slot == 0 && j.LeaseAt == 0 && len(j.Charges) == 0
}

func (t *tx) addJobs(jobs []*engine.Job) error {
	j := jobs[0]
	switch {
	case !fresh(j):
		return t.addJob(j)
	case len(jobs) < setFrom:
		for _, j := range jobs {
			if err := t.exec(sqlAddFresh, j.ID, j.Lane, j.At, j.EnqueuedAt, j.ExpiresAt); err != nil {
				return err
			}
		}
		return nil
	}
	return t.exec(sqlAddAlike, j.Lane, j.At, j.EnqueuedAt, j.ExpiresAt, j.ID, jobs[len(jobs)-1].ID)
}

const (
	sqlAddFresh = `INSERT INTO penstock_job (id, lane, state, at, enqueued_at, expires_at, starts, cancel) VALUES (?, ?, 1, ?, ?, ?, 0, 0)`
	// The ids are read from the bodies, which were written just before.
	sqlAddAlike = `INSERT INTO penstock_job (id, lane, state, at, enqueued_at, expires_at, starts, cancel)
		SELECT b.job, ?, 1, ?, ?, ?, 0, 0 FROM penstock_body b WHERE b.job BETWEEN ? AND ?`
	sqlAddJob = `INSERT INTO penstock_job (id, lane, state, at, enqueued_at, expires_at, unique_key, run, ref,
		starts, cancel, past, error, worker, token, slot, lease_at, charges)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

func (t *tx) addJob(j *engine.Job) error {
	return t.exec(sqlAddJob, append(jobValues(j), leaseValues(j)...)...)
}
