package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
)

type riverBlockedResult struct {
	Burst  time.Duration
	Starts int64 // handlers that were started by then
}

// riverBlockedStep is the same backlog on River, as its users limit calls: the
// handler asks a limiter, and snoozes the job until it says.
var riverBlockedStep = newStep("blocked-river", func(ctx context.Context, a blockedArgs) (r riverBlockedResult, err error) {
	q, err := openRiver(ctx, a.Path)
	if err != nil {
		return r, err
	}
	put := func(n int, kind string) error {
		for ; n > 0; n -= 1000 {
			if err := q.insert(ctx, min(n, 1000), riverArgs{kind}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := put(a.Backlog, "limited"); err != nil {
		return r, err
	}
	var (
		limiter = limiterOf{every: 100 * time.Millisecond}
		starts  atomic.Int64
		burst   sync.WaitGroup
	)
	burst.Add(a.Free)
	ended := make(chan error, 1)
	go func() {
		ended <- q.workWith(ctx, places, func(job *river.Job[riverArgs]) error {
			starts.Add(1)
			if job.Args.Payload == "free" {
				burst.Done()
				return nil
			}
			if wait := limiter.take(time.Now()); wait > 0 {
				return river.JobSnooze(wait)
			}
			return nil
		})
	}()
	time.Sleep(time.Second)
	before := time.Now()
	if err := put(a.Free, "free"); err != nil {
		return r, err
	}
	done := make(chan struct{})
	go func() { burst.Wait(); close(done) }()
	select {
	case <-done:
	case err := <-ended:
		return r, errors.Join(errors.New("the worker ended early"), err)
	}
	r.Burst, r.Starts = time.Since(before), starts.Load()
	return r, nil // stopping takes long and is not measured
})

// limiterOf lets one through in each stretch of time.
type limiterOf struct {
	every time.Duration
	mu    sync.Mutex
	next  time.Time
}

// take returns 0, or how long to wait.
func (l *limiterOf) take(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.next.Sub(now); wait > 0 {
		return wait
	}
	l.next = now.Add(l.every)
	return 0
}
