package postgres

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// notifyGap is the least time between two notifications of one process: a
	// NOTIFY holds a lock of the whole server until its commit.
	notifyGap = 20 * time.Millisecond
	// lookEvery is how often those who watch look while nothing can be heard.
	lookEvery = 100 * time.Millisecond
	// lookAnyway is how often they look though nothing was heard: whoever made
	// something startable may have been killed before it could tell.
	lookAnyway = time.Second
	// lastWords bounds how long a close waits for what is left to be told.
	lastWords = time.Second
	// listenFor is how long the listener waits before it makes sure that its
	// connection is not dead.
	listenFor = 2 * time.Second
	// aliveWithin is how long it waits for the answer.
	aliveWithin = 500 * time.Millisecond
)

// hub tells those who watch, in this process and in others, that something may be
// startable.
type hub struct {
	d      *db
	listen *pgx.ConnConfig // nil: no listening, as behind a transaction pooler
	self   string          // what this process's notifications say

	mu       sync.Mutex
	watchers map[chan struct{}]bool
	started  bool
	deaf     bool // the listener is not connected
	deafened chan struct{}
	ends     ends        // that this process announced
	minding  *time.Timer // of mindEnds, which runs; nil: it does not

	guests  guests
	fresh   atomic.Bool   // this process told of something lately
	pending chan struct{} // something is to be told to other processes
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

func newHub(d *db, listen *pgx.ConnConfig, self int64) *hub {
	h := &hub{d: d, listen: listen, self: strconv.FormatInt(self, 36), watchers: map[chan struct{}]bool{},
		deaf: true, deafened: make(chan struct{}, 1), pending: make(chan struct{}, 1)}
	h.guests = guests{h: h, open: map[string]time.Time{}, came: make(chan struct{}, 1)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.wg.Go(h.notify)
	return h
}

// start runs fn in a goroutine that close waits for, and reports whether it did: not
// once the hub is being closed. h.mu is held.
func (h *hub) start(fn func()) bool {
	if h.ctx.Err() != nil {
		return false
	}
	h.wg.Go(fn)
	return true
}

// watch registers a channel until ctx ends.
func (h *hub) watch(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	h.watchers[ch] = true
	if !h.started && h.start(h.poll) {
		h.started = true
		if h.listen != nil {
			h.start(h.hear)
		}
	}
	h.mu.Unlock()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, ch)
	})
	return ch
}

// signal tells those of this process.
func (h *hub) signal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// committed takes in what a transaction of this process means to others.
func (h *hub) committed(t *tx) {
	if t.told {
		h.tell()
	}
	if t.took != nil && !t.took.more {
		h.took(t.took.asked)
	}
	if t.ended {
		h.ended()
	}
}

// tell is called after a commit that makes something startable.
func (h *hub) tell() {
	h.fresh.Store(true)
	h.signal()
	if h.listen != nil { // else nobody listens
		h.remember()
	}
}

// remember notes that other processes are to be told.
func (h *hub) remember() {
	select {
	case h.pending <- struct{}{}:
	default:
	}
}

// notify tells other processes, in transactions of its own, until the hub is closed.
// What fails is tried again.
func (h *hub) notify() {
	for gap := notifyGap; ; {
		select {
		case <-h.pending:
		case <-h.ctx.Done():
			return
		}
		if h.say(h.ctx) == nil {
			gap = notifyGap
		} else {
			h.remember()
			gap = min(2*gap, lookAnyway)
		}
		if !h.wait(gap) {
			return
		}
	}
}

// say sends one notification.
func (h *hub) say(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := h.d.others.Exec(ctx, sqlNotify, h.d.schema, h.self)
	return err
}

// sqlNotify waits for its turn to commit longer than the connection's patience with rows.
const sqlNotify = `SELECT set_config('lock_timeout', '1s', true), pg_notify($1, $2)`

// wait reports whether there is a reason to go on.
func (h *hub) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-h.ctx.Done():
		return false
	}
}

// poll tells those who watch to look for themselves: all the time while the listener is
// deaf, else now and then. It asks the server nothing.
func (h *hub) poll() {
	for {
		h.mu.Lock()
		every := lookAnyway
		if h.deaf {
			every = lookEvery
		}
		h.mu.Unlock()
		select {
		case <-time.After(every):
			h.signal()
		case <-h.deafened:
		case <-h.ctx.Done():
			return
		}
	}
}

// hear listens, on a connection of its own, and connects again when it is cut.
func (h *hub) hear() {
	for delay := lookEvery; h.ctx.Err() == nil; delay = min(2*delay, 5*time.Second) {
		if h.hearOnce() {
			delay = lookEvery
		}
		h.setDeaf(true)
		if !h.wait(delay) {
			return
		}
	}
}

func (h *hub) setDeaf(deaf bool) {
	h.mu.Lock()
	was := h.deaf
	h.deaf = deaf
	h.mu.Unlock()
	switch {
	case was && !deaf:
		h.signal() // what was said meanwhile was not heard
	case !was && deaf:
		select {
		case h.deafened <- struct{}{}:
		default:
		}
	}
}

// hearOnce listens until the connection is of no use, and reports whether it ever was.
func (h *hub) hearOnce() (heard bool) {
	ctx, cancel := context.WithTimeout(h.ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, h.listen)
	if err != nil {
		return false
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, `LISTEN `+quote(h.d.schema)); err != nil {
		return false
	}
	h.setDeaf(false)
	for h.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(h.ctx, listenFor)
		note, err := conn.WaitForNotification(ctx)
		cancel()
		switch {
		case err == nil:
			if note.Payload != h.self {
				h.signal()
			}
		case conn.IsClosed() || ctx.Err() == nil:
			return true
		default:
			// A server that became a standby tells nothing any more.
			var standby bool
			ctx, cancel := context.WithTimeout(h.ctx, aliveWithin)
			err := conn.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&standby)
			cancel()
			if err != nil || standby {
				return true
			}
		}
	}
	return true
}

// close stops all goroutines, and then tells what is left to be told: a program may
// enqueue something and end at once. What fails now is left to those who look anyway.
func (h *hub) close() {
	h.mu.Lock()
	h.stop()
	h.mu.Unlock()
	h.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	_ = h.guests.ask(ctx)
	select {
	case <-h.pending:
		_ = h.say(ctx)
	default:
	}
}
