package main

import (
	"context"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

// pgEnqueueScenario enqueues one by one from 8 and from 64 goroutines, and in
// batches from one.
func pgEnqueueScenario(ctx context.Context, l *lab) error {
	return enqueueAll(ctx, l, []string{penstockName, riverName, gueName}, []enqueueWay{
		{"singly, 8 goroutines", 8, 0, 0, 2.5},
		{"singly, 64 goroutines", 64, 0, 30_000, 0},
		{"batches of 1,000", 1, 1000, 0, 1.5},
	})
}

// pgPickupScenario measures how soon an idle worker starts a job.
func pgPickupScenario(ctx context.Context, l *lab) error {
	if err := pickupAll(ctx, l, []string{penstockName, riverName}); err != nil {
		return err
	}
	for _, p := range []string{"p50", "p99"} {
		l.ratio(p+": penstock ÷ river", "penstock: "+p, "river: "+p)
		l.atMost(p+": penstock ÷ river", 1)
	}
	return nil
}

// pgLimitedScenario makes calls at an API that counts strictly, from three
// processes under one limit.
func pgLimitedScenario(ctx context.Context, l *lab) error {
	const name, perSecond = "sliding 50/s", 50
	jobs := pick(l, 1500, 150)
	for round := range l.rounds {
		if err := limitedCase(ctx, l, round, limitedStep, name, apisim.Sliding, perSecond, jobs); err != nil {
			return err
		}
		if round == 0 {
			if err := limitedCase(ctx, l, round, riverLimitedStep, "river, snooze: "+name, apisim.Sliding, perSecond, jobs); err != nil {
				return fmt.Errorf("river: %w", err)
			}
		}
	}
	l.atLeast(name+": share of the limit", 93)
	l.atMost(name+": refused", 0.5)
	l.atMost(name+": handler starts per job", 1.01)
	l.atMost(name+": CPU of the three", 2)
	l.atMost(name+": CPU of the server", 2)
	return nil
}

// pgBlockedScenario measures what a backlog that may not run costs others.
func pgBlockedScenario(ctx context.Context, l *lab) error {
	if err := blockedAll(ctx, l, pick(l, 10*time.Second, 2*time.Second)); err != nil {
		return err
	}
	l.atMost("with ÷ without backlog", 1.2)
	l.atMost("CPU with only blocked jobs, limit paused", 2)
	return nil
}

// pgKeysScenario measures claims where each of very many jobs has a limit of its own.
func pgKeysScenario(ctx context.Context, l *lab) error { return keysScenario(ctx, l) }

// pgFairScenario has eight processes fight over one limit.
func pgFairScenario(ctx context.Context, l *lab) error {
	const name = "1,000/s"
	for round := range l.rounds {
		if err := fairOnce(ctx, l, round, name, true, 8, pick(l, 10*time.Second, 2*time.Second)); err != nil {
			return err
		}
	}
	l.atLeast(name+": all together", 950)
	return nil
}
