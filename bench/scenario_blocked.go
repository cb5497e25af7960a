package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/penstockhq/penstock"
)

type blockedArgs struct {
	Path    string
	Spec    string // of the limit that the backlog waits for
	Backlog int
	Free    int           // jobs of one burst
	Bursts  int           // 0: do nothing else and
	Idle    time.Duration // see what that takes
	Server  int           // its first process, 0: none, or not seen
}

type blockedResult struct {
	Bursts []time.Duration
	CPU    time.Duration // while nothing else was done
	Server time.Duration // and the server's
	Ran    int           // blocked jobs that were started meanwhile
}

// blockedStep works a queue with a backlog that waits for a limit, and enqueues
// jobs without limits behind it: same queue, same kind, same priority.
var blockedStep = newStep("blocked", func(ctx context.Context, a blockedArgs) (r blockedResult, err error) {
	c, err := penstock.Open(ctx, a.Path, penstock.Config{Logger: quiet, Limits: map[string]string{"slow": a.Spec}})
	if err != nil {
		return r, err
	}
	var burst sync.WaitGroup
	ran := 0
	var mu sync.Mutex
	err = penstock.Handle(c, "noop", func(_ context.Context, job *penstock.Job[[]byte]) error {
		if len(job.Draws) == 0 {
			burst.Done()
			return nil
		}
		mu.Lock()
		ran++
		mu.Unlock()
		return nil
	}, penstock.Kind{})
	if err != nil {
		return r, err
	}
	put := func(n int, draws []penstock.Draw) error {
		for ; n > 0; n -= 1000 {
			jobs := make([]penstock.NewJob, min(n, 1000))
			for i := range jobs {
				jobs[i] = penstock.NewJob{Kind: "noop", Payload: payload, Limits: draws}
			}
			if _, err := c.EnqueueMany(ctx, jobs); err != nil {
				return err
			}
		}
		return nil
	}
	if err := put(a.Backlog, penstock.Draws("slow")); err != nil {
		return r, err
	}
	if a.Bursts == 0 && isDSN(a.Path) {
		if err := settle(ctx, a.Path); err != nil { // not of the backlog, but of its coming
			return r, err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- c.Work(ctx, penstock.WorkOptions{Concurrency: places}) }()
	time.Sleep(time.Second) // the start is not measured
	if a.Bursts == 0 {
		before, server := cpuTime(), serverCPU(a.Server)
		time.Sleep(a.Idle)
		r.CPU, r.Server = cpuTime()-before, serverCPU(a.Server)-server
	}
	for range a.Bursts {
		burst.Add(a.Free)
		before := time.Now()
		if err := put(a.Free, nil); err != nil {
			return r, err
		}
		burst.Wait()
		r.Bursts = append(r.Bursts, time.Since(before))
		time.Sleep(100 * time.Millisecond)
	}
	mu.Lock()
	r.Ran = ran
	mu.Unlock()
	stop()
	if err := <-ended; err != nil {
		return r, err
	}
	return r, c.Close()
})

// blockedScenario measures what a backlog that may not run costs others.
func blockedScenario(ctx context.Context, l *lab) error {
	if err := blockedAll(ctx, l, pick(l, 20*time.Second, 2*time.Second)); err != nil {
		return err
	}
	l.atMost("with ÷ without backlog", 1.2)
	l.atMost("CPU with only blocked jobs, limit paused", 1)
	return nil
}

// blockedAll measures bursts of free jobs, and then for a while nothing but a backlog.
func blockedAll(ctx context.Context, l *lab, idle time.Duration) error {
	backlog := pick(l, 100_000, 10_000)
	run := func(a blockedArgs) (r blockedResult, err error) {
		if a.Path, err = l.place(ctx); err != nil {
			return r, err
		}
		defer l.forget(a.Path)
		if l.on == onPostgres {
			a.Server = l.server.postmaster
		}
		r, _, err = blockedStep.run(ctx, l, a)
		return r, err
	}
	for round := range l.rounds {
		var p50 [2]float64
		for i, n := range []int{0, backlog} {
			r, err := run(blockedArgs{Spec: "10/s", Backlog: n, Free: 1000, Bursts: pick(l, 20, 5)})
			if err != nil {
				return err
			}
			p50[i] = percentile(r.Bursts, 50)
			l.add(fmt.Sprintf("1,000 free jobs behind %s blocked", number(float64(n))), "ms", p50[i])
		}
		l.add("with ÷ without backlog", "×", p50[1]/p50[0])
		l.say("round %d: 1,000 free jobs in %.0f ms, behind the backlog in %.0f ms", round+1, p50[0], p50[1])
		for _, spec := range []string{"paused", "10/s"} {
			r, err := run(blockedArgs{Spec: spec, Backlog: backlog, Idle: idle})
			if err != nil {
				return err
			}
			share := 100 * (r.CPU + r.Server).Seconds() / idle.Seconds()
			name := "CPU with only blocked jobs, limit " + spec
			l.add(name, "% of a core", share)
			if r.Server > 0 {
				l.add(name+": of it the server", "% of a core", 100*r.Server.Seconds()/idle.Seconds())
			}
			l.say("round %d: limit %s: %.2f %% of a core, %d started", round+1, spec, share, r.Ran)
		}
	}
	path, err := l.place(ctx) // once: it takes long
	if err != nil {
		return err
	}
	defer l.forget(path)
	r, _, err := riverBlockedStep.run(ctx, l, blockedArgs{Path: path, Backlog: backlog, Free: 1000})
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	l.add("river, snooze: 1,000 free jobs behind the backlog", "ms", milliseconds(r.Burst))
	l.add("river, snooze: handlers started by then", "starts", float64(r.Starts))
	l.say("river: 1,000 free jobs behind the backlog in %.0f ms, %d starts", milliseconds(r.Burst), r.Starts)
	return nil
}
