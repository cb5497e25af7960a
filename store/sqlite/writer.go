package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

const (
	// busyFor is how long an update waits for others before it gives up.
	busyFor = 30 * time.Second
	// groupFor bounds how long updates are gathered into one transaction, and so
	// how long another process waits for its turn.
	groupFor = 4 * time.Millisecond
)

// writer runs all updates of a process on one connection, in one goroutine.
// Updates that wait at the same time share a commit: one sync of the disk serves
// them all.
type writer struct {
	conn  *conn
	turn  *turnstile
	live  *live
	clock func() int64
	same  func() error  // an error if the path does not lead to the open file any more
	wake  chan struct{} // there are requests
	done  chan struct{} // the goroutine ended
	tell  func()        // called after a commit that made something startable

	mu     sync.Mutex
	queue  []*request
	giveUp context.CancelFunc // ends the wait for the lock; nil while there is none
	closed bool
}

// request is an update on its way.
type request struct {
	ctx   context.Context
	fn    func(engine.Tx) error
	since time.Time
	err   error
	ready chan struct{} // closed when err is the answer
}

func newWriter(c *conn, turn *turnstile, l *live, clock func() int64) *writer {
	return &writer{conn: c, turn: turn, live: l, clock: clock, same: func() error { return nil }, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (w *writer) update(ctx context.Context, fn func(engine.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{ctx: ctx, fn: fn, since: time.Now(), ready: make(chan struct{})}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return store.ErrClosed
	}
	w.queue = append(w.queue, r)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	select {
	case <-r.ready:
		return r.err
	case <-ctx.Done():
		if w.withdraw(r) {
			return ctx.Err()
		}
		<-r.ready // begun: the answer is the commit's
		return r.err
	}
}

// withdraw takes a request back that was not begun.
func (w *writer) withdraw(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, q := range w.queue {
		if q == r {
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			if len(w.queue) == 0 && w.giveUp != nil {
				w.giveUp() // nobody is left to wait for
			}
			return true
		}
	}
	return false
}

// next takes the first request that was not withdrawn.
func (w *writer) next() *request {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return nil
	}
	r := w.queue[0]
	w.queue = w.queue[1:]
	return r
}

// oldest is when the first request in line came.
func (w *writer) oldest() (since time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return time.Time{}, false
	}
	return w.queue[0].since, true
}

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// close lets the updates under way end and refuses new ones.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	<-w.done
}

// loop ends when the writer is closed and nothing waits.
func (w *writer) loop() {
	defer close(w.done)
	for {
		since, ok := w.oldest()
		if !ok {
			if w.isClosed() {
				return
			}
			<-w.wake
			continue
		}
		ctx, done := w.waiting(since)
		err := w.begin(ctx)
		cancelled := errors.Is(ctx.Err(), context.Canceled)
		if done(); err != nil {
			if !cancelled {
				w.refuse(err)
			}
			continue
		}
		again := w.group()
		if err := w.turn.leave(); err != nil {
			w.refuse(err)
		}
		for _, r := range again {
			r.answer(w.alone(r))
		}
	}
}

// refuse answers the first request in line, whose time to wait it was.
func (w *writer) refuse(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no turn within %v", store.ErrBusy, busyFor)
	}
	if r := w.next(); r != nil {
		r.answer(err)
	}
}

func (r *request) answer(err error) {
	r.err = err
	close(r.ready)
}

// begin waits for the turn and for SQLite's lock.
func (w *writer) begin(ctx context.Context) error {
	if err := w.turn.enter(ctx); err != nil {
		return err
	}
	err := w.same()
	if err == nil {
		err = beginImmediate(ctx, w.conn)
	}
	if err != nil {
		return errors.Join(err, w.turn.leave())
	}
	return nil
}

// waiting is the context of begin on behalf of those who wait since then. It ends
// when they have waited too long, and when none of them waits any more.
func (w *writer) waiting(since time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadline(context.Background(), since.Add(busyFor))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.giveUp = cancel; len(w.queue) == 0 {
		cancel()
	}
	return ctx, func() {
		w.mu.Lock()
		w.giveUp = nil
		w.mu.Unlock()
		cancel()
	}
}

// beginImmediate begins a write transaction. Who stands in the way takes no part
// in the turnstile (a program's own transaction, a shell) and tells nobody when
// it is done: look again soon, at no fixed beat.
func beginImmediate(ctx context.Context, c *conn) error {
	return whileBusy(ctx, func() error { return c.exec(`BEGIN IMMEDIATE`) })
}

// whileBusy repeats what was refused since somebody else holds a lock.
func whileBusy(ctx context.Context, do func() error) error {
	for {
		err := do()
		if !isBusy(err) {
			return err
		}
		t := time.NewTimer(time.Millisecond + rand.N(time.Millisecond))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// group runs the requests in line within the transaction begun. If all goes well
// they share its commit. If anything fails, all is rolled back, and each is to run
// again alone: nobody gets another one's error.
func (w *writer) group() (again []*request) {
	t := w.newTx()
	var group []*request
	var err error
	for end := time.Now().Add(groupFor); err == nil && (len(group) == 0 || time.Now().Before(end)); {
		r := w.next()
		if r == nil {
			break
		}
		group = append(group, r)
		err = run(t, r.fn)
	}
	if err = w.end(t, err); err != nil && len(group) > 1 {
		return group
	}
	for _, r := range group {
		r.answer(err)
	}
	return nil
}

// alone runs one request in a turn and a transaction of its own.
func (w *writer) alone(r *request) error {
	ctx, cancel := context.WithTimeout(context.Background(), busyFor)
	defer cancel()
	if err := w.begin(ctx); err != nil {
		return err
	}
	t := w.newTx()
	err := w.end(t, run(t, r.fn))
	_ = w.turn.leave() // if it failed, so will the next turn, and say so
	return err
}

// end commits, or rolls back if there was an error.
func (w *writer) end(t *tx, err error) error {
	if err != nil {
		return errors.Join(err, w.rollback())
	}
	return w.commit(t)
}

func (w *writer) newTx() *tx { return &tx{link: w.conn, clock: w.clock, live: w.live} }

// commit ends the transaction. Workers' locks are taken before it, given back
// after it.
func (w *writer) commit(t *tx) error {
	for _, id := range t.registered {
		if err := w.live.register(id); err != nil {
			return errors.Join(fmt.Errorf("lock that tells that worker %q lives: %w", id, err), w.rollback())
		}
	}
	if err := w.conn.exec(`COMMIT`); err != nil {
		return errors.Join(err, w.rollback())
	}
	for _, id := range t.dropped {
		_ = w.live.drop(id) // committed: a lock kept too long only makes a forgotten worker look alive
	}
	if t.notified {
		w.tell()
	}
	return nil
}

// rollback ends the transaction unless SQLite did so already, as it does on some
// errors of the disk.
func (w *writer) rollback() error {
	err := w.conn.exec(`ROLLBACK`)
	if err != nil && code(err) == codeError {
		return nil // "cannot rollback - no transaction is active"
	}
	return err
}

// run turns a panic into an error: the writer serves others too.
func run(t engine.Tx, fn func(engine.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a transaction: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(t)
}
