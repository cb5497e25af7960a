package pgtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/internal/pgtest"
)

// ask runs a query of one number.
func ask(t *testing.T, conn *pgx.Conn, sql string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// hangs runs a statement that nobody answers, until lost says so, or, if there
// is no such signal, for a moment.
func hangs(t *testing.T, conn *pgx.Conn, sql string, lost <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	if lost == nil {
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	} else {
		go func() { <-lost; cancel() }()
	}
	defer cancel()
	if _, err := conn.Exec(ctx, sql); ctx.Err() == nil || err == nil {
		t.Errorf("%s: %v, want it to hang", sql, err)
	}
}

func TestProxySwallows(t *testing.T) {
	db := pgtest.DSN(t)
	direct := connect(t, db)
	link := pgtest.Proxy(t, db)
	first, second := connect(t, link.DSN()), connect(t, link.DSN())
	ask(t, first, `SELECT 1`)

	hangs(t, first, `CREATE TABLE a ()`, link.Swallow())
	link.Pass()
	ask(t, second, `SELECT 1`) // it lost nothing
	ask(t, connect(t, link.DSN()), `SELECT 1`)
	if n := ask(t, direct, `SELECT count(*) FROM pg_class WHERE relname = 'a'`); n != 0 {
		t.Error("the server got what was swallowed")
	}
}

func TestProxySwallowsAnswers(t *testing.T) {
	db := pgtest.DSN(t)
	direct := connect(t, db)
	link := pgtest.Proxy(t, db)
	hangs(t, connect(t, link.DSN()), `CREATE TABLE a ()`, link.SwallowAnswers())
	if n := ask(t, direct, `SELECT count(*) FROM pg_class WHERE relname = 'a'`); n != 1 {
		t.Error("an answer was lost before the work was done")
	}
}

func TestProxyCutsAndRefuses(t *testing.T) {
	link := pgtest.Proxy(t, pgtest.DSN(t))
	conn := connect(t, link.DSN())
	link.Cut()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection lives that was cut")
	}
	ask(t, connect(t, link.DSN()), `SELECT 1`)
	link.Refuse()
	if _, err := pgx.Connect(t.Context(), link.DSN()); err == nil {
		t.Error("a connection came through")
	}
	link.Pass()
	ask(t, connect(t, link.DSN()), `SELECT 1`)
}

func TestProxyDelays(t *testing.T) {
	link := pgtest.Proxy(t, pgtest.DSN(t))
	conn := connect(t, link.DSN())
	const late = 30 * time.Millisecond
	link.Delay(late)
	begun := time.Now()
	ask(t, conn, `SELECT 1`)
	if took := time.Since(begun); took < 2*late {
		t.Errorf("an answer took %v, want there and back to be %v late each", took, late)
	}
}

func TestFreeze(t *testing.T) {
	s := pgtest.Server(t, pgtest.Options{})
	conn, other := connect(t, s.DSN("penstock")), connect(t, s.DSN("penstock"))
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := pgx.Connect(ctx, s.DSN("penstock")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen server took a connection, or refused it: %v", err)
	}
	hangs(t, conn, `CREATE TABLE a ()`, nil)
	s.Thaw()
	ask(t, other, `SELECT 1`)
	s.Freeze()
	s.Restart(pgtest.Immediate)
	ask(t, connect(t, s.DSN("penstock")), `SELECT 1`)
}

func TestBouncerPoolsTransactions(t *testing.T) {
	pooled := pgtest.Bouncer(t, pgtest.DSN(t)) + "&default_query_exec_mode=exec"
	a := connect(t, pooled)
	if _, err := a.Exec(t.Context(), `SET application_name = 'a'`); err != nil {
		t.Fatal(err)
	}
	pid := ask(t, a, `SELECT pg_backend_pid()`)
	if other := ask(t, connect(t, pooled), `SELECT pg_backend_pid()`); other != pid {
		t.Errorf("backend %d, want %d, which no transaction holds", other, pid)
	}
}
