// Package memory is the reference store: every row in plain Go maps under one
// lock. It is the model that other stores are compared with, and what tests in
// virtual time run on. Nothing survives the process.
//
// It is written to be obviously right before it is fast: tens of thousands of
// jobs are comfortable, millions are not meant.
package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// The points at which Options.Pause is called, in the order of one update.
const (
	PointBegin     = "begin"     // an update is about to wait for the lock
	PointLocked    = "locked"    // it has the lock and has read nothing
	PointCommit    = "commit"    // it has read and written, and is about to commit
	PointCommitted = "committed" // it has committed and let go of the lock; nobody was told
	PointViewed    = "viewed"    // a view has ended and let go of the lock
)

// Options tune a store; the zero value is an ordinary one. The hooks are for
// tests, and are called from the goroutine of the update or view.
type Options struct {
	// Now is the store's clock in microseconds since the Unix epoch; nil: the
	// system's, which inside a testing/synctest bubble is the bubble's.
	Now func() int64
	// Alive says what is known at first hand of a worker; nil: nothing is.
	Alive func(store.Worker) engine.Liveness
	// BeforeCommit fails an update that is about to commit: it is rolled back.
	BeforeCommit func() error
	// AfterCommit fails an update that has committed: its reply is lost.
	AfterCommit func() error
	// Pause is called at the named points and may block there.
	Pause func(point string)
	// RunTwice runs each update a second time after rolling the first run back,
	// as a store does that meets a conflict.
	RunTwice bool
}

// DB is a set of rows in memory. It is safe for concurrent use.
type DB struct {
	opt Options
	// lock holds one value while nobody has it. It is a channel, so that waiting
	// for it can be cancelled and counts as idle under testing/synctest.
	lock   chan struct{}
	rows   rows
	closed bool // under lock

	mu       sync.Mutex      // guards watchers
	watchers []chan struct{} // in the order in which they came
}

// New returns an empty store.
func New(o Options) store.Store { return engine.New(NewDB(o)) }

// NewDB returns the rows alone, for callers that put something between them
// and the engine.
func NewDB(o Options) *DB {
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMicro() }
	}
	if o.Pause == nil {
		o.Pause = func(string) {}
	}
	db := &DB{opt: o, lock: make(chan struct{}, 1), rows: newRows()}
	db.lock <- struct{}{}
	return db
}

// Update runs fn alone and keeps what it wrote if it returns nil. After an
// error or a panic every row is as it was before.
func (db *DB) Update(ctx context.Context, fn func(engine.Tx) error) error {
	db.opt.Pause(PointBegin)
	notify, err := db.update(ctx, fn)
	if err != nil {
		return err
	}
	db.opt.Pause(PointCommitted)
	if notify {
		db.signal()
	}
	if db.opt.AfterCommit != nil {
		return db.opt.AfterCommit()
	}
	return nil
}

func (db *DB) update(ctx context.Context, fn func(engine.Tx) error) (notify bool, err error) {
	if err := db.acquire(ctx); err != nil {
		return false, err
	}
	defer db.release()
	db.opt.Pause(PointLocked)
	if db.opt.RunTwice {
		// Whatever the first run met, the second one meets and reports.
		_, _ = db.run(fn, false)
	}
	return db.run(fn, true)
}

// run runs fn in one transaction, and rolls it back unless it is to be kept and
// went well. The lock is held.
func (db *DB) run(fn func(engine.Tx) error, keep bool) (notify bool, err error) {
	t := &tx{db: db, rows: &db.rows, write: true}
	done := false
	defer func() {
		if !done { // an error, a panic, or a run that is not kept
			t.rollback()
		}
		t.over = true
	}()
	if err := fn(t); err != nil || !keep {
		return false, err
	}
	db.opt.Pause(PointCommit)
	if db.opt.BeforeCommit != nil {
		if err := db.opt.BeforeCommit(); err != nil {
			return false, err
		}
	}
	done = true
	return t.wake, nil
}

// Append is Update: there is one writer.
func (db *DB) Append(ctx context.Context, fn func(engine.Tx) error) error { return db.Update(ctx, fn) }

// View runs fn on rows that nobody changes meanwhile.
func (db *DB) View(ctx context.Context, fn func(engine.Tx) error) error {
	if err := db.view(ctx, fn); err != nil {
		return err
	}
	db.opt.Pause(PointViewed)
	return nil
}

func (db *DB) view(ctx context.Context, fn func(engine.Tx) error) error {
	if err := db.acquire(ctx); err != nil {
		return err
	}
	defer db.release()
	t := &tx{db: db, rows: &db.rows}
	defer func() { t.over = true }()
	return fn(t)
}

func (db *DB) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-db.lock: // nearly always, and cheaper to ask alone
	default:
		select {
		case <-db.lock:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if db.closed {
		db.release()
		return store.ErrClosed
	}
	return nil
}

func (db *DB) release() { db.lock <- struct{}{} }

// Overlaps is false.
func (db *DB) Overlaps() bool { return false }

// Told is false: a look costs little here.
func (db *DB) Told() bool { return false }

// Peek is View.
func (db *DB) Peek(ctx context.Context, fn func(engine.Tx) error) error { return db.View(ctx, fn) }

// Alive answers with Options.Alive.
func (db *DB) Alive(w store.Worker) engine.Liveness {
	if db.opt.Alive == nil {
		return engine.Unknown
	}
	return db.opt.Alive(w)
}

// SeesDeaths reports whether there is an Options.Alive.
func (db *DB) SeesDeaths() bool { return db.opt.Alive != nil }

// Watch returns a channel that gets a value after each update that called for it
// (engine.Tx.Notify). It stays silent once ctx has ended.
func (db *DB) Watch(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	db.mu.Lock()
	db.watchers = append(db.watchers, ch)
	db.mu.Unlock()
	context.AfterFunc(ctx, func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.watchers = slices.DeleteFunc(db.watchers, func(c chan struct{}) bool { return c == ch })
	})
	return ch
}

func (db *DB) signal() {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, ch := range db.watchers {
		select {
		case ch <- struct{}{}:
		default: // it has not yet looked at the last one
		}
	}
}

// Close waits for the transaction under way; later ones get store.ErrClosed.
func (db *DB) Close() error {
	<-db.lock
	defer db.release()
	db.closed = true
	return nil
}
