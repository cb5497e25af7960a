package postgres

import "github.com/penstockhq/penstock/store/engine"

// columns are the values of many jobs, column by column, as unnest takes them.
type columns struct {
	ids, lanes, ats, enqueued, expires []int64
	states                             []int16
	uniques, runs, refs                []string
	starts                             []int32
	cancels                            []bool
	pasts                              [][]byte
	errors                             []string

	workers              []string
	tokens, slots, since []int64
	charges              []string

	finished []int64
	reasons  []string
	results  [][]byte
}

func columnsOf(jobs []*engine.Job) *columns {
	c := new(columns)
	for _, j := range jobs {
		c.ids, c.lanes, c.ats = append(c.ids, j.ID), append(c.lanes, j.Lane), append(c.ats, j.At)
		c.enqueued, c.expires = append(c.enqueued, j.EnqueuedAt), append(c.expires, j.ExpiresAt)
		c.states = append(c.states, int16(j.State))
		c.uniques, c.runs, c.refs = append(c.uniques, j.Unique), append(c.runs, j.Run), append(c.refs, j.Ref)
		c.starts, c.cancels = append(c.starts, int32(j.Starts)), append(c.cancels, j.Cancel)
		c.pasts, c.errors = append(c.pasts, notNil(engine.EncodePast(j))), append(c.errors, j.Error)
		c.workers, c.tokens = append(c.workers, j.Worker), append(c.tokens, j.Token)
		c.slots, c.since = append(c.slots, j.Slot), append(c.since, j.LeaseAt)
		c.charges = append(c.charges, encodeCharges(j.Charges))
		c.finished, c.reasons = append(c.finished, j.FinishedAt), append(c.reasons, string(j.Reason))
		c.results = append(c.results, notNil(j.Result))
	}
	return c
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (c *columns) common() []any {
	return []any{c.ids, c.lanes, c.states, c.ats, c.enqueued, c.expires, c.uniques, c.runs, c.refs, c.starts, c.cancels, c.pasts, c.errors}
}

func (c *columns) lease() []any { return []any{c.workers, c.tokens, c.slots, c.since, c.charges} }

func (c *columns) end() []any { return []any{c.finished, c.reasons, c.results} }

// Empty texts and bytes stand for NULL.
const (
	commonNames  = `id, lane, state, at, enqueued_at, expires_at, unique_key, run, ref, starts, cancel, past, error`
	commonUnnest = `$1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::text[],
		$10::int[], $11::boolean[], $12::bytea[], $13::text[]`
	commonValues = `u.id, u.lane, u.state, u.at, u.enqueued_at, u.expires_at, nullif(u.unique_key, ''), nullif(u.run, ''), nullif(u.ref, ''),
		u.starts, u.cancel, nullif(u.past, ''), nullif(u.error, '')`
	leaseNames  = `worker, token, slot, lease_at, charges`
	leaseUnnest = `$14::text[], $15::bigint[], $16::bigint[], $17::bigint[], $18::text[]`
	leaseValues = `nullif(u.worker, ''), nullif(u.token, 0), nullif(u.slot, 0), nullif(u.lease_at, 0), nullif(u.charges, '')`
	endNames    = `finished_at, reason, result`
	endUnnest   = `$14::bigint[], $15::text[], $16::bytea[]`
	endValues   = `u.finished_at, nullif(u.reason, ''), nullif(u.result, '')`

	sqlAddJobs = `INSERT INTO penstock.job (` + commonNames + `, ` + leaseNames + `)
		SELECT ` + commonValues + `, ` + leaseValues + ` FROM unnest(` + commonUnnest + `, ` + leaseUnnest + `) u (` + commonNames + `, ` + leaseNames + `)
		ORDER BY u.unique_key`
	sqlSaveJobs = `UPDATE penstock.job j SET (` + commonNames + `, ` + leaseNames + `) = (` + commonValues + `, ` + leaseValues + `)
		FROM unnest(` + commonUnnest + `, ` + leaseUnnest + `) u (` + commonNames + `, ` + leaseNames + `) WHERE j.id = ANY (ARRAY[u.id])`
	sqlEndJobs = `INSERT INTO penstock.ended (` + commonNames + `, ` + endNames + `)
		SELECT ` + commonValues + `, ` + endValues + ` FROM unnest(` + commonUnnest + `, ` + endUnnest + `) u (` + commonNames + `, ` + endNames + `)`
)
