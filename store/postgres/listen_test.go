package postgres

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

// TestJ4_ForeignCommitIsFound: a caller's transaction commits, which notifies nobody.
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

// TestIdleWatchersAskNothing: while the listener hears, those who watch look once in
// lookAnyway, and the store asks the server nothing in between.
func TestIdleWatchersAskNothing(t *testing.T) {
	r := newRig(t)
	r.register("w")
	c := new(trips)
	st := c.open(t, r.dsn)
	watch := st.Watch(r.ctx())
	r.soon("listening", func() bool { st.db.hub.mu.Lock(); defer st.db.hub.mu.Unlock(); return !st.db.hub.deaf })
	<-watch // what was said meanwhile was not heard
	for round := range 4 {
		<-watch
		if sql := c.take(); round > 0 && len(sql) > 0 { // the first one may have begun before
			t.Errorf("between two looks the server was asked:\n%s", strings.Join(sql, "\n"))
		}
		_, err := st.Claim(r.ctx(), r.request("w", 1))
		r.must(err)
		if sql := c.take(); len(sql) != 1 {
			t.Errorf("a look took %d trips, want 1:\n%s", len(sql), strings.Join(sql, "\n"))
		}
	}
}

// dials is a tracer that tells of connections that could not be made.
type dials struct {
	trips
	failed chan struct{}
}

func (d *dials) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	return ctx
}

func (d *dials) TraceConnectEnd(_ context.Context, c pgx.TraceConnectEndData) {
	if c.Err != nil {
		select {
		case d.failed <- struct{}{}:
		default:
		}
	}
}

// TestFailedNotificationIsToldAgain: the network failed, and nobody else makes up for it.
func TestFailedNotificationIsToldAgain(t *testing.T) {
	r := newRig(t)
	link := pgtest.Proxy(t, r.dsn)
	d := &dials{failed: make(chan struct{}, 1)}
	st := openWith(t, link.DSN(), func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = d }) // it has no connection yet
	others := r.ears()
	link.Refuse()
	st.db.hub.tell()
	<-d.failed
	link.Pass()
	others.hear("after", st)
}

// TestNotificationsWaitForOthers: a NOTIFY waits for whoever else notifies until that
// one has committed, which may take long where a commit waits for another machine.
func TestNotificationsWaitForOthers(t *testing.T) {
	pg := pgtest.Server(t, pgtest.Options{Conf: map[string]string{"synchronous_standby_names": "nobody", "synchronous_commit": "local", "wal_level": "replica", "max_wal_senders": "1"}})
	r := rigOn(t, pg.DSN("penstock"))
	conn, err := pgx.Connect(r.ctx(), r.plain)
	r.must(err)
	committed := make(chan error, 1)
	go func() {
		_, err := conn.Exec(r.ctx(), `SET synchronous_commit = on; CREATE TABLE written (); NOTIFY another`)
		committed <- err
	}()
	pid := int32(conn.PgConn().PID())
	r.soon("a commit waits for another machine", func() bool {
		return value[bool](r, `SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = $1`, pid)
	})
	hears, err := pgx.Connect(r.ctx(), r.plain)
	r.must(err)
	_, err = hears.Exec(r.ctx(), `LISTEN `+quote(r.schema))
	r.must(err)
	r.insert(newJob())
	r.soon("a notification waits for it", func() bool {
		return value[bool](r, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)) AND clock_timestamp() - query_start > interval '100 ms')`, pid)
	})
	r.exec(`SELECT pg_cancel_backend($1)`, pid) // which gives up the waiting only
	r.must(<-committed)
	_, err = hears.WaitForNotification(r.ctx())
	r.must(err)
	r.must(conn.Close(r.ctx()))
	r.must(hears.Close(r.ctx()))
}

// TestDeafWatchersLookAtOnce: who was to look once in a second looks every lookEvery from
// the moment on at which nothing can be heard any more.
func TestDeafWatchersLookAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(nil, nil, 1)
		watch := h.watch(t.Context())
		h.setDeaf(false)
		<-watch
		began := time.Now()
		<-time.After(10 * time.Millisecond)
		h.setDeaf(true)
		<-watch
		if took := time.Since(began); took > lookEvery+10*time.Millisecond {
			t.Errorf("the first look came after %v, want it within %v", took, lookEvery)
		}
		h.stop()
		h.wg.Wait()
	})
}
