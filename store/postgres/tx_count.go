package postgres

import (
	"slices"
	"strings"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Jobs are counted by lane, where the index has the order, and added up.
const (
	sqlVisible  = sqlLaneOf + `c.lane` + sqlBandOfLane + ` WHERE b.load = ''`
	sqlDueLanes = `(SELECT lane, count(*) AS n FROM penstock.job WHERE state = 1 AND at <= $1 GROUP BY lane) c` + sqlVisible
)

// QueueInfos counts in one trip.
func (t *tx) QueueInfos(now int64) ([]store.QueueInfo, error) {
	queues := make(map[string]*store.QueueInfo)
	queue := func(name string) *store.QueueInfo {
		if queues[name] == nil {
			queues[name] = &store.QueueInfo{Name: name}
		}
		return queues[name]
	}
	err := t.ask([]statement{
		{sql: `SELECT b.queue, c.due, c.n, c.first FROM (SELECT lane, count(*) FILTER (WHERE at <= $1) AS due, count(*) AS n, min(at) AS first
			FROM penstock.job WHERE state = 1 GROUP BY lane) c` + sqlVisible, args: []any{now}, each: func(s scan) error {
			var name string
			var due, all, first int64
			err := s(&name, &due, &all, &first)
			q := queue(name)
			q.Due += due
			q.Scheduled += all - due
			if due > 0 && (q.OldestDue == 0 || first < q.OldestDue) {
				q.OldestDue = first
			}
			return err
		}},
		{sql: `SELECT b.queue, c.n FROM (SELECT lane, count(*) AS n FROM penstock.job WHERE state = 2 GROUP BY lane) c` + sqlVisible, each: func(s scan) error {
			var name string
			var n int64
			err := s(&name, &n)
			queue(name).Running += n
			return err
		}},
		{sql: `SELECT b.queue, c.state, c.n FROM (SELECT lane, state, count(*) AS n FROM penstock.ended GROUP BY lane, state) c` + sqlVisible, each: func(s scan) error {
			var name string
			var state int16
			var n int64
			err := s(&name, &state, &n)
			switch q := queue(name); store.State(state) {
			case store.Dead:
				q.Dead += n
			case store.Done:
				q.Done += n
			case store.Cancelled:
				q.Cancelled += n
			}
			return err
		}},
		{sql: `SELECT name, reason, at FROM penstock.queue`, each: func(s scan) error {
			var name, reason string
			var at int64
			err := s(&name, &reason, &at)
			q := queue(name)
			q.Paused, q.PausedReason, q.PausedAt = true, reason, at
			return err
		}},
	})
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

func (t *tx) CountRun(run string) (map[store.State]int64, error) {
	counts := make(map[store.State]int64)
	var q []statement
	for _, table := range []string{"penstock.job", "penstock.ended"} {
		q = append(q, statement{args: []any{run}, each: func(s scan) error {
			var state int16
			var n int64
			err := s(&state, &n)
			counts[store.State(state)] += n
			return err
		}, sql: `SELECT c.state, sum(c.n)::bigint FROM (SELECT lane, state, count(*) AS n FROM ` + table + ` WHERE run = $1 GROUP BY lane, state) c` + sqlVisible + ` GROUP BY c.state`})
	}
	return counts, t.ask(q)
}

func (t *tx) CountAtGates(at int64) (map[string]int64, error) {
	counts := make(map[string]int64)
	return counts, t.read(`SELECT l.gate, sum(c.n)::bigint FROM `+sqlDueLanes+` AND l.state = 1 AND l.gate <> '' GROUP BY l.gate`, func(s scan) error {
		var gate string
		var n int64
		err := s(&gate, &n)
		counts[gate] = n
		return err
	}, at)
}

func (t *tx) CountDue(at int64) (out []store.Unserved, err error) {
	err = t.read(`SELECT b.queue, b.kind, b.run, sum(c.n)::bigint FROM `+sqlDueLanes+` GROUP BY b.queue, b.kind, b.run
		ORDER BY b.queue COLLATE "C", b.kind COLLATE "C", b.run COLLATE "C"`, func(s scan) error {
		var u store.Unserved
		err := s(&u.Queue, &u.Kind, &u.Run, &u.Due)
		out = append(out, u)
		return err
	}, at)
	return out, err
}

func (t *tx) RecentEnds(since int64, n int) (map[string]store.Flow, error) {
	flows := make(map[string]store.Flow)
	return flows, t.read(`SELECT b.queue, count(*), min(e.finished_at) FROM (SELECT lane, state, finished_at FROM penstock.ended ORDER BY id DESC LIMIT $1) e`+
		sqlLaneOf+`e.lane`+sqlBandOfLane+` WHERE e.finished_at >= $2 AND e.state <> 5 GROUP BY b.queue`, func(s scan) error {
		var name string
		var f store.Flow
		err := s(&name, &f.Ended, &f.First)
		flows[name] = f
		return err
	}, n, since)
}

// Newest takes one step in an index for each part. Of the two jobs with the
// largest ids, waiting or ended, one is the newest of all.
func (t *tx) Newest() (at int64, err error) {
	_, err = t.one(`SELECT greatest(coalesce((SELECT max(finished_at) FROM penstock.ended WHERE state <> 4), 0),
		coalesce((SELECT enqueued_at FROM penstock.job ORDER BY id DESC LIMIT 1), 0),
		coalesce((SELECT enqueued_at FROM penstock.ended ORDER BY id DESC LIMIT 1), 0))`, func(s scan) error { return s(&at) })
	return at, err
}

// Tidy asks questions that no index answers. They are put as differences of sets,
// which take one pass over each table whatever the planner believes of it: row by row
// they take hours.
var wholeTables = statement{sql: `SELECT set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true), set_config('max_parallel_workers_per_gather', '0', true)`}

// UnusedLanes leaves out what a job refers to that nobody sees yet but by its wake.
func (t *tx) UnusedLanes() (ids []int64, err error) {
	return ids, t.ask([]statement{wholeTables, {each: collect(&ids), sql: `SELECT id FROM penstock.lane WHERE state = 3 EXCEPT
		(SELECT lane FROM penstock.job UNION ALL SELECT lane FROM penstock.ended UNION ALL SELECT lane FROM penstock.wake) ORDER BY id`}})
}

func (t *tx) DropLanes(ids []int64) (int, error) {
	t.kept.moved()
	t.kept.lanes = nil
	t.lanesOf.forget()
	dropped, err := t.listIDs(`DELETE FROM penstock.lane WHERE id = ANY ($1::bigint[]) AND state = 3 RETURNING id`, ids)
	return len(dropped), err
}

func (t *tx) UnusedGates() (gates []engine.Gate, err error) {
	err = t.ask([]statement{wholeTables, {args: []any{engine.Empty}, sql: `SELECT ` + gateColumns + ` FROM (
		SELECT band, limit_name FROM penstock.gate WHERE opens_at = $1 EXCEPT
		SELECT l.band, (d.value ->> 0) COLLATE "C" FROM penstock.lane l, jsonb_array_elements(coalesce(nullif(l.draws, ''), '[[""]]')::jsonb) d) u
		JOIN penstock.gate g ON g.band = u.band AND g.limit_name = u.limit_name`, each: func(s scan) error {
		g, err := readGate(s)
		gates = append(gates, g)
		return err
	}}})
	return gates, err
}

func (t *tx) DropGates(gates []engine.Gate) (int, error) {
	names, bands := make([]string, len(gates)), make([]int64, len(gates))
	for i, g := range gates {
		names[i], bands[i] = g.Limit, g.Band
	}
	t.kept.moved()
	t.kept.gates = nil
	dropped, err := t.listIDs(`DELETE FROM penstock.gate g USING unnest($1::text[], $2::bigint[]) u (name, band)
		WHERE g.limit_name = ANY (ARRAY[u.name]) AND g.band = ANY (ARRAY[u.band]) AND g.opens_at = $3 RETURNING g.band`, names, bands, engine.Empty)
	return len(dropped), err
}

func (t *tx) DropBands() (int, error) {
	t.kept.moved()
	dropped, err := t.listIDs(`DELETE FROM penstock.band b WHERE NOT EXISTS (SELECT 1 FROM penstock.lane l WHERE l.band = b.id)
		AND NOT EXISTS (SELECT 1 FROM penstock.gate g WHERE g.band = b.id) RETURNING id`)
	return len(dropped), err
}
