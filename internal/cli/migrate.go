package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store/postgres/migrate"
	"github.com/penstockhq/penstock/store/postgres/schema"
)

const migrateLong = `Make the tables of Penstock in a PostgreSQL database, or bring them to the version
that this program needs. They are in a schema of their own, penstock, or the one
that the database's URL names with schema=NAME. Each version is one transaction: if
one fails, the database is whole, at the version before. Processes that migrate at
the same time wait for one another.

The role must own the schema, or be allowed to make it. The password is best left
out of the URL: PGPASSWORD and ~/.pgpass work.

--to leads to another version, back as well. Going back removes tables and columns
with what is in them, so it asks, or wants --yes where nobody can be asked.

A database in a file needs none of this: it is migrated when a command opens it.

Exit code: 0 it is at the version, 1 --status found an older one, 2 bad usage, 3 the
database failed, or is of a newer version than this program.`

const migrateExample = `  penstock migrate --db postgres://penstock@db.example/jobs
  penstock migrate --db 'postgres://penstock@db.example/jobs?schema=mail' --json
  penstock migrate --db postgres://penstock@db.example/jobs --status
  penstock migrate --db postgres://penstock@db.example/jobs --to 1`

func newMigrate() *cobra.Command {
	m := migrating{}
	cmd := &cobra.Command{
		Use: "migrate --db URL", Short: "Make or update the tables in PostgreSQL",
		Long: migrateLong, Example: migrateExample, Args: noArgs,
		RunE: m.run,
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&m.db, "db", "", "the database, postgres://user@host/database?schema=penstock (default PENSTOCK_DB)")
	cmd.Flags().IntVar(&m.to, "to", 0, "the `version` to lead to, 0 is without tables (default the newest)")
	cmd.Flags().BoolVar(&m.status, "status", false, "only say which version it is at")
	cmd.Flags().BoolVarP(&m.yes, "yes", "y", false, "do not ask before going back")
	cmd.Flags().BoolVar(&m.json, "json", false, "print JSON")
	return cmd
}

// migrating is one run of penstock migrate.
type migrating struct {
	db           string
	to           int
	status       bool
	yes, json    bool
	steps        *migrate.Steps
	conn         migrate.DB
	name, schema string // the database's name for people, and its schema
}

// migrateReport is what there is after it, as JSON.
type migrateReport struct {
	Schema  string        `json:"schema"`
	Version int           `json:"version"`
	Newest  int           `json:"newest"` // that this program knows
	Steps   []migrateStep `json:"steps"`
}

type migrateStep struct {
	Version int          `json:"version"` // after it
	Name    string       `json:"name"`
	Back    bool         `json:"back"`
	Elapsed show.Seconds `json:"elapsed_seconds"`
}

func (m *migrating) run(cmd *cobra.Command, _ []string) (err error) {
	if m.status && cmd.Flags().Changed("to") {
		return usagef("give --to or --status, not both")
	}
	db := dbPath(m.db)
	switch {
	case migrate.IsDSN(db):
	case m.db == "" && os.Getenv("PENSTOCK_DB") == "":
		return usagef("expected a database to migrate: name one with --db postgres://... or PENSTOCK_DB; files are migrated when a command opens them")
	default:
		fmt.Fprintf(cmd.ErrOrStderr(), "penstock: %s is a file: nothing to do, files are migrated when a command opens them\n", show.Text(db))
		return nil
	}
	if m.steps, err = migrate.Load(schema.Files); err != nil {
		return err
	}
	signals := watchSignals(cmd.Context())
	defer signals.close()
	m.name = migrate.Redact(db)
	conn, name, err := migrate.Connect(signals.stop, db)
	if errors.Is(err, migrate.ErrDSN) {
		return inputf("--db: %v", err)
	}
	if err == nil {
		defer conn.Close(context.WithoutCancel(cmd.Context()))
		m.conn, m.schema = conn, name
		err = m.work(signals.stop, cmd)
	}
	if signals.stopped() && err != nil {
		return &exitError{Code: signals.code(), Err: errors.New("interrupted: the database is whole, --status says at which version")}
	}
	if err != nil {
		return storeFailure(m.name, err)
	}
	return nil
}

func (m *migrating) work(ctx context.Context, cmd *cobra.Command) error {
	at, err := migrate.Version(ctx, m.conn, m.schema)
	if err != nil {
		return err
	}
	r := migrateReport{Schema: m.schema, Version: at, Newest: m.steps.Newest(), Steps: []migrateStep{}}
	if m.status {
		return m.tell(ctx, cmd, &r)
	}
	target := r.Newest
	if cmd.Flags().Changed("to") {
		target = m.to
	}
	if target < 0 || target > r.Newest {
		return usagef("--to: expected a version from 0, without tables, to %d, the newest that this program knows, got %d", r.Newest, target)
	}
	if target < at && at <= r.Newest {
		if err := m.confirm(cmd, at, target); err != nil {
			return err
		}
	}
	done, err := m.steps.Migrate(ctx, m.conn, m.schema, target)
	for _, d := range done {
		r.Version = d.Version
		r.Steps = append(r.Steps, migrateStep{d.Version, d.Name, d.Back, show.Seconds(d.Took)})
	}
	if err == nil {
		r.Version = target // somebody else may have done it
	}
	if err == nil || len(done) > 0 {
		err = errors.Join(err, m.print(cmd, &r))
	}
	return err
}

// tell is --status.
func (m *migrating) tell(ctx context.Context, cmd *cobra.Command, r *migrateReport) error {
	if err := m.print(cmd, r); err != nil {
		return err
	}
	err := m.steps.Check(ctx, m.conn, m.schema, m.name)
	if errors.Is(err, migrate.ErrUnmigrated) {
		return &exitError{Code: exitFailed, Err: err}
	}
	return err
}

// confirm asks before something is lost.
func (m *migrating) confirm(cmd *cobra.Command, at, target int) error {
	if m.yes {
		return nil
	}
	loses := fmt.Sprintf("going back from version %d to %d of schema %s loses data", at, target, m.schema)
	if !isTerminal(cmd.InOrStdin()) {
		return inputf("%s: add --yes if that is meant", loses)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "penstock: %s in %s. Go on? [y/N] ", loses, m.name)
	yes, err := saysYes(cmd.InOrStdin())
	if err != nil || yes {
		return err
	}
	return &exitError{Code: exitFailed, Err: errors.New("nothing was changed")}
}

// saysYes reads one line.
func saysYes(in io.Reader) (bool, error) {
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

func (m *migrating) print(cmd *cobra.Command, r *migrateReport) error {
	out := cmd.OutOrStdout()
	if m.json {
		return show.NewLines(out).Print(r)
	}
	for _, s := range r.Steps {
		what := "applied"
		if s.Back {
			what = "taken back"
		}
		if _, err := fmt.Fprintf(out, "%s %s in %v\n", s.Name, what, time.Duration(s.Elapsed).Round(time.Millisecond)); err != nil {
			return err
		}
	}
	state := fmt.Sprintf("is at version %d", r.Version)
	switch {
	case r.Version == 0:
		state = "has no tables"
	case r.Version == r.Newest:
		state += ", the newest"
	case r.Version < r.Newest:
		state += fmt.Sprintf(", the newest is %d", r.Newest)
	}
	_, err := fmt.Fprintf(out, "schema %s of %s %s\n", r.Schema, show.Text(m.name), state)
	return err
}
