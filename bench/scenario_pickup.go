package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

type pickupArgs struct {
	System, Path string
	Samples      int
}

// percentiles are of a time, in milliseconds.
type percentiles struct{ P50, P95, P99 float64 }

func percentilesOf(all []time.Duration) percentiles {
	return percentiles{percentile(all, 50), percentile(all, 95), percentile(all, 99)}
}

// pickupStep enqueues jobs with pauses between them, in the process that works
// them, and measures from the call of enqueue to the handler's start.
var pickupStep = newStep("pickup", func(ctx context.Context, a pickupArgs) (percentiles, error) {
	q, err := openQueue(ctx, a.System, a.Path)
	if err != nil {
		return percentiles{}, err
	}
	began := make(chan time.Time, 1)
	go func() {
		if err := q.work(ctx, func() { began <- time.Now() }); err != nil {
			panic(err) // ends the process, whose stderr is told
		}
	}()
	var all []time.Duration
	for i := range a.Samples + 20 {
		// Not in step with anybody's polling.
		time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond))
		sent := time.Now()
		if err := q.enqueue(ctx); err != nil {
			return percentiles{}, err
		}
		at := <-began
		if i >= 20 { // the first ones find things cold
			all = append(all, at.Sub(sent))
		}
	}
	return percentilesOf(all), nil
})

// pickupScenario measures how soon an idle worker starts a job.
func pickupScenario(ctx context.Context, l *lab) error {
	if err := pickupAll(ctx, l, []string{penstockName, goqiteName, riverName}); err != nil {
		return err
	}
	l.ratio("p99: penstock ÷ goqite", "penstock: p99", "goqite: p99")
	l.atMost("penstock: p50", 2.8)
	l.atMost("penstock: p99", 4.4)
	l.atMost("p99: penstock ÷ goqite", 1)
	l.atMost("penstock, another process enqueues: p99", 100)
	return nil
}

func pickupAll(ctx context.Context, l *lab, systems []string) error {
	for round := range l.rounds {
		for _, system := range systems {
			path, err := l.place(ctx)
			if err != nil {
				return err
			}
			p, used, err := pickupStep.run(ctx, l, pickupArgs{system, path, pick(l, 500, 50)})
			l.forget(path)
			if err != nil {
				return fmt.Errorf("%s: %w", system, err)
			}
			l.add(system+": p50", "ms", p.P50)
			l.add(system+": p95", "ms", p.P95)
			l.add(system+": p99", "ms", p.P99)
			l.add(system+": CPU", "s", used.CPU.Seconds())
			l.say("round %d: %s p50 %.2f, p95 %.2f, p99 %.2f ms", round+1, system, p.P50, p.P95, p.P99)
		}
		if err := acrossOnce(ctx, l, round); err != nil {
			return err
		}
	}
	return nil
}
