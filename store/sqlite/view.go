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
	defer func() { r.idle <- c }()
	if err := beginView(ctx, c); err != nil {
		return err
	}
	c.ctx = ctx // a long look ends with its caller
	err = run(&tx{link: c, clock: r.clock, live: r.live}, fn)
	c.ctx = context.Background()
	if e := c.exec(`ROLLBACK`); err == nil {
		err = e
	}
	return err
}

// beginView takes the snapshot. In WAL mode that waits for nobody but a recovery
// after a crash.
func beginView(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(ctx, busyFor)
	defer cancel()
	return whileBusy(ctx, func() error {
		err := c.exec(`BEGIN`)
		if err == nil {
			if err = c.query(func(row) {}, `SELECT 1 FROM penstock_counter LIMIT 1`); err != nil {
				err = errors.Join(err, c.exec(`ROLLBACK`))
			}
		}
		return err
	})
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
