package sqlite

import (
	"context"
	"sync"
	"time"
)

// lookAfter is how long the file is left alone before it is asked for other
// processes' commits again: the longer nothing happened, the longer, since waking
// up costs more than looking. It stays below the 100 ms that Watch promises.
func lookAfter(quiet time.Duration) time.Duration {
	switch {
	case quiet < time.Second:
		return 5 * time.Millisecond
	case quiet < 10*time.Second:
		return 20 * time.Millisecond
	}
	return 50 * time.Millisecond
}

// The looks after the kernel told of a write. A commit shows a moment after its
// writes, when they are on the disk, which may take long on a busy one. Then the
// file is left alone until the next write, or for a while, in case the kernel does
// not always tell.
const (
	lookFirst  = 3 * time.Millisecond
	lookGrowth = 3
	lookMost   = 50 * time.Millisecond
	lookFor    = 2 * time.Second
	lookAnyway = time.Second
)

// watcher tells those who watch of commits that made something startable: this
// process's own at once, and others by asking SQLite for the file's data version
// (a few microseconds), and, when that moved, for the count of such commits.
type watcher struct {
	conn *conn // nobody else's, for the version is relative to it
	path string
	own  chan struct{} // this process committed
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	started bool
	subs    map[chan struct{}]struct{}
}

func newWatcher(c *conn, path string) *watcher {
	return &watcher{conn: c, path: path, own: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), subs: map[chan struct{}]struct{}{}}
}

// watch subscribes until ctx ends. The poll begins with the first subscriber.
func (w *watcher) watch(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	w.subs[ch] = struct{}{}
	if !w.started {
		w.started = true
		go w.loop()
	}
	w.mu.Unlock()
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		delete(w.subs, ch)
		w.mu.Unlock()
	})
	return ch
}

// committed says that this process committed what others may wait for. It never
// blocks.
func (w *watcher) committed() {
	select {
	case w.own <- struct{}{}:
	default:
	}
}

func (w *watcher) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (w *watcher) loop() {
	defer close(w.done)
	last, told := int64(-1), int64(-1) // so the first look tells: somebody may have committed meanwhile
	count := int64(0)
	active := time.Now()
	wal := watchWAL(w.path)
	defer wal.close()
	next, written := time.Duration(0), time.Time{} // the next look after a write the kernel told of; 0: it has told of none
	timer := time.NewTimer(lookAfter(0))
	defer timer.Stop()
	for {
		own := false
		select {
		case <-w.stop:
			return
		case <-w.own:
			own = true
		case <-wal.channel():
			next, written = lookFirst, time.Now()
		case <-timer.C:
		}
		// The version is read before anybody is told: what others commit after the
		// reading shows at the next one, and what they committed before it is seen by
		// those who are told now. An error is news too: whoever looks will meet it.
		version, err := w.version()
		if err == nil && version != last {
			active = time.Now()
			count, err = w.count()
		}
		if own || err != nil || count != told {
			w.tell()
		}
		last, told = version, count
		switch {
		case next == 0:
			timer.Reset(lookAfter(time.Since(active)))
		case time.Since(written) > lookFor:
			timer.Reset(lookAnyway)
		default:
			timer.Reset(next)
			next = min(next*lookGrowth, lookMost)
		}
	}
}

func (w *watcher) version() (v int64, err error) {
	_, err = one(w.conn, func(r row) { v = r.int(0) }, `PRAGMA data_version`)
	return v, err
}

// count is how many commits made something startable.
func (w *watcher) count() (n int64, err error) {
	_, err = one(w.conn, func(r row) { n = r.int(0) }, `SELECT value FROM penstock_counter WHERE name = 'notify'`)
	return n, err
}

func (w *watcher) close() error {
	w.mu.Lock()
	started := w.started
	w.started = true // no poll begins any more
	w.mu.Unlock()
	if started {
		close(w.stop)
		<-w.done
	}
	return w.conn.close()
}
