package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// pgDrainScenario drains jobs that do nothing, a process per system and round.
func pgDrainScenario(ctx context.Context, l *lab) error {
	const snapshot = "penstock beside an open snapshot"
	n := pick(l, 50_000, 5_000)
	for round := range l.rounds {
		for _, c := range []drainCase{
			{name: penstockName, system: penstockName},
			{name: riverName, system: riverName},
			{name: limitedName, system: limitedName},
			{name: snapshot, system: penstockName, snapshot: true},
			{name: "river beside an open snapshot", system: riverName, snapshot: true},
		} {
			if err := drainOnce(ctx, l, round, c, n); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	l.ratio("penstock ÷ river", penstockName, riverName)
	l.ratio("limited ÷ without", limitedName, penstockName)
	l.ratio("beside a snapshot ÷ without", snapshot, penstockName)
	l.ratio("CPU per job: river ÷ penstock", riverName+": CPU per job", penstockName+": CPU per job")
	l.ratio("CPU of the server per job: river ÷ penstock", riverName+": CPU of the server per job", penstockName+": CPU of the server per job")
	l.atLeast("penstock ÷ river", 2)
	l.atLeast("limited ÷ without", 0.7)
	l.atLeast("beside a snapshot ÷ without", 0.6)
	return nil
}

// openSnapshot has a transaction see the database as it is now until end is called.
// No row that is changed from now on can be cleaned away meanwhile.
func openSnapshot(ctx context.Context, dsn string) (end func(), err error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	end = func() { _ = c.Close(context.WithoutCancel(ctx)) }
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class"} {
		if _, err := c.Exec(ctx, sql); err != nil {
			end()
			return nil, err
		}
	}
	return end, nil
}
