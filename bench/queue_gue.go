package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

// gueQueue is gue on PostgreSQL. It is compared for enqueueing only.
type gueQueue struct {
	pool *pgxpool.Pool
	c    *gue.Client
}

// guePool is how many connections gue gets, as many as River.
const guePool = 16

func openGue(ctx context.Context, place string) (*gueQueue, error) {
	schema, err := moduleFile(ctx, "github.com/vgarvardt/gue/v5", "migrations/schema.sql")
	if err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(place)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = guePool
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, schema)
	var c *gue.Client
	if err == nil {
		c, err = gue.NewClient(pgxv5.NewConnPool(pool))
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &gueQueue{pool, c}, nil
}

func gueJob() *gue.Job { return &gue.Job{Type: "noop", Queue: "default", Args: payload} }

func (q *gueQueue) enqueue(ctx context.Context) error { return q.c.Enqueue(ctx, gueJob()) }

func (q *gueQueue) enqueueMany(ctx context.Context, n int) error {
	jobs := make([]*gue.Job, n)
	for i := range jobs {
		jobs[i] = gueJob()
	}
	return q.c.EnqueueBatch(ctx, jobs)
}

var errOnlyEnqueue = errors.New("gue is compared for enqueueing only")

func (q *gueQueue) drain(context.Context, int) error   { return errOnlyEnqueue }
func (q *gueQueue) work(context.Context, func()) error { return errOnlyEnqueue }
func (q *gueQueue) close() error                       { q.pool.Close(); return nil }
