package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"

	"github.com/penstockhq/penstock"
)

// riverLimitedStep is one of three processes with River on one file. As River
// has no limits over processes, the handler asks a limiter in the same file and
// snoozes the job until it says; so it does when the API refuses the call.
var riverLimitedStep = newStep("limited-river", func(ctx context.Context, a limitedArgs) (int64, error) {
	const none = 0
	var starts atomic.Int64
	q, err := openRiver(ctx, a.Path)
	if err != nil {
		return none, err
	}
	if a.Jobs > 0 {
		if _, err := q.db.ExecContext(ctx, `CREATE TABLE sent (at INTEGER NOT NULL)`); err != nil {
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
			wait, err := q.permit(ctx, a.PerSecond)
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
		var left int
		if err := q.db.QueryRowContext(ctx, `SELECT count(*) FROM river_job WHERE state <> 'completed'`).Scan(&left); err != nil {
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

// permit takes one of n permits of a sliding second, or says how long to wait.
func (q *riverQueue) permit(ctx context.Context, n int) (wait time.Duration, err error) {
	tx, err := q.db.BeginTx(ctx, nil) // the connection begins IMMEDIATE
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	now := time.Now().UnixMicro()
	const window = 1_000_000
	if _, err := tx.ExecContext(ctx, `DELETE FROM sent WHERE at <= ?`, now-window); err != nil {
		return 0, err
	}
	var count int
	var oldest sql.NullInt64
	if err := tx.QueryRowContext(ctx, `SELECT count(*), min(at) FROM sent`).Scan(&count, &oldest); err != nil {
		return 0, err
	}
	if count >= n {
		return time.Duration(oldest.Int64+window-now) * time.Microsecond, tx.Commit()
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO sent (at) VALUES (?)`, now); err != nil {
		return 0, err
	}
	return 0, tx.Commit()
}
