package cli_test

import (
	"context"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/postgres/migrate"
	"github.com/penstockhq/penstock/store/postgres/schema"
)

// inPostgres runs penstock migrate on the database of a DSN.
func inPostgres(t *testing.T, dsn string, args ...string) *command {
	t.Helper()
	return penstock(t, t.TempDir(), append([]string{"migrate", "--db", dsn}, args...)...)
}

// newest is the version that the command leads to.
func newest(t *testing.T) int {
	t.Helper()
	s, err := migrate.Load(schema.Files)
	if err != nil {
		t.Fatal(err)
	}
	return s.Newest()
}

func TestMigrateMakesTheTables(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	inPostgres(t, dsn, "--status").exits(1).prints("schema penstock of postgres://", "has no tables").says("penstock migrate --db")
	inPostgres(t, dsn).exits(0).prints("0001_tables applied in ", "is at version "+sprint(newest(t))+", the newest")
	inPostgres(t, dsn, "--status").exits(0).prints(", the newest")
	again := inPostgres(t, dsn, "--json").object()
	if sprint(again["version"]) != sprint(newest(t)) || again["newest"] != again["version"] || again["schema"] != "penstock" || len(again["steps"].([]any)) != 0 {
		t.Errorf("the second time it says %v", again)
	}
	other := inPostgres(t, dsn+"&schema=mail&pooler=transaction", "--json").object()
	steps := other["steps"].([]any)
	if first := steps[0].(map[string]any); other["schema"] != "mail" || len(steps) != newest(t) || first["name"] != "0001_tables" || sprint(first["version"]) != "1" || first["back"] != false {
		t.Errorf("another schema: %v", other)
	}
}

// Processes of one deployment start together: one makes each version, the others
// wait and find it made.
func TestEightProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	var all []*command
	for range 8 {
		all = append(all, begin(t, t.TempDir(), nil, "migrate", "--json", "--db", dsn))
	}
	made := 0
	for _, c := range all {
		c.wait()
		o := c.object()
		made += len(o["steps"].([]any))
		if o["version"] != o["newest"] {
			t.Errorf("one is content with %v", o)
		}
	}
	if made != newest(t) {
		t.Errorf("%d steps were made, want %d", made, newest(t))
	}
}

func TestMigrateBackWantsToBeMeant(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	inPostgres(t, dsn, "--to", "1").exits(0)
	inPostgres(t, dsn, "--to", "0").exits(2).says("loses data", "--yes")
	inPostgres(t, dsn, "--to", "0", "--yes").exits(0).prints("0001_tables taken back in ", "has no tables")
	inPostgres(t, dsn, "--to", "9999").exits(2).says("expected a version from 0")
	inPostgres(t, dsn, "--to", "0", "--status").exits(2)
}

func TestMigrateRefusesANewerDatabase(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	inPostgres(t, dsn).exits(0)
	conn, schema, err := migrate.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "INSERT INTO "+schema+".migration VALUES (9999)"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"--to", "0", "--yes"}, {"--status"}} {
		inPostgres(t, dsn, args...).exits(3).says("newer version")
	}
}

func TestMigrateTellsOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	penstock(t, dir, "migrate").exits(2).says("--db postgres://", "files are migrated when a command opens them")
	penstock(t, dir, "migrate", "--db", "jobs.db").exits(0).says("jobs.db is a file", "files are migrated when a command opens them")
	penstock(t, dir, "migrate", "--help").exits(0).prints("Examples:", "penstock migrate")
}

// No message of the command has the password of the URL.
func TestMigrateHidesThePassword(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	secret, ok := u.User.Password()
	if !ok {
		secret = "s3cret" // a server named by Env may want none
		u.User = url.UserPassword(u.User.Username(), secret)
	}
	refused, odd := *u, *u
	refused.Host = "127.0.0.1:1"
	odd.RawQuery = "sslmode=odd"
	for dsn, code := range map[string]int{
		u.String(): 0, refused.String(): 3, odd.String(): 2, u.String() + "&schema=A": 2,
		"postgres://ann:" + secret + "%@db/jobs": 2,
	} {
		for _, args := range [][]string{nil, {"--status"}, {"--json"}} {
			c := inPostgres(t, dsn, args...).exits(code)
			if said := c.stdout.String() + c.stderr.String(); strings.Contains(said, secret) || said == "" {
				t.Errorf("it says %q", said)
			}
		}
	}
}

// Somebody else migrates, and hangs.
func TestMigrateCanBeInterrupted(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	conn, _, err := migrate.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	// Its steps wait for the name of the schema, which this transaction has taken.
	if _, err := conn.Exec(t.Context(), "BEGIN; CREATE SCHEMA penstock"); err != nil {
		t.Fatal(err)
	}
	c := begin(t, t.TempDir(), nil, "migrate", "--db", dsn)
	for n := 0; n == 0; {
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wait()
	c.exits(128 + int(syscall.SIGTERM)).says("interrupted: the database is whole")
}
