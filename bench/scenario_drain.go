package main

import (
	"context"
	"fmt"
	"time"
)

type drainArgs struct {
	System, Path string
	Jobs         int
}

// fillStep stores jobs, 1,000 in a commit.
var fillStep = newStep("fill", func(ctx context.Context, a drainArgs) (struct{}, error) {
	q, err := openQueue(ctx, a.System, a.Path)
	if err != nil {
		return struct{}{}, err
	}
	for left := a.Jobs; left > 0; left -= 1000 {
		if err := q.enqueueMany(ctx, min(left, 1000)); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, q.close()
})

// drainStep works until they are done and returns how long that took.
var drainStep = newStep("drain", func(ctx context.Context, a drainArgs) (time.Duration, error) {
	q, err := openQueue(ctx, a.System, a.Path)
	if err != nil {
		return 0, err
	}
	before := time.Now()
	if err := q.drain(ctx, a.Jobs); err != nil {
		return 0, err
	}
	took := time.Since(before)
	if a.System == riverName { // stopping it takes seconds and is not measured
		return took, nil
	}
	return took, q.close()
})

// drainScenario drains jobs that do nothing, a process per system and round.
func drainScenario(ctx context.Context, l *lab) error {
	n := pick(l, 50_000, 5_000)
	for round := range l.rounds {
		for _, system := range []string{penstockName, limitedName, riverName, goqiteName} {
			if err := drainOnce(ctx, l, round, drainCase{name: system, system: system}, n); err != nil {
				return fmt.Errorf("%s: %w", system, err)
			}
		}
		if err := floorOnce(ctx, l, round, n); err != nil {
			return err
		}
	}
	l.ratio("penstock ÷ river", penstockName, riverName)
	l.ratio("penstock ÷ goqite", penstockName, goqiteName)
	l.ratio("penstock ÷ floor", penstockName, "floor: claim 500, delete 500")
	l.ratio("limited ÷ without", limitedName, penstockName)
	l.ratio("CPU per job: river ÷ penstock", riverName+": CPU per job", penstockName+": CPU per job")
	l.ratio("CPU per job: limited ÷ without", limitedName+": CPU per job", penstockName+": CPU per job")
	l.atLeast(penstockName, 40_000)
	l.atLeast("penstock ÷ river", 10)
	l.atLeast("limited ÷ without", 0.8)
	return nil
}

// A drainCase is a system to drain jobs with.
type drainCase struct {
	name, system string
	snapshot     bool // a transaction elsewhere keeps a snapshot meanwhile
}

func drainOnce(ctx context.Context, l *lab, round int, c drainCase, n int) error {
	path, err := l.place(ctx)
	if err != nil {
		return err
	}
	defer l.forget(path)
	args := drainArgs{c.system, path, n}
	if _, _, err := fillStep.run(ctx, l, args); err != nil {
		return err
	}
	if c.snapshot {
		end, err := openSnapshot(ctx, path)
		if err != nil {
			return err
		}
		defer end()
	}
	var took time.Duration
	var used usage
	server, err := l.ofServer(func() (err error) {
		took, used, err = drainStep.run(ctx, l, args)
		return err
	})
	if err != nil {
		return err
	}
	rate := float64(n) / took.Seconds()
	l.add(c.name, "jobs/s", rate)
	l.add(c.name+": peak RSS", "MiB", used.RSS)
	l.add(c.name+": CPU per job", "µs", float64(used.CPU.Microseconds())/float64(n))
	if server > 0 {
		l.add(c.name+": CPU of the server per job", "µs", float64(server.Microseconds())/float64(n))
	}
	l.say("round %d: %s %.0f jobs/s, %.0f MiB", round+1, c.name, rate, used.RSS)
	return nil
}
