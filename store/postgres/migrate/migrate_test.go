package migrate_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/postgres/migrate"
)

func TestForwardAndBack(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	s := load(t, makeA, makeB, makeC)
	at(t, conn, "penstock", 0)
	to(t, s, conn, "penstock", 2, 2)
	at(t, conn, "penstock", 2, "a", "b")
	to(t, s, conn, "penstock", 2, 0)
	to(t, s, conn, "penstock", 3, 1)
	to(t, s, conn, "penstock", 1, 2)
	at(t, conn, "penstock", 1, "a")
	to(t, s, conn, "penstock", 0, 1)
	at(t, conn, "penstock", 0)
	to(t, s, conn, "penstock", 3, 3)
	at(t, conn, "penstock", 3, "a", "b", "c")
}

func TestSchemasOfOneDatabaseAreApart(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	s := load(t, makeA, makeB)
	to(t, s, conn, "penstock", 2, 2)
	to(t, s, conn, "order", 1, 1) // a word that SQL must see quoted
	at(t, conn, "penstock", 2, "a", "b")
	at(t, conn, "order", 1, "a")
	at(t, conn, "public", 0)
}

func TestAFailingVersionLeavesTheOneBeforeWhole(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	broken := [2]string{`CREATE TABLE c (id int); UPDATE a SET id = 7; SELECT 1/0`, `DROP TABLE b; SELECT 1/0`}
	s := load(t, makeA, makeB, broken)
	done, err := s.Migrate(t.Context(), conn, "penstock", 3)
	if err == nil || len(done) != 2 || !strings.Contains(err.Error(), "schema penstock stays at version 2: 0003_step: ") {
		t.Fatalf("Migrate = %v, %v", done, err)
	}
	at(t, conn, "penstock", 2, "a", "b")
	var id int
	if err := conn.QueryRow(t.Context(), `SELECT id FROM penstock.a`).Scan(&id); err != nil || id != 1 {
		t.Errorf("a.id = %d, %v, want it as version 1 made it", id, err)
	}
	to(t, load(t, makeA, makeB, makeC), conn, "penstock", 3, 1)
	if _, err := s.Migrate(t.Context(), conn, "penstock", 2); err == nil { // the way back fails as well
		t.Error("no error")
	}
	at(t, conn, "penstock", 3, "a", "b", "c")
}

func TestAFirstVersionThatFailsLeavesNothing(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	if _, err := load(t, [2]string{`CREATE TABLE a (); SELECT 1/0`, `SELECT 1`}).Migrate(t.Context(), conn, "penstock", 1); err == nil {
		t.Error("no error")
	}
	var n int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname = 'penstock'`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d schemas, %v", n, err)
	}
}

// Eight begin while the lock is taken, so all of them find nothing done; each
// version is then made once, by one of them.
func TestManyMigrateAtOnce(t *testing.T) {
	const many = 8
	dsn := pgtest.DSN(t)
	gate := connect(t, dsn)
	s := load(t, makeA, makeB, makeC)
	exec(t, gate, `BEGIN`)
	if _, err := gate.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, migrate.LockKey("penstock")); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var steps atomic.Int32
	for range many {
		conn := connect(t, dsn)
		all.Go(func() {
			done, err := s.Migrate(t.Context(), conn, "penstock", 3)
			if err != nil {
				t.Error(err)
			}
			steps.Add(int32(len(done)))
		})
	}
	waiting(t, gate, many)
	exec(t, gate, `COMMIT`)
	all.Wait()
	if n := steps.Load(); n != 3 {
		t.Errorf("%d steps were made, want 3", n)
	}
	at(t, gate, "penstock", 3, "a", "b", "c")
}

// waiting returns when that many wait for a lock.
func waiting(t *testing.T, conn *pgx.Conn, many int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 0; n < many; {
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE NOT granted`).Scan(&n); err != nil {
			t.Fatalf("%d wait for a lock, want %d: %v", n, many, err)
		}
	}
}

func TestAMigrationThatIsCutOffLeavesTheVersionBefore(t *testing.T) {
	dsn := pgtest.DSN(t)
	link := pgtest.Proxy(t, dsn)
	direct, cut := connect(t, dsn), connect(t, link.DSN())
	to(t, load(t, makeA), direct, "penstock", 1, 1)
	exec(t, direct, `BEGIN; LOCK TABLE penstock.a`)
	failed := make(chan error)
	go func() {
		_, err := load(t, makeA, [2]string{`CREATE TABLE b (id int); DROP TABLE a`, `SELECT 1`}).Migrate(t.Context(), cut, "penstock", 2)
		failed <- err
	}()
	waiting(t, direct, 1)
	link.Cut()
	if err := <-failed; err == nil {
		t.Error("no error")
	}
	exec(t, direct, `COMMIT`)
	at(t, direct, "penstock", 1, "a")
	to(t, load(t, makeA, makeB), direct, "penstock", 2, 1)
}

