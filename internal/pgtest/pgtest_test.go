package pgtest_test

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock/internal/pgtest"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestDSNGivesEmptyDatabases(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), `CREATE TABLE a (b int)`); err != nil {
		t.Fatal(err)
	}
	var tables int
	err = connect(t, pgtest.DSN(t)).QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relname = 'a'`).Scan(&tables)
	if err != nil || tables != 0 {
		t.Errorf("another database has %d tables named a, %v", tables, err)
	}
}

// The pipe to the watchdog was garbage once, and the server ended in the middle
// of the tests.
func TestSharedServerOutlivesGarbageCollection(t *testing.T) {
	db := pgtest.DSN(t)
	runtime.GC()
	runtime.GC() // what the first one finalizes
	conn := connect(t, db)
	if err := conn.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServerCrashes(t *testing.T) {
	s := pgtest.Server(t, pgtest.Options{Conf: map[string]string{"fsync": "on"}})
	conn := connect(t, s.DSN("penstock"))
	if _, err := conn.Exec(t.Context(), `CREATE TABLE a (b int)`); err != nil {
		t.Fatal(err)
	}
	s.Restart(pgtest.Immediate)
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection outlived its server")
	}
	var n int
	if err := connect(t, s.SocketDSN("penstock")).QueryRow(t.Context(), `SELECT count(*) FROM a`).Scan(&n); err != nil {
		t.Errorf("what was committed is gone: %v", err)
	}
}

// Nothing may lean on an order, or a zone, that only some servers have.
func TestDSNIsNotWhatAnybodyHasByChance(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	var icu, byLetters bool
	var offset int
	err := conn.QueryRow(t.Context(), `SELECT
		current_setting('server_version_num')::int >= 150000 AND EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i'),
		'a' < 'B', extract(timezone FROM now())::int`).Scan(&icu, &byLetters, &offset)
	if err != nil {
		t.Fatal(err)
	}
	if icu && !byLetters {
		t.Error("text is in the order of bytes")
	}
	if os.Getenv(pgtest.Env) == "" && offset%3600 == 0 { // somebody's own server has what it has
		t.Errorf("the server's zone is %d s off, want no whole hours", offset)
	}
}

func TestManyDatabasesAtOnce(t *testing.T) {
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			if err := connect(t, pgtest.DSN(t)).Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
