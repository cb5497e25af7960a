package main

import (
	"context"

	"github.com/penstockhq/penstock"
)

// penstockQueue is Penstock with its defaults.
type penstockQueue struct {
	c     *penstock.Client
	draws []penstock.Draw
}

// openPenstock has jobs draw on a limit if spec is not empty.
func openPenstock(ctx context.Context, path, spec string) (*penstockQueue, error) {
	q := &penstockQueue{}
	cfg := penstock.Config{Logger: quiet}
	if spec != "" {
		cfg.Limits = map[string]string{"api": spec}
		q.draws = penstock.Draws("api")
	}
	var err error
	q.c, err = penstock.Open(ctx, path, cfg)
	if err != nil {
		return nil, err
	}
	return q, q.c.DeclareKind("noop", penstock.Kind{Limits: q.draws})
}

func (q *penstockQueue) enqueue(ctx context.Context) error {
	_, err := q.c.Enqueue(ctx, "noop", payload)
	return err
}

func (q *penstockQueue) enqueueMany(ctx context.Context, n int) error {
	jobs := make([]penstock.NewJob, n)
	for i := range jobs {
		jobs[i] = penstock.NewJob{Kind: "noop", Payload: payload}
	}
	_, err := q.c.EnqueueMany(ctx, jobs)
	return err
}

func (q *penstockQueue) handle(handler func()) error {
	return penstock.Handle(q.c, "noop", func(context.Context, *penstock.Job[[]byte]) error {
		handler()
		return nil
	}, penstock.Kind{Limits: q.draws})
}

func (q *penstockQueue) drain(ctx context.Context, _ int) error {
	if err := q.handle(func() {}); err != nil {
		return err
	}
	return q.c.Work(ctx, penstock.WorkOptions{Concurrency: places, Drain: true})
}

func (q *penstockQueue) work(ctx context.Context, handler func()) error {
	if err := q.handle(handler); err != nil {
		return err
	}
	return q.c.Work(ctx, penstock.WorkOptions{Concurrency: places})
}

func (q *penstockQueue) close() error { return q.c.Close() }
