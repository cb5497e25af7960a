package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"

	"github.com/penstockhq/penstock"
)

// riverLimitedStep is one of three processes with River on one database. As River
// has no limits over processes, the handler asks a limiter in the same database and
// snoozes the job until it says; so it does when the API refuses the call.
var riverLimitedStep = newStep("limited-river", func(ctx context.Context, a limitedArgs) (int64, error) {
	const none = 0
	var starts atomic.Int64
	q, err := openRiver(ctx, a.Path)
	if err != nil {
		return none, err
	}
	if a.Jobs > 0 {
		sent := sentOnFile
		if isDSN(a.Path) {
			sent = sentOnServer
		}
		if err := q.base().exec(ctx, sent); err != nil {
			return none, err
		}
		return none, errors.Join(q.enqueueMany(ctx, a.Jobs), q.close())
	}
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- q.workWith(ctx, 20, func(job *river.Job[riverArgs]) error {
			starts.Add(1)
			wait, err := q.base().permit(ctx, a.PerSecond)
			if err != nil {
				return err
			}
			if wait > 0 {
				return river.JobSnooze(wait)
			}
			err = call(ctx, hc, fmt.Sprintf("%s/call/%d", a.URL, job.ID))
			var refused *penstock.RateLimitedError
			if errors.As(err, &refused) {
				return river.JobSnooze(refused.Wait)
			}
			return err
		})
	}()
	for {
		left, err := q.base().left(ctx)
		if err != nil {
			return none, err
		}
		if left == 0 {
			return starts.Load(), nil
		}
		select {
		case err := <-ended:
			return none, errors.Join(errors.New("the worker ended early"), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
})
