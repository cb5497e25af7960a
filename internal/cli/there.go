package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store/postgres/migrate"
)

// openThere opens a database that must be there already: a mistyped name must
// not make a new one, in which then nothing is found.
func openThere(ctx context.Context, flag string, log io.Writer) (*penstock.Client, string, error) {
	db := dbPath(flag)
	if err := mustBeThere(db); err != nil {
		return nil, db, err
	}
	c, err := openClient(ctx, db, log)
	return c, db, err
}

// mustBeThere refuses a database that is not there.
func mustBeThere(db string) error {
	if err := checkDB(db); err != nil {
		return err
	}
	if migrate.IsDSN(db) {
		return nil // opening it makes none
	}
	info, err := os.Stat(db)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return inputf("there is no database %s: name one with --db or PENSTOCK_DB", db)
	case err == nil && info.Mode().IsRegular() && info.Size() == 0:
		// Opening it would make it one.
		return inputf("%s is an empty file and not a database: name one with --db or PENSTOCK_DB", db)
	}
	return nil // what else is wrong with it, the store says better
}

// openClient opens a database, making it if it is not there. Warnings are
// printed on log.
func openClient(ctx context.Context, db string, log io.Writer) (*penstock.Client, error) {
	return openDB(ctx, db, newLineLog(log, slog.LevelWarn), sayOn(log))
}

// sayOn prints what people are to know on w.
func sayOn(w io.Writer) func(string) {
	return func(text string) { fmt.Fprintln(w, "penstock: "+text) }
}

// lockedOn says what a command waits for, for saysIfLocked.
func lockedOn(cmd *cobra.Command) func(string) { return sayOn(cmd.ErrOrStderr()) }
