package migrate_test

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/store/postgres/migrate"
)

// files are versions: pairs of the SQL forward and back.
func files(pairs ...[2]string) fstest.MapFS {
	all := fstest.MapFS{}
	for i, p := range pairs {
		name := "000" + string(rune('1'+i)) + "_step"
		all[name+".up.sql"] = &fstest.MapFile{Data: []byte(p[0])}
		all[name+".down.sql"] = &fstest.MapFile{Data: []byte(p[1])}
	}
	return all
}

func load(t *testing.T, pairs ...[2]string) *migrate.Steps {
	t.Helper()
	s, err := migrate.Load(files(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	makeA = [2]string{`CREATE TABLE a (id int); INSERT INTO a VALUES (1)`, `DROP TABLE a`}
	makeB = [2]string{`CREATE TABLE b (id int)`, `DROP TABLE b`}
	makeC = [2]string{`CREATE TABLE c (id int)`, `DROP TABLE c`}
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

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// to migrates, and expects that many steps.
func to(t *testing.T, s *migrate.Steps, conn *pgx.Conn, schema string, target, steps int) {
	t.Helper()
	done, err := s.Migrate(t.Context(), conn, schema, target)
	if err != nil || len(done) != steps {
		t.Fatalf("Migrate to %d: %v, %v, want %d steps", target, done, err, steps)
	}
}

// at expects a version and tables.
func at(t *testing.T, conn *pgx.Conn, schema string, version int, tables ...string) {
	t.Helper()
	v, err := migrate.Version(t.Context(), conn, schema)
	if err != nil || v != version {
		t.Errorf("Version = %d, %v, want %d", v, err, version)
	}
	rows, err := conn.Query(t.Context(), `SELECT tablename::text FROM pg_tables WHERE schemaname = $1 AND tablename <> 'migration' ORDER BY 1`, schema)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(tables) {
		t.Fatalf("tables %v, want %v", got, tables)
	}
	for i := range got {
		if got[i] != tables[i] {
			t.Fatalf("tables %v, want %v", got, tables)
		}
	}
}
