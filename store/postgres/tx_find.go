package postgres

import (
	"strconv"
	"strings"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Find looks at the waiting and running jobs and at the ended ones in one trip,
// each in the order of ids, and merges.
func (t *tx) Find(f store.Filter) ([]*engine.Job, error) {
	if f.N <= 0 {
		f.N = 100
	}
	hot, ended := engine.SplitStates(f.States)
	var jobs []*engine.Job
	var q []statement
	if len(hot) > 0 && f.Reason == "" {
		sql, args := findQuery(f, hot, `SELECT `+jobColumns+` FROM penstock.job j`, `j.enqueued_at`)
		q = append(q, jobsOf(&jobs, readJob, sql, args...))
	}
	if len(ended) > 0 {
		columns := endedColumnsBare
		if f.Bodies {
			columns = endedColumns
		}
		sql, args := findQuery(f, ended, `SELECT `+columns+` FROM penstock.ended j`, `j.finished_at`)
		q = append(q, jobsOf(&jobs, readEnded, sql, args...))
	}
	if len(q) == 0 {
		return nil, nil
	}
	if err := t.ask(q); err != nil {
		return nil, err
	}
	engine.SortFound(f, jobs)
	return jobs[:min(f.N, len(jobs))], nil
}

// A job's lane, and its band, are looked up behind the job. As plain joins a server that
// believes a table to be empty takes it first, and looks through all jobs for each row.
const (
	sqlLaneOf     = ` CROSS JOIN LATERAL (SELECT * FROM penstock.lane x WHERE x.id = `
	sqlBandOfLane = ` OFFSET 0) l CROSS JOIN LATERAL (SELECT * FROM penstock.band x WHERE x.id = l.band OFFSET 0) b`
)

// findQuery writes only the conditions that filter: a partial index serves a
// query that names the index's own condition.
func findQuery(f store.Filter, states []store.State, from, when string) (string, []any) {
	var s strings.Builder
	var args []any
	where := func(condition string, value any) {
		args = append(args, value)
		s.WriteString(" AND " + strings.ReplaceAll(condition, "?", "$"+strconv.Itoa(len(args))))
	}
	s.WriteString(from + sqlLaneOf + `j.lane` + sqlBandOfLane + ` WHERE b.load = ''`)
	switch {
	case len(states) == 1:
		s.WriteString(` AND j.state = ` + strconv.Itoa(int(states[0])))
	case len(f.States) > 0:
		list := make([]int16, len(states))
		for i, st := range states {
			list[i] = int16(st)
		}
		where(`j.state = ANY (?::smallint[])`, list)
	}
	if f.AfterID != 0 {
		where(`j.id > ?`, f.AfterID)
	}
	if f.BeforeID != 0 {
		where(`j.id < ?`, f.BeforeID)
	}
	if f.IDs != nil {
		where(`j.id = ANY (?::bigint[])`, f.IDs)
	}
	if f.Run != "" {
		where(`j.run = ?`, f.Run)
		if f.Refs != nil {
			where(`j.id IN (SELECT c.job FROM penstock.call c WHERE c.run = $`+strconv.Itoa(len(args))+` AND c.ref = ANY (?::text[]))`, f.Refs)
		}
	}
	if f.Queue != "" {
		where(`b.queue = ?`, f.Queue)
	}
	if f.Kind != "" {
		where(`b.kind = ?`, f.Kind)
	}
	if f.Limit != "" {
		is, name := `d.value ->> 0 = ?`, f.Limit
		if keys, ok := strings.CutSuffix(f.Limit, "*"); ok && strings.HasSuffix(keys, "/") {
			is, name = `starts_with(d.value ->> 0, ?)`, keys
		}
		where(`EXISTS (SELECT 1 FROM jsonb_array_elements(coalesce(nullif(l.draws, ''), '[]')::jsonb) d WHERE `+is+`)`, name)
	}
	if f.Reason != "" {
		where(`j.reason = ?`, string(f.Reason))
	}
	if f.Text != "" {
		where(`strpos(j.error, ?) > 0`, f.Text)
	}
	if f.Before != 0 {
		where(when+` < ?`, f.Before)
	}
	if f.After != 0 {
		where(when+` >= ?`, f.After)
	}
	args = append(args, f.N)
	s.WriteString(` ORDER BY j.id` + map[bool]string{true: ` DESC`}[f.Newest] + ` LIMIT $` + strconv.Itoa(len(args)))
	return s.String(), args
}
