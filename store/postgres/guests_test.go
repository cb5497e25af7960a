package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// ears listen as another process does, and look at nothing: what they hear was told.
type ears struct {
	r    *rig
	conn *pgx.Conn
}

func (r *rig) ears() *ears {
	r.t.Helper()
	conn, err := pgx.Connect(r.ctx(), r.plain)
	r.must(err)
	r.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(r.ctx(), `LISTEN `+quote(r.schema))
	r.must(err)
	return &ears{r, conn}
}

// hear waits until the store has told something.
func (e *ears) hear(what string, st *Store) {
	e.r.t.Helper()
	for {
		note, err := e.conn.WaitForNotification(e.r.ctx())
		if err != nil {
			e.r.t.Fatalf("%s: %v", what, err)
		}
		if note.Payload == st.db.hub.self {
			return
		}
	}
}

// commitsAndTells enqueues in a caller's transaction, commits it, and waits until others
// have heard of that.
func (r *rig) commitsAndTells(g *guest, others *ears, what string) {
	r.t.Helper()
	_, err := r.within(g.tx, newJob())
	r.must(err)
	r.must(g.commit())
	others.hear(what, r.st)
}

// asked returns how many callers' transactions the store asks about.
func (s *Store) asked() int {
	g := &s.db.hub.guests
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}

// TestCommitOfCallersTransactionIsTold: by the process that enqueued in it, which need
// not watch itself. Of one that is rolled back nothing is told.
func TestCommitOfCallersTransactionIsTold(t *testing.T) {
	eachGuest(t, func(t *testing.T, r *rig, begin func() *guest, _ string) {
		others := r.ears()
		one, two := begin(), begin()
		r.must(two.exec(`SAVEPOINT theirs`))
		for _, g := range []*guest{one, one, two} {
			_, err := r.within(g.tx, newJob())
			r.must(err)
		}
		if n := r.st.asked(); n != 2 {
			t.Fatalf("%d transactions are asked about, want 2", n)
		}
		r.st.db.Told() // when new lanes were made
		r.must(two.exec(`RELEASE SAVEPOINT theirs`))
		r.must(two.commit())
		others.hear("one of two", r.st)
		r.soon("the one that is open is asked about", func() bool { return r.st.asked() == 1 })
		if !r.st.db.Told() {
			t.Error("this process itself was not told")
		}
		r.must(one.rollback())
		r.soon("none is asked about", func() bool { return r.st.asked() == 0 })
		if r.st.db.Told() {
			t.Error("a rollback was told")
		}
		r.commitsAndTells(begin(), others, "one more")
	})
}

// TestTransactionsThatEnqueueNothing: they are not asked about, and given no id.
func TestTransactionsThatEnqueueNothing(t *testing.T) {
	r := newRig(t)
	g := r.pgxGuest("READ COMMITTED")
	r.must(r.st.Within(r.ctx(), g.tx, func(tx engine.Tx) error { _, err := tx.Now(); return err }))
	failed := errors.New("failed")
	if err := r.st.Within(r.ctx(), g.tx, func(tx engine.Tx) error { return errors.Join(failed, tx.Notify()) }); !errors.Is(err, failed) {
		t.Errorf("%v, want what the function returned", err)
	}
	if n := r.st.asked(); n != 0 {
		t.Errorf("%d transactions are asked about, want none", n)
	}
	var none bool
	r.must(g.tx.(pgx.Tx).QueryRow(r.ctx(), `SELECT pg_current_xact_id_if_assigned() IS NULL`).Scan(&none))
	if !none {
		t.Error("the transaction got an id")
	}
}

// TestCloseTellsWhatIsLeft: a program enqueues, commits, and ends at once. One whose
// transaction is still open leaves it to those who look.
func TestCloseTellsWhatIsLeft(t *testing.T) {
	r := newRig(t)
	others := r.ears()
	for range 10 {
		st := r.open(r.dsn)
		_, err := st.Insert(r.ctx(), []store.NewJob{newJob()})
		r.must(err)
		r.must(st.Close())
		others.hear("enqueued", st)
	}
	insert := func(st *Store, g *guest) {
		r.must(st.Within(r.ctx(), g.tx, func(tx engine.Tx) error {
			_, err := engine.Insert(tx, []store.NewJob{newJob()})
			return err
		}))
	}
	for range 10 {
		st, g := r.open(r.dsn), r.pgxGuest("READ COMMITTED")
		insert(st, g)
		r.must(g.commit())
		r.must(st.Close())
		others.hear("enqueued in a transaction", st)
	}
	st, g := r.open(r.dsn), r.pgxGuest("READ COMMITTED")
	insert(st, g)
	r.must(st.Close())
	insert(r.st, g) // another store's
	r.must(g.commit())
	others.hear("the other one", r.st)
	st.db.hub.guests.add("1")
	if n := st.asked(); n != 1 { // the one that was open
		t.Errorf("%d transactions, want 1: a closed store takes no more", n)
	}
}

