package sqlite

import (
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Find looks at the waiting and running jobs and at the ended ones in turn, each
// in the order of ids, and merges.
func (t *tx) Find(f store.Filter) ([]*engine.Job, error) {
	if f.N <= 0 {
		f.N = 100
	}
	hot, ended := engine.SplitStates(f.States)
	var jobs []*engine.Job
	if len(hot) > 0 && f.Reason == "" {
		sql, args := findQuery(f, hot, `SELECT `+jobColumns+` FROM penstock_job j`, `j.enqueued_at`)
		found, err := t.listJobs(readJob, sql, args...)
		if err != nil {
			return nil, err
		}
		jobs = found
	}
	if len(ended) > 0 {
		columns := endedColumnsBare
		if f.Bodies {
			columns = endedColumns
		}
		sql, args := findQuery(f, ended, `SELECT `+columns+` FROM penstock_ended j`, `j.finished_at`)
		found, err := t.listJobs(readEnded, sql, args...)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, found...)
	}
	engine.SortFound(f, jobs)
	return jobs[:min(f.N, len(jobs))], nil
}

// findQuery writes only the conditions that filter: a partial index serves a
// query that names the index's own condition.
func findQuery(f store.Filter, states []store.State, from, when string) (string, []driver.Value) {
	var s strings.Builder
	var args []driver.Value
	where := func(condition string, values ...driver.Value) {
		s.WriteString(" AND " + condition)
		args = append(args, values...)
	}
	s.WriteString(from + ` CROSS JOIN penstock_lane l ON l.id = j.lane CROSS JOIN penstock_band b ON b.id = l.band WHERE b.load = ''`)
	switch {
	case len(states) == 1:
		where(`j.state = ` + stateList(states))
	case len(f.States) > 0:
		where(`j.state IN (` + stateList(states) + `)`)
	}
	if f.AfterID != 0 {
		where(`j.id > ?`, f.AfterID)
	}
	if f.BeforeID != 0 {
		where(`j.id < ?`, f.BeforeID)
	}
	if f.IDs != nil {
		where(`j.id IN (SELECT value FROM json_each(?))`, encodeIDs(f.IDs))
	}
	if f.Run != "" {
		where(`j.run = ?`, f.Run)
		if f.Refs != nil {
			where(`j.id IN (SELECT c.job FROM json_each(?) e CROSS JOIN penstock_call c ON c.run = ? AND c.ref = e.value)`, encodeStrings(f.Refs), f.Run)
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
			is, name = `instr(d.value ->> 0, ?) = 1`, keys
		}
		where(`EXISTS (SELECT 1 FROM json_each(CASE l.draws WHEN '' THEN '[]' ELSE l.draws END) d WHERE `+is+`)`, name)
	}
	if f.Reason != "" {
		where(`j.reason = ?`, string(f.Reason))
	}
	if f.Text != "" {
		where(`instr(j.error, ?) > 0`, f.Text)
	}
	if f.Before != 0 {
		where(when+` < ?`, f.Before)
	}
	if f.After != 0 {
		where(when+` >= ?`, f.After)
	}
	s.WriteString(` ORDER BY j.id` + map[bool]string{true: ` DESC`}[f.Newest] + ` LIMIT 0+?`)
	return s.String(), append(args, int64(f.N))
}

// QueueInfos counts by lane, where the index has the order, and adds up.
func (t *tx) QueueInfos(now int64) ([]store.QueueInfo, error) {
	queues := make(map[string]*store.QueueInfo)
	queue := func(name string) *store.QueueInfo {
		if queues[name] == nil {
			queues[name] = &store.QueueInfo{Name: name}
		}
		return queues[name]
	}
	err := t.query(func(r row) {
		q, due, all, first := queue(r.text(0)), r.int(1), r.int(2), r.int(3)
		q.Due += due
		q.Scheduled += all - due
		if due > 0 && (q.OldestDue == 0 || first < q.OldestDue) {
			q.OldestDue = first
		}
	}, sqlCountWaiting, now)
	if err != nil {
		return nil, err
	}
	if err := t.query(func(r row) { queue(r.text(0)).Running += r.int(1) }, sqlCountRunning); err != nil {
		return nil, err
	}
	err = t.query(func(r row) {
		switch q := queue(r.text(0)); store.State(r.int(1)) {
		case store.Dead:
			q.Dead += r.int(2)
		case store.Done:
			q.Done += r.int(2)
		case store.Cancelled:
			q.Cancelled += r.int(2)
		}
	}, sqlCountEnded)
	if err != nil {
		return nil, err
	}
	err = t.query(func(r row) {
		q := queue(r.text(0))
		q.Paused, q.PausedReason, q.PausedAt = true, r.text(1), r.int(2)
	}, `SELECT name, reason, at FROM penstock_queue`)
	if err != nil {
		return nil, err
	}
	infos := make([]store.QueueInfo, 0, len(queues))
	for _, q := range queues {
		infos = append(infos, *q)
	}
	slices.SortFunc(infos, func(a, b store.QueueInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

const (
	sqlVisible = ` CROSS JOIN penstock_lane l ON l.id = c.lane CROSS JOIN penstock_band b ON b.id = l.band WHERE b.load = ''`

	sqlCountWaiting = `SELECT b.queue, c.due, c.n, c.first FROM (SELECT lane, sum(at <= ?) AS due, count(*) AS n, min(at) AS first
		FROM penstock_job WHERE state = 1 GROUP BY lane) c` + sqlVisible
	sqlCountRunning = `SELECT b.queue, c.n FROM (SELECT lane, count(*) AS n FROM penstock_job WHERE state = 2 GROUP BY lane) c` + sqlVisible
	sqlCountEnded   = `SELECT b.queue, c.state, c.n FROM (SELECT lane, state, count(*) AS n FROM penstock_ended GROUP BY lane, state) c` + sqlVisible
)

func (t *tx) CountRun(run string) (map[store.State]int64, error) {
	counts := make(map[store.State]int64)
	for _, table := range []string{"penstock_job", "penstock_ended"} {
		err := t.query(func(r row) { counts[store.State(r.int(0))] += r.int(1) }, `SELECT c.state, sum(c.n) FROM
			(SELECT lane, state, count(*) AS n FROM `+table+` WHERE run = ? GROUP BY lane, state) c`+sqlVisible+` GROUP BY c.state`, run)
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}