// A forgotten transaction must not make everybody queue up behind a migration.
func TestATableInUseIsNotWaitedForTooLong(t *testing.T) {
	dsn := pgtest.DSN(t)
	forgotten, conn := connect(t, dsn), connect(t, dsn)
	to(t, load(t, makeA), conn, "penstock", 1, 1)
	exec(t, forgotten, `BEGIN; SELECT * FROM penstock.a`)
	migrate.SetLockTimeout(t, 50*time.Millisecond)
	s := load(t, makeA, [2]string{`ALTER TABLE a ADD more int`, `ALTER TABLE a DROP more`})
	_, err := s.Migrate(t.Context(), conn, "penstock", 2)
	if err == nil || !strings.Contains(err.Error(), "stays at version 1: 0002_step: another transaction used a table for longer than 50ms") {
		t.Errorf("Migrate: %v", err)
	}
	exec(t, forgotten, `COMMIT`)
	to(t, s, conn, "penstock", 2, 1)
}

func TestThroughAPoolerOfTransactions(t *testing.T) {
	pooled := pgtest.Bouncer(t, pgtest.DSN(t))
	s := load(t, makeA, makeB, makeC)
	conns := []*pgx.Conn{connect(t, pooled), connect(t, pooled)}
	for i, target := range []int{1, 2, 3, 0, 3, 1} { // by turns, on backends that both use
		if _, err := s.Migrate(t.Context(), conns[i%2], "penstock", target); err != nil {
			t.Fatal(err)
		}
		if v, err := migrate.Version(t.Context(), conns[(i+1)%2], "penstock"); err != nil || v != target {
			t.Errorf("version %d, %v, want %d", v, err, target)
		}
	}
}

func TestANewerDatabaseIsRefused(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	to(t, load(t, makeA, makeB, makeC), conn, "penstock", 3, 3)
	older := load(t, makeA, makeB)
	for _, target := range []int{0, 1, 2} {
		if _, err := older.Migrate(t.Context(), conn, "penstock", target); !errors.Is(err, store.ErrNewerSchema) {
			t.Errorf("Migrate to %d: %v", target, err)
		}
	}
	if err := older.Check(t.Context(), conn, "penstock", ""); !errors.Is(err, store.ErrNewerSchema) {
		t.Errorf("Check: %v", err)
	}
	at(t, conn, "penstock", 3, "a", "b", "c")
}

func TestTablesOfOthersAreRefused(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	exec(t, conn, `CREATE SCHEMA theirs; CREATE TABLE theirs.migration (id int, name text)`)
	s := load(t, makeA)
	if _, err := s.Migrate(t.Context(), conn, "theirs", 1); !errors.Is(err, store.ErrNotOurs) {
		t.Errorf("Migrate: %v", err)
	}
	if err := s.Check(t.Context(), conn, "theirs", ""); !errors.Is(err, store.ErrNotOurs) {
		t.Errorf("Check: %v", err)
	}
}

func TestSQLThatEndsItsTransactionIsRefused(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	_, err := load(t, [2]string{`CREATE TABLE a (); COMMIT`, `SELECT 1`}).Migrate(t.Context(), conn, "penstock", 1)
	if err == nil || !strings.Contains(err.Error(), "ended its transaction") {
		t.Errorf("Migrate: %v", err)
	}
}

// Somebody else made the schema and gave it to the role, which may make no
// schemas; and the role's own timeouts are short.
func TestARoleWithLittle(t *testing.T) {
	srv := pgtest.Server(t, pgtest.Options{})
	super := connect(t, srv.SuperDSN("penstock"))
	exec(t, super, `CREATE SCHEMA given AUTHORIZATION tester; ALTER DATABASE penstock OWNER TO postgres;
		REVOKE ALL ON DATABASE penstock FROM tester, PUBLIC; GRANT CONNECT ON DATABASE penstock TO tester;
		ALTER ROLE tester SET statement_timeout = '50ms'; ALTER ROLE tester SET default_transaction_read_only = on;
		ALTER ROLE tester SET default_transaction_isolation = 'serializable'`)
	conn := connect(t, srv.DSN("penstock"))
	slow := [2]string{`SELECT pg_sleep(0.1); CREATE TABLE a (id int)`, `DROP TABLE a`}
	to(t, load(t, slow), conn, "given", 1, 1)
	at(t, conn, "given", 1, "a")
	if _, err := load(t, slow).Migrate(t.Context(), conn, "penstock", 1); err == nil || !strings.Contains(err.Error(), "0001_step: the role may not do that") {
		t.Errorf("a schema that the role may not make: %v", err)
	}
}
