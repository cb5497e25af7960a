package cli

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"
)

// defaultDB is the database where neither --db nor PENSTOCK_DB names one.
const defaultDB = "penstock.db"

// addDB gives a command the option --db.
func addDB(cmd *cobra.Command, db *string) {
	cmd.Flags().StringVar(db, "db", "", "the database file (default PENSTOCK_DB, else "+defaultDB+")")
}

// dbPath is the database a command works on.
func dbPath(flag string) string {
	return cmp.Or(flag, os.Getenv("PENSTOCK_DB"), defaultDB)
}

// checkDB refuses what would be a database in memory, by the name Penstock has for
// it in Go or by SQLite's: each command is a process of its own, and what it
// leaves to the next must be in a file.
func checkDB(db string) error {
	if db == "memory:" || db == ":memory:" {
		return inputf("the database %s ends with its process: name a file with --db or PENSTOCK_DB", db)
	}
	return nil
}