// TestCallersTransactionsAndRestarts: the server crashes, and nobody knows what became of
// a transaction. It is asked again until it answers, and all goes on as before.
func TestCallersTransactionsAndRestarts(t *testing.T) {
	pg := pgtest.Server(t, pgtest.Options{})
	r := rigOn(t, pg.DSN("penstock"))
	_, err := r.within(r.pgxGuest("READ COMMITTED").tx, newJob())
	r.must(err)
	pg.Stop(pgtest.Immediate)
	if n := r.st.asked(); n != 1 {
		t.Errorf("%d transactions are asked about while the server is away, want 1", n)
	}
	pg.Start()
	r.soon("its end is known", func() bool { return r.st.asked() == 0 })
	r.pool.Reset()
	r.commitsAndTells(r.pgxGuest("READ COMMITTED"), r.ears(), "after the restart")
}

// TestIDsOfAnotherServer: after a failover the server may not know a transaction's id. All
// are told of, in case they committed, rather than asked about for ever.
func TestIDsOfAnotherServer(t *testing.T) {
	r := newRig(t)
	g := r.pgxGuest("READ COMMITTED")
	_, err := r.within(g.tx, newJob())
	r.must(err)
	r.st.db.Told() // when a new lane was made
	r.st.db.hub.guests.add("9000000000000000")
	r.soon("none is asked about", func() bool { return r.st.asked() == 0 })
	if !r.st.db.Told() {
		t.Error("nothing was told")
	}
	r.st.db.hub.guests.add("1") // so long ago that nobody knows
	r.soon("none is asked about", func() bool { return r.st.asked() == 0 })
}

// TestAskedForLong: a transaction that is open for very long is left to those who look,
// and so are more than can be asked about.
func TestAskedForLong(t *testing.T) {
	r := newRig(t)
	guests := &r.st.db.hub.guests
	_, err := r.within(r.pgxGuest("READ COMMITTED").tx, newJob())
	r.must(err)
	guests.mu.Lock()
	for id := range guests.open {
		guests.open[id] = time.Now()
	}
	guests.mu.Unlock()
	r.soon("it is not asked about any more", func() bool { return r.st.asked() == 0 })

	full := map[string]time.Time{}
	for i := range guestsMost {
		full[string(rune(i+1))] = time.Time{}
	}
	g := guestsOf(t, r)
	g.open = full
	g.asking = true
	g.add("one more")
	if len(g.open) != guestsMost {
		t.Errorf("%d transactions, want %d", len(g.open), guestsMost)
	}
}

// guestsOf are guests that nobody follows.
func guestsOf(t *testing.T, r *rig) *guests {
	t.Helper()
	return &guests{h: r.st.db.hub, came: make(chan struct{}, 1)}
}

// TestCallersTransactionsBehindAPooler: where nobody listens, a process that watches
// tells itself. One that does not has nobody to tell.
func TestCallersTransactionsBehindAPooler(t *testing.T) {
	r := newRig(t)
	pooled, err := Open(r.ctx(), pgtest.Bouncer(t, r.plain), Options{Schema: r.schema, Pooler: true})
	r.must(err)
	t.Cleanup(func() { _ = pooled.Close() })
	insert := func() *guest {
		g := r.pgxGuest("READ COMMITTED")
		r.must(pooled.Within(r.ctx(), g.tx, func(tx engine.Tx) error {
			_, err := engine.Insert(tx, []store.NewJob{newJob()})
			return err
		}))
		return g
	}
	r.must(insert().commit())
	if n := pooled.asked(); n != 0 {
		t.Errorf("%d transactions are asked about, want none", n)
	}
	pooled.Watch(r.ctx())
	g := insert()
	pooled.db.Told()
	r.must(g.commit())
	r.soon("its end is known", func() bool { return pooled.asked() == 0 })
	if !pooled.db.Told() {
		t.Error("it was not told")
	}
}
