package migrate_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/postgres/migrate"
)

func TestCheckNamesTheCommandWithoutThePassword(t *testing.T) {
	dsn := pgtest.DSN(t)
	conn := connect(t, dsn)
	s := load(t, makeA, makeB)
	secret := conn.Config().Password
	plain, parameters, _ := strings.Cut(migrate.Redact(dsn), "?")
	check := func(schema string, texts ...string) {
		t.Helper()
		err := s.Check(t.Context(), conn, schema, dsn)
		if !errors.Is(err, migrate.ErrUnmigrated) {
			t.Fatalf("Check: %v", err)
		}
		for _, text := range append(texts, "run: penstock migrate --db '"+plain+"?", parameters) {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not say %q", err, text)
			}
		}
		if secret != "" && strings.Contains(err.Error(), secret) { // a server named by Env may want none
			t.Errorf("%q has the password", err)
		}
	}
	check("penstock", "no tables in schema penstock")
	to(t, s, conn, "penstock", 1, 1)
	check("penstock", "version 1", "needs version 2")
	check("other", "schema=other")
	to(t, s, conn, "penstock", 2, 1)
	if err := s.Check(t.Context(), conn, "penstock", dsn); err != nil {
		t.Errorf("Check of a migrated database: %v", err)
	}
}

func TestRedact(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://ann:s3cret@db.example:5433/jobs?sslmode=require": "postgres://ann@db.example:5433/jobs?sslmode=require",
		"postgres://ann@db.example/jobs":                             "postgres://ann@db.example/jobs",
		"postgres:///jobs?host=/run/pg&password=s3cret&user=ann":     "postgres:///jobs?host=%2Frun%2Fpg&user=ann",
		"postgresql://db/jobs?sslpassword=s3cret":                    "postgresql://db/jobs",
		"postgres://db/jobs?application_name=my%20app+b":             "postgres://db/jobs?application_name=my%20app%2Bb",
		"postgres://ann:s3%cret@db/jobs":                             "postgres://...",
		"postgres://ann:s3cret@a:1,b:2/jobs":                         "postgres://ann@a:1,b:2/jobs",
		"host=db password=s3cret user=ann":                           "host=db user=ann",
		"host=db password = 's3 \\' cret' user=ann":                  "host=db user=ann",
		"host=db user=ann PASSWORD=s3\\ cret":                        "host=db user=ann",
		"password='s3cret":                                           "",
	} {
		if got := migrate.Redact(dsn); got != want {
			t.Errorf("Redact(%s) = %s, want %s", dsn, got, want)
		}
	}
}

func TestConnectFindsTheSchema(t *testing.T) {
	dsn := pgtest.DSN(t)
	for more, want := range map[string]string{
		"": "penstock", "&schema=jobs": "jobs", "&schema=jobs&pooler=transaction&pool_max_conns=3": "jobs",
	} {
		conn, schema, err := migrate.Connect(t.Context(), dsn+more)
		if err != nil || schema != want {
			t.Errorf("%s: schema %q, %v", more, schema, err)
			continue
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestConnectHidesThePassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://ann:s3cret@127.0.0.1:1/jobs", "postgres://ann:s3%cret@db/jobs", "postgres://ann:s3cret/@db/jobs",
		"postgres://ann:s3cret@127.0.0.1:1/jobs?sslmode=odd", "postgres://ann:s3cret@127.0.0.1:99999/jobs", "postgres://ann:s3cret@db:x/jobs",
		"postgres://127.0.0.1:1/jobs?password=s3cret", "postgres://ann:s3cret@127.0.0.1:1/jobs?schema=A",
		"host=db password=s3cret", "postgres://ann:s3cret@127.0.0.1:1/jobs?connect_timeout=odd",
	} {
		_, _, err := migrate.Connect(t.Context(), dsn)
		if err == nil {
			t.Errorf("%s: no error", dsn)
		} else if strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"penstock", "_a", "jobs_2", "order", strings.Repeat("a", 63)} {
		if err := migrate.CheckName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "2a", "A", "a-b", `a"b`, "a b", "a;b", "ä", "pg_x", "information_schema", strings.Repeat("a", 64), "a\n"} {
		if err := migrate.CheckName(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
		if _, err := migrate.Version(t.Context(), nil, bad); err == nil {
			t.Errorf("Version accepts %q", bad)
		}
		if _, err := load(t, makeA).Migrate(t.Context(), nil, bad, 1); err == nil {
			t.Errorf("Migrate accepts %q", bad)
		}
	}
}

func TestMigrateKnowsItsVersions(t *testing.T) {
	for _, target := range []int{-1, 2} {
		_, err := load(t, makeA).Migrate(t.Context(), nil, "penstock", target)
		if err == nil || !strings.Contains(err.Error(), "expected one from 0, without tables, to 1") {
			t.Errorf("version %d: %v", target, err)
		}
	}
}

func TestLoadRefusesVersionsThatDoNotFit(t *testing.T) {
	for name, all := range map[string][]string{
		"a gap":           {"0001_a.up.sql", "0001_a.down.sql", "0003_c.up.sql", "0003_c.down.sql"},
		"no first":        {"0002_b.up.sql", "0002_b.down.sql"},
		"zero":            {"0000_a.up.sql", "0000_a.down.sql"},
		"no way back":     {"0001_a.up.sql"},
		"no way forward":  {"0001_a.down.sql"},
		"two names":       {"0001_a.up.sql", "0001_b.down.sql"},
		"a version twice": {"0001_a.up.sql", "0001_a.down.sql", "0001_b.up.sql", "0001_b.down.sql"},
		"another name":    {"0001_a.up.sql", "0001_a.down.sql", "later.sql"},
	} {
		fsys := fstest.MapFS{"README.md": {}}
		for _, file := range all {
			fsys[file] = &fstest.MapFile{Data: []byte("SELECT 1")}
		}
		if _, err := migrate.Load(fsys); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := migrate.Load(fstest.MapFS{"0001_a.up.sql": {}}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty file: %v", err)
	}
}
