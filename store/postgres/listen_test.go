package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/engine"
)

// listener is a store that watches, and one that makes something startable.
type listener struct {
	*rig
	watch  <-chan struct{}
	here   *Store
	other  *Store
	listen func(but int32) int32 // a backend that listens, but that one; 0 if there is none
}

func newListener(t *testing.T, r *rig, dsn string) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	l := &listener{rig: r, here: r.open(dsn), other: r.open(r.dsn)}
	l.watch = l.here.Watch(ctx)
	l.listen = func(but int32) int32 {
		rows, err := r.pool.Query(r.ctx(), `SELECT pid FROM pg_stat_activity WHERE application_name = $2 AND datname = current_database() AND query <> '' AND pid <> $1`, but, listenerName(r.schema))
		r.must(err)
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		r.must(err)
		if len(pids) == 0 {
			return 0
		}
		return pids[0]
	}
	return l
}

// quiet waits until nothing has been signalled for a while.
func (l *listener) quiet(d time.Duration) {
	for {
		select {
		case <-l.watch:
		case <-time.After(d):
			return
		}
	}
}

// opens makes something startable in the other store, by a transaction that leaves
// no row to be found: it must be told of.
func (l *listener) opens() {
	l.t.Helper()
	l.must(l.other.db.Update(l.ctx(), func(t engine.Tx) error {
		if err := t.SetCounter("x", 1); err != nil {
			return err
		}
		return t.Notify()
	}))
}

// heard waits for a signal, which comes soon or never.
func (l *listener) heard(what string) {
	l.t.Helper()
	began := time.Now()
	select {
	case <-l.watch:
		l.t.Logf("%s: heard after %v", what, time.Since(began))
	case <-time.After(15 * time.Second):
		l.t.Errorf("%s: not heard", what)
	}
}

// TestJ4_ListenerCut: it hears again soon, and meanwhile whoever watches looks
// without being told.
func TestJ4_ListenerCut(t *testing.T) {
	r := newRig(t)
	l := newListener(t, r, r.dsn)
	l.soon("listening", func() bool { return l.listen(0) != 0 })
	l.quiet(300 * time.Millisecond)
	l.opens()
	l.heard("before")
	first := l.listen(0)
	r.exec(`SELECT pg_terminate_backend($1)`, first)
	l.opens()
	l.heard("cut")
	l.soon("listening again", func() bool { return l.listen(first) != 0 })
	l.quiet(300 * time.Millisecond)
	l.opens()
	l.heard("after")
}

// TestJ4_ListenerSilentlyDead: the network has forgotten its connection, and says nothing.
func TestJ4_ListenerSilentlyDead(t *testing.T) {
	r := newRig(t)
	link := pgtest.Proxy(t, r.dsn)
	l := newListener(t, r, link.DSN())
	l.soon("listening", func() bool { return l.listen(0) != 0 })
	first := l.listen(0)
	link.Swallow()
	hub := l.here.db.hub
	l.soon("deaf", func() bool { hub.mu.Lock(); defer hub.mu.Unlock(); return hub.deaf })
	link.Pass() // new connections work
	l.quiet(200 * time.Millisecond)
	l.opens()
	l.heard("silent")
	l.soon("listening again", func() bool { return l.listen(first) != 0 })
}

// TestJ4_NotificationLost: a process was killed between its commit and its
// notification. Nobody is told, and those who watch look all the same.
func TestJ4_NotificationLost(t *testing.T) {
	r := newRig(t)
	l := newListener(t, r, r.dsn)
	l.soon("listening", func() bool { return l.listen(0) != 0 })
	l.other.db.hub.stop() // it notifies nobody any more
	l.quiet(300 * time.Millisecond)
	l.opens()
	l.heard("lost")
}

// TestJ4_ListenerInOpenTransaction: somebody listens and then sits in a transaction, so that
// the server keeps all notifications. Inserts and claims go on.
func TestJ4_ListenerInOpenTransaction(t *testing.T) {
	r := newRig(t)
	g := r.pgxGuest("REPEATABLE READ")
	r.must(g.exec(`LISTEN ` + quote(r.schema)))
	r.must(g.commit())
	g = r.pgxGuest("REPEATABLE READ")
	r.must(g.exec(`LISTEN ` + quote(r.schema)))
	r.register("w")
	for range 20 {
		r.insert(newJob())
	}
	if n := r.drain("w"); n != 20 {
		t.Errorf("%d jobs ended, want 20", n)
	}
}

// TestJ4_ForeignCommitIsFound: a caller's transaction commits, and nobody notifies.
func TestJ4_ForeignCommitIsFound(t *testing.T) {
	r := newRig(t)
	l := newListener(t, r, r.dsn)
	l.soon("listening", func() bool { return l.listen(0) != 0 })
	g := r.pgxGuest("READ COMMITTED")
	_, err := r.within(g.tx, newJob())
	r.must(err)
	l.quiet(300 * time.Millisecond)
	r.must(g.commit())
	l.heard("foreign commit")
}
