package sqlite

import (
	"context"
	"errors"
	"runtime"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// readers are the connections for read-only looks, opened as they are needed.
type readers struct {
	path  string
	clock func() int64
	live  *live
	seats chan struct{} // one taken for each view under way
	idle  chan *conn
	done  chan struct{}
}

func newReaders(path string, clock func() int64, l *live) *readers {
	n := max(2, min(4, runtime.GOMAXPROCS(0)))
	return &readers{path: path, clock: clock, live: l, seats: make(chan struct{}, n), idle: make(chan *conn, n), done: make(chan struct{})}
}

// view runs fn on one snapshot: that of its first statement.
func (r *readers) view(ctx context.Context, fn func(engine.Tx) error) error {
	select {
	case <-r.done:
		return store.ErrClosed
	default:
	}
	select {
	case r.seats <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.done:
		return store.ErrClosed
	}
	defer func() { <-r.seats }()

	c, err := r.get()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, busyFor)
	defer cancel()
	err = whileBusy(ctx, func() error {
		if err := c.exec(`BEGIN`); err != nil {
			return err
		}
		err := run(&tx{link: c, clock: r.clock, live: r.live}, fn)
		if e := c.exec(`ROLLBACK`); e != nil && err == nil {
			err = e
		}
		return err
	})
	r.idle <- c
	return err
}

func (r *readers) get() (*conn, error) {
	select {
	case c := <-r.idle:
		return c, nil
	default:
		return connect(r.path, `query_only = 1`, `temp_store = memory`)
	}
}

// close waits for the views under way.
func (r *readers) close() error {
	close(r.done)
	for range cap(r.seats) {
		r.seats <- struct{}{}
	}
	var errs []error
	for {
		select {
		case c := <-r.idle:
			errs = append(errs, c.close())
		default:
			return errors.Join(errs...)
		}
	}
}
