package postgres_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/postgres"
)

// opened makes the tables in the database and opens a store on it.
func opened(t *testing.T, dsn string) *postgres.Store {
	t.Helper()
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// session is a connection of another program.
func session(t *testing.T, dsn, application string) *pgx.Conn {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", application)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	c, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func run(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func examine(t *testing.T, s *postgres.Store) postgres.Condition {
	t.Helper()
	c, err := s.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestJ2_TheOldestTransactionIsNamed: one long-open transaction elsewhere stops dead
// rows being cleaned, and nobody knows which (brandur.org/postgres-queues).
func TestJ2_TheOldestTransactionIsNamed(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	s := opened(t, dsn)
	harmless := session(t, dsn, "harmless")
	run(t, harmless, "BEGIN; SELECT count(*) FROM penstock.job") // its snapshot is gone
	if c := examine(t, s); c.Oldest != (postgres.Transaction{}) || c.Hidden != 0 {
		t.Errorf("without an old transaction: %+v, %d hidden", c.Oldest, c.Hidden)
	}
	report := session(t, dsn, "nightly report")
	run(t, report, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 'secret' FROM penstock.job")
	later := session(t, dsn, "later")
	run(t, later, "BEGIN; INSERT INTO penstock.counter VALUES ('x', 1)")
	c := examine(t, s)
	o := c.Oldest
	if o.PID != int(report.PgConn().PID()) || o.Application != "nightly report" || o.State != "idle in transaction" || o.Age <= 0 || o.Age > time.Hour {
		t.Errorf("the oldest transaction is said to be %+v", o)
	}
	if text := o.String(); strings.Contains(text, "secret") || !strings.Contains(text, "nightly report") {
		t.Errorf("in words: %s", text)
	}
	run(t, report, "ROLLBACK")
	if o := examine(t, s).Oldest; o.PID != int(later.PgConn().PID()) {
		t.Errorf("then the oldest is said to be %+v", o)
	}
}

func TestExamineTellsOfTheServer(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	s := opened(t, dsn)
	c := examine(t, s)
	if c.Version != c.Newest || c.Version < 1 || c.Schema != "penstock" || c.Server == "" || c.Bytes < 100<<10 || len(c.Tables) != 6 || c.Listeners != 0 {
		t.Errorf("a new one: %+v", c)
	}
	// Both are of one machine here.
	if c.Offset > c.OffsetE+10*time.Millisecond || c.Offset < -c.OffsetE-10*time.Millisecond || c.OffsetE > time.Second {
		t.Errorf("the clock is said to be off by %v, give or take %v", c.Offset, c.OffsetE)
	}
	s.Watch(t.Context())
	late := time.After(30 * time.Second)
	for examine(t, s).Listeners != 1 {
		select {
		case <-late:
			t.Fatal("nobody is said to listen")
		default:
		}
	}
}

// Parameters reach the server as they were written: a space was sent as a plus, so
// that options=-c%20... was refused.
func TestParametersKeepTheirSpaces(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	opened(t, dsn)
	s, err := postgres.Open(t.Context(), dsn+"&options=-c%20statement_timeout%3D77s&application_name=a%20b+c", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := ""
	if err := session(t, dsn, "x").QueryRow(t.Context(), `SELECT string_agg(DISTINCT application_name, '; ') FROM pg_stat_activity WHERE application_name LIKE 'a%' AND datname = current_database()`).Scan(&found); err != nil || found != "a b+c" {
		t.Errorf("the server knows %q (%v), expected \"a b+c\"", found, err)
	}
}
