package migrate_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/postgres/migrate"
	"github.com/penstockhq/penstock/store/postgres/schema"
)

func TestVersionsOfThisProgram(t *testing.T) {
	conn := connect(t, pgtest.DSN(t))
	s, err := migrate.Load(schema.Files)
	if err != nil {
		t.Fatal(err)
	}
	before := catalog(t, conn)
	for v := 1; v <= s.Newest(); v++ {
		to(t, s, conn, "penstock", v, 1)
		there := catalog(t, conn)
		to(t, s, conn, "penstock", v-1, 1)
		back := catalog(t, conn)
		to(t, s, conn, "penstock", v, 1)
		if again := catalog(t, conn); again != there {
			t.Errorf("version %d is not the same after going back and forward:\n%s\n--- was\n%s", v, again, there)
		}
		if v > 1 && back != before {
			t.Errorf("the way back from version %d leads to\n%s\n--- not to\n%s", v, back, before)
		}
		before = there
	}
	to(t, s, conn, "penstock", 0, s.Newest())
	at(t, conn, "penstock", 0)
	if left := catalog(t, conn); strings.Count(left, "\n") != 1 { // the table of versions and its key
		t.Errorf("without tables there is still:\n%s", left)
	}
}

// catalog is what the schema has: relations, their columns and indexes, functions.
func catalog(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var text string
	err := conn.QueryRow(t.Context(), `
		SELECT coalesce(string_agg(line, E'\n' ORDER BY line), '') FROM (
			SELECT c.relkind::text || ' ' || c.relname || ' ' || coalesce(pg_get_indexdef(CASE WHEN c.relkind = 'i' THEN c.oid END), '') || ' ' ||
				coalesce((SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN '!' ELSE '' END, ', ' ORDER BY a.attnum)
					FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '') AS line
			FROM pg_class c WHERE c.relnamespace = to_regnamespace('penstock') AND c.relkind NOT IN ('c', 't')
			UNION ALL SELECT 'function ' || p.proname FROM pg_proc p WHERE p.pronamespace = to_regnamespace('penstock')
			UNION ALL SELECT 'type ' || y.typname FROM pg_type y WHERE y.typnamespace = to_regnamespace('penstock') AND y.typtype IN ('e', 'd')
		) x`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
