package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

type groupsArgs struct {
	Path   string
	Groups int
	Jobs   int // to be granted
}

type groupsResult struct {
	Claims, Granted int
	Took            percentiles
}

const groupsLimit = "100/s"

// groupsFillStep makes a backlog of one job in each of many groups, on one limit,
// and has a claim take note of them.
var groupsFillStep = newStep("groups-fill", func(ctx context.Context, a groupsArgs) (none struct{}, err error) {
	s, err := openStore(ctx, a.Path)
	if err != nil {
		return none, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	paused, err := limit.Parse("paused")
	if err != nil {
		return none, err
	}
	spec, err := limit.Parse(groupsLimit)
	if err != nil {
		return none, err
	}
	c := claimer{}
	return none, inTurn(
		func() error { return s.Register(ctx, store.Worker{ID: "w", Lease: 10 * time.Minute}) },
		func() error { return s.DeclareLimit(ctx, "api", paused) },
		func() error { return putBacklog(ctx, s, "api", max(a.Groups, 2*a.Jobs), a.Groups) },
		func() error { return c.catchUp(ctx, s) },
		func() error { return s.DeclareLimit(ctx, "api", spec) },
	)
})

// inTurn runs functions until one fails.
func inTurn(all ...func() error) error {
	for _, fn := range all {
		if err := fn(); err != nil {
			return err
		}
	}
	return nil
}

// groupsStep claims, whenever the last claim said that it is worth it, until enough was granted.
var groupsStep = newStep("groups", func(ctx context.Context, a groupsArgs) (r groupsResult, err error) {
	s, err := openStore(ctx, a.Path)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c := claimer{token: time.Now().UnixNano()}
	var took []time.Duration
	for r.Granted < a.Jobs {
		before := time.Now()
		got, err := c.claim(ctx, s, 10)
		if err != nil {
			return r, err
		}
		took = append(took, time.Since(before))
		r.Claims++
		r.Granted += len(got.Jobs)
		time.Sleep(time.Duration(got.NextAt-got.Now)*time.Microsecond - time.Since(before))
	}
	r.Took = percentilesOf(took)
	return r, nil
})

// pgGroupsScenario counts the rows that claims write where the jobs behind one limit
// are in few groups and in very many.
func pgGroupsScenario(ctx context.Context, l *lab) error {
	few, many := pick(l, 100, 10), pick(l, 10_000, 1_000)
	nameOf := func(groups int) string { return number(float64(groups)) + " groups" }
	for round := range l.rounds {
		for _, groups := range []int{few, many} {
			if err := groupsOnce(ctx, l, round, nameOf(groups), groups); err != nil {
				return err
			}
		}
	}
	const rows = ": rows written per granted job"
	l.ratio("rows written per granted job: many ÷ few groups", nameOf(many)+rows, nameOf(few)+rows)
	l.atMost(nameOf(many)+rows, 10)
	l.atMost("rows written per granted job: many ÷ few groups", 1.2)
	return nil
}

func groupsOnce(ctx context.Context, l *lab, round int, name string, groups int) error {
	path, err := l.place(ctx)
	if err != nil {
		return err
	}
	defer l.forget(path)
	a := groupsArgs{Path: path, Groups: groups, Jobs: pick(l, 500, 50)}
	if _, _, err := groupsFillStep.run(ctx, l, a); err != nil {
		return err
	}
	before, err := rowsWritten(ctx, path)
	if err != nil {
		return err
	}
	r, _, err := groupsStep.run(ctx, l, a)
	if err != nil {
		return err
	}
	after, err := rowsWritten(ctx, path)
	if err != nil {
		return err
	}
	rows := float64(after - before)
	l.add(name+": rows written per granted job", "rows", rows/float64(r.Granted))
	l.add(name+": rows written per claim", "rows", rows/float64(r.Claims))
	l.add(name+": granted per claim", "jobs", float64(r.Granted)/float64(r.Claims))
	l.add(name+": claim p99", "ms", r.Took.P99)
	l.say("round %d: %s: %d claims granted %d jobs and wrote %.0f rows", round+1, name, r.Claims, r.Granted, rows)
	return nil
}

// rowsWritten is how many rows of Penstock's tables were written so far, by sessions
// that ended: a session may keep its counts to itself for seconds, so it waits for
// those that have not.
func rowsWritten(ctx context.Context, dsn string) (n int64, err error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for {
		var others int
		err := c.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
			AND pid <> pg_backend_pid()`).Scan(&others)
		if err != nil {
			return 0, err
		}
		if others == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // the last one is gone from the list before its counts are there
	err = c.QueryRow(ctx, `SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_user_tables WHERE schemaname = 'penstock'`).Scan(&n)
	return n, err
}
