package migrate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/store"
)

// DefaultSchema is where the tables are if nobody says otherwise.
const DefaultSchema = "penstock"

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// CheckName refuses names of schemas that need care wherever they are written.
func CheckName(schema string) error {
	if !schemaName.MatchString(schema) || strings.HasPrefix(schema, "pg_") || schema == "information_schema" {
		return fmt.Errorf("schema %q: expected up to 63 of a-z, 0-9 and _, no digit first, not pg_... and not information_schema", schema)
	}
	return nil
}

func quote(schema string) string { return pgx.Identifier{schema}.Sanitize() }

// Version is the version of a database: 0 where nothing was ever migrated.
func Version(ctx context.Context, db DB, schema string) (v int, err error) {
	if err := CheckName(schema); err != nil {
		return 0, err
	}
	tx, err := db.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
	}()
	return version(ctx, tx, schema)
}

// version reads the version within a transaction. A table that only happens to
// have the name is store.ErrNotOurs.
func version(ctx context.Context, tx pgx.Tx, schema string) (v int, err error) {
	var columns []string
	err = one(ctx, tx, &columns, `
		SELECT coalesce(array_agg(a.attname::text ORDER BY a.attnum), '{}')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE n.nspname = $1 AND c.relname = 'migration'`, schema)
	if err != nil || len(columns) == 0 {
		return 0, err
	}
	if want := []string{"version", "applied_at"}; !slices.Equal(columns, want) {
		return 0, fmt.Errorf("%w: its table %s.migration has the columns %v, expected %v: name another schema", store.ErrNotOurs, schema, columns, want)
	}
	err = one(ctx, tx, &v, `SELECT coalesce(max(version), 0) FROM `+quote(schema)+`.migration`)
	return v, err
}

// ErrUnmigrated says that the tables are of an older version than the program
// needs, or not there at all.
var ErrUnmigrated = errors.New("the database is not migrated")

// Check returns nil if the database is at the newest version. Else it is
// store.ErrNewerSchema, or ErrUnmigrated with the command that helps, in which dsn
// stands without its password.
func (s *Steps) Check(ctx context.Context, db DB, schema, dsn string) error {
	v, err := Version(ctx, db, schema)
	switch {
	case err != nil:
		return err
	case v > s.Newest():
		return s.newer(schema, v)
	case v == s.Newest():
		return nil
	}
	command := "penstock migrate --db " + shellQuote(WithSchema(Redact(dsn), schema))
	state := fmt.Sprintf("schema %s is at version %d, this program needs version %d", schema, v, s.Newest())
	if v == 0 {
		state = fmt.Sprintf("there are no tables in schema %s", schema)
	}
	return fmt.Errorf("%w: %s: run: %s", ErrUnmigrated, state, command)
}
