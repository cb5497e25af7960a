package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

type enqueueArgs struct {
	System, Path string
	Goroutines   int
	Batch        int // 0: one by one, by the call for that
	For          time.Duration
}

type enqueueResult struct {
	Rate float64 // jobs per second
	CPU  float64 // µs per job
}

// enqueueStep enqueues for a while.
var enqueueStep = newStep("enqueue", func(ctx context.Context, a enqueueArgs) (r enqueueResult, err error) {
	q, err := openQueue(ctx, a.System, a.Path)
	if err != nil {
		return r, err
	}
	put, each := q.enqueue, 1
	if a.Batch > 0 {
		put, each = func(ctx context.Context) error { return q.enqueueMany(ctx, a.Batch) }, a.Batch
	}
	var (
		jobs   atomic.Int64
		failed atomic.Value
		all    sync.WaitGroup
	)
	before, cpu := time.Now(), cpuTime()
	for range a.Goroutines {
		all.Go(func() {
			for time.Since(before) < a.For && failed.Load() == nil {
				if err := put(ctx); err != nil {
					failed.Store(err)
					return
				}
				jobs.Add(int64(each))
			}
		})
	}
	all.Wait()
	took := time.Since(before)
	if err, ok := failed.Load().(error); ok {
		return r, err
	}
	n := float64(jobs.Load())
	r.Rate, r.CPU = n/took.Seconds(), float64((cpuTime()-cpu).Microseconds())/n
	return r, q.close()
})

// enqueueScenario enqueues one by one from 8 and from 64 goroutines, and in
// batches from one.
func enqueueScenario(ctx context.Context, l *lab) error {
	return enqueueAll(ctx, l, []string{penstockName, riverName, goqiteName}, []enqueueWay{
		{"singly, 8 goroutines", 8, 0, 8_500, 4},
		{"singly, 64 goroutines", 64, 0, 0, 0},
		{"batches of 1,000", 1, 1000, 169_500, 3},
	})
}

// An enqueueWay is a way to enqueue.
type enqueueWay struct {
	name              string
	goroutines, batch int
	goal, overRiver   float64 // 0: none
}

// enqueueAll measures each system in each way. The second system is River.
func enqueueAll(ctx context.Context, l *lab, systems []string, ways []enqueueWay) error {
	for round := range l.rounds {
		for _, way := range ways {
			for _, system := range systems {
				r, err := enqueueOnce(ctx, l, enqueueArgs{
					System: system, Goroutines: way.goroutines, Batch: way.batch, For: pick(l, 3*time.Second, 300*time.Millisecond),
				})
				if err != nil {
					return fmt.Errorf("%s, %s: %w", system, way.name, err)
				}
				l.add(way.name+": "+system, "jobs/s", r.Rate)
				l.add(way.name+": "+system+": CPU per job", "µs", r.CPU)
				l.say("round %d: %s: %s %.0f jobs/s", round+1, way.name, system, r.Rate)
			}
		}
	}
	for _, way := range ways {
		mine := way.name + ": " + penstockName
		over := way.name + ": penstock ÷ river"
		l.ratio(over, mine, way.name+": "+riverName)
		for _, other := range systems[2:] {
			l.ratio(way.name+": penstock ÷ "+other, mine, way.name+": "+other)
		}
		if way.goal > 0 {
			l.atLeast(mine, way.goal)
		}
		if way.overRiver > 0 {
			l.atLeast(over, way.overRiver)
		}
	}
	return nil
}

func enqueueOnce(ctx context.Context, l *lab, a enqueueArgs) (r enqueueResult, err error) {
	if a.Path, err = l.place(ctx); err != nil {
		return r, err
	}
	defer l.forget(a.Path)
	r, _, err = enqueueStep.run(ctx, l, a)
	return r, err
}
