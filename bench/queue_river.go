package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

// riverQueue is River with the fetch settings of its own benchmark. T is the
// transaction of its driver.
type riverQueue[T any] struct {
	driver riverdriver.Driver[T]
	c      *river.Client[T] // inserts only
	db     riverDB
}

// riverDB is the database of a riverQueue.
type riverDB interface {
	exec(ctx context.Context, query string) error
	// left counts the jobs that are not done.
	left(ctx context.Context) (int, error)
	// permit takes one of n permits of a sliding second, or says how long to wait.
	permit(ctx context.Context, n int) (wait time.Duration, err error)
	close() error
}

// riverPool is how many connections River gets on a server: more than Penstock's
// default, which is 8, 2 for claims and finishes, and 1 that listens.
const riverPool = 16

type riverArgs struct {
	Payload string `json:"payload"`
}

func (riverArgs) Kind() string { return "noop" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	handler func(job *river.Job[riverArgs]) error
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error { return w.handler(job) }

// riverSystem is a riverQueue, whatever its driver.
type riverSystem interface {
	queue
	insert(ctx context.Context, n int, a riverArgs) error
	workWith(ctx context.Context, atOnce int, handler func(job *river.Job[riverArgs]) error) error
	base() riverDB
}

func openRiver(ctx context.Context, place string) (riverSystem, error) {
	if isDSN(place) {
		cfg, err := pgxpool.ParseConfig(place)
		if err != nil {
			return nil, err
		}
		cfg.MaxConns = riverPool
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return newRiver[pgx.Tx](ctx, riverpgxv5.New(pool), riverOnServer{pool})
	}
	db, err := sql.Open("sqlite", dsn(place))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // as its driver's documentation asks for
	return newRiver[*sql.Tx](ctx, riversqlite.New(db), riverOnFile{db})
}

func newRiver[T any](ctx context.Context, driver riverdriver.Driver[T], db riverDB) (riverSystem, error) {
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	var c *river.Client[T]
	if err == nil {
		c, err = river.NewClient(driver, tuned(&river.Config{}))
	}
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	return &riverQueue[T]{driver, c, db}, nil
}

// tuned has the fetch settings of River's own benchmark. The cooldown is also how
// often an inserting client tells workers of what it inserted, on a server.
func tuned(c *river.Config) *river.Config {
	c.Logger, c.FetchCooldown, c.FetchPollInterval = quiet, 2*time.Millisecond, 20*time.Millisecond
	return c
}

func (q *riverQueue[T]) enqueue(ctx context.Context) error {
	_, err := q.c.Insert(ctx, riverArgs{string(payload)}, nil)
	return err
}

func (q *riverQueue[T]) enqueueMany(ctx context.Context, n int) error {
	return q.insert(ctx, n, riverArgs{string(payload)})
}

func (q *riverQueue[T]) insert(ctx context.Context, n int, a riverArgs) error {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = a
	}
	_, err := q.c.InsertManyFast(ctx, jobs)
	return err
}

func (q *riverQueue[T]) drain(ctx context.Context, n int) error {
	return untilSettled(ctx, n, q.work, func() (int, error) { return q.db.left(ctx) })
}

func (q *riverQueue[T]) work(ctx context.Context, handler func()) error {
	return q.workWith(ctx, places, func(*river.Job[riverArgs]) error { handler(); return nil })
}

func (q *riverQueue[T]) workWith(ctx context.Context, atOnce int, handler func(job *river.Job[riverArgs]) error) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handler: handler})
	c, err := river.NewClient(q.driver, tuned(&river.Config{
		Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: atOnce}},
	}))
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

func (q *riverQueue[T]) base() riverDB { return q.db }
func (q *riverQueue[T]) close() error  { return q.db.close() }
