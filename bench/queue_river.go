package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

// riverQueue is River on SQLite, with the fetch settings of its own benchmark,
// and one connection, as its driver's documentation asks for.
type riverQueue struct {
	db *sql.DB
	c  *river.Client[*sql.Tx] // inserts only
}

type riverArgs struct {
	Payload string `json:"payload"`
}

func (riverArgs) Kind() string { return "noop" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	handler func(job *river.Job[riverArgs]) error
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error { return w.handler(job) }

func openRiver(ctx context.Context, path string) (*riverQueue, error) {
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	driver := riversqlite.New(db)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	var c *river.Client[*sql.Tx]
	if err == nil {
		c, err = river.NewClient(driver, &river.Config{Logger: quiet})
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &riverQueue{db, c}, nil
}

func (q *riverQueue) enqueue(ctx context.Context) error {
	_, err := q.c.Insert(ctx, riverArgs{string(payload)}, nil)
	return err
}

func (q *riverQueue) enqueueMany(ctx context.Context, n int) error {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = riverArgs{string(payload)}
	}
	_, err := q.c.InsertManyFast(ctx, jobs)
	return err
}

func (q *riverQueue) drain(ctx context.Context, n int) error {
	return untilSettled(ctx, n, q.work, func() (left int, err error) {
		err = q.db.QueryRowContext(ctx, `SELECT count(*) FROM river_job WHERE state <> 'completed'`).Scan(&left)
		return left, err
	})
}

func (q *riverQueue) work(ctx context.Context, handler func()) error {
	return q.workWith(ctx, places, func(*river.Job[riverArgs]) error { handler(); return nil })
}

func (q *riverQueue) workWith(ctx context.Context, atOnce int, handler func(job *river.Job[riverArgs]) error) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handler: handler})
	c, err := river.NewClient(riversqlite.New(q.db), &river.Config{
		Logger: quiet, Workers: workers,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: atOnce}},
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	<-c.Stopped()
	return nil
}

func (q *riverQueue) close() error { return q.db.Close() }
