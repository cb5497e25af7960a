package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/batch"
	"github.com/penstockhq/penstock/store/postgres/migrate"
)

// defaultDB is the database where neither --db nor PENSTOCK_DB names one.
const defaultDB = "penstock.db"

// addDB gives a command the option --db.
func addDB(o *pflag.FlagSet, db *string) {
	o.Var((*dbValue)(db), "db", "the database: a file, or postgres://user@host/database (default PENSTOCK_DB, else "+defaultDB+")")
}

// dbValue is the value of --db. An empty one is refused: it is a variable that a
// script did not set, and the default is another database than was meant.
type dbValue string

// String implements pflag.Value.
func (v *dbValue) String() string { return string(*v) }

// Type implements pflag.Value.
func (v *dbValue) Type() string { return "string" }

// Set implements pflag.Value.
func (v *dbValue) Set(text string) error {
	if text == "" {
		return errors.New("expected the path of a database, got none")
	}
	*v = dbValue(text)
	return nil
}

// dbPath is the database a command works on.
func dbPath(flag string) string {
	return cmp.Or(flag, os.Getenv("PENSTOCK_DB"), defaultDB)
}

// nameOf is a database's name for people: without the password, if it has one.
func nameOf(db string) string {
	if migrate.IsDSN(db) || migrate.CheckTarget(db) != nil {
		return migrate.Redact(db)
	}
	return db
}

// checkDB refuses what would be a database in memory, by the name Penstock has for
// it in Go or by SQLite's: each command is a process of its own, and what it
// leaves to the next must be in a file or on a server. And it refuses what means a
// server in another way than ours, so that it is not taken for a file.
func checkDB(db string) error {
	if db == "memory:" || db == ":memory:" {
		return inputf("the database %s ends with its process: name a file with --db or PENSTOCK_DB", db)
	}
	if err := migrate.CheckTarget(db); err != nil {
		return inputf("--db: %v, or the path of a file", err)
	}
	return nil
}

// onServer says that the database of this process is on a server. A command opens one.
var onServer atomic.Bool

// openDB opens a database for a command, making it if it is not there. All commands
// get theirs here. say tells people that it is locked, if it is.
func openDB(ctx context.Context, db string, log slog.Handler, say func(string)) (c *penstock.Client, err error) {
	if err := checkDB(db); err != nil {
		return nil, err
	}
	onServer.Store(migrate.IsDSN(db))
	// A line of a file of calls may be that long; its stored form is a little longer.
	config := penstock.Config{Logger: slog.New(log), MaxPayload: batch.MaxLine + 64<<10}
	err = saysIfLocked(say, func() (err error) {
		c, err = penstock.Open(ctx, db, config)
		return err
	})
	if errors.Is(err, migrate.ErrDSN) {
		return nil, inputf("--db: %v", bare(err))
	}
	if err != nil {
		return nil, storeFailure(db, err)
	}
	return c, nil
}

// bare is the text of an error of penstock.Open, on one line.
func bare(err error) string { return strings.TrimPrefix(oneLine(err).Error(), "penstock: ") }
