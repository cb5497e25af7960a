package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstockhq/penstock/store"
)

// DB is a connection or a pool of them.
type DB interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Done is one version that was applied or taken back.
type Done struct {
	Version int // that the database is at since
	Name    string
	Back    bool // Name was taken back
	Took    time.Duration
}

// lockTimeout is how long a version waits for a table that somebody else uses.
// Whoever wants the table meanwhile waits behind it. Tests do not wait that long.
var lockTimeout = 30 * time.Second

// Migrate leads the database to the target version and returns the steps it made,
// which may be none. After an error they still hold: the database is at the last
// one's version. Going back removes what later versions added, with its data.
//
// Others who migrate at the same time wait, and find it done. Migrate waits for them
// until ctx ends. It never leads back a database that a newer program brought further
// than this one knows: that is store.ErrNewerSchema.
func (s *Steps) Migrate(ctx context.Context, db DB, schema string, target int) ([]Done, error) {
	if err := CheckName(schema); err != nil {
		return nil, err
	}
	if target < 0 || target > s.Newest() {
		return nil, fmt.Errorf("version %d: expected one from 0, without tables, to %d, the newest that this program knows", target, s.Newest())
	}
	var all []Done
	for {
		done, err := s.once(ctx, db, schema, target)
		if err != nil || done == nil {
			return all, err
		}
		all = append(all, *done)
	}
}

// once makes one step towards the target; nil if there is none left to make.
func (s *Steps) once(ctx context.Context, db DB, schema string, target int) (done *Done, err error) {
	// A role may have a stricter default; read committed sees what was done while
	// it waited for the lock.
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback(context.WithoutCancel(ctx)) // err says more
		}
	}()
	// A timeout of the role's is for its queries, not for this. Not every version
	// of PostgreSQL has all of them.
	err = run(ctx, tx, `SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN
		('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`)
	if err != nil {
		return nil, err
	}
	if err := one(ctx, tx, nil, `SELECT pg_advisory_xact_lock($1)`, lockKey(schema)); err != nil {
		return nil, err
	}
	version, err := version(ctx, tx, schema)
	if err != nil {
		return nil, err
	}
	if version > s.Newest() {
		return nil, s.newer(schema, version)
	}
	if version == target {
		return nil, tx.Commit(ctx)
	}
	if version < target {
		done = &Done{Version: version + 1, Name: s.steps[version].name}
	} else {
		done = &Done{Version: version - 1, Name: s.steps[version-1].name, Back: true}
	}
	begun := time.Now()
	if err := s.step(ctx, tx, schema, version, done); err != nil {
		return nil, fmt.Errorf("schema %s stays at version %d: %s: %w", schema, version, done.Name, explain(err))
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("commit of %s: %w", done.Name, err)
	}
	done.Took = time.Since(begun)
	return done, nil
}

// step makes a step from the version and writes it down.
func (s *Steps) step(ctx context.Context, tx pgx.Tx, schema string, version int, done *Done) error {
	if !done.Back {
		if err := makeHome(ctx, tx, schema); err != nil {
			return err
		}
	}
	quoted := quote(schema)
	prepare := fmt.Sprintf(`SET LOCAL search_path = %s; SET LOCAL lock_timeout = %d`, quoted, lockTimeout.Milliseconds())
	if err := run(ctx, tx, prepare); err != nil {
		return err
	}
	if done.Back {
		if err := run(ctx, tx, s.steps[version-1].down); err != nil {
			return err
		}
		return one(ctx, tx, nil, `DELETE FROM `+quoted+`.migration WHERE version = $1`, version)
	}
	if err := run(ctx, tx, s.steps[version].up); err != nil {
		return err
	}
	return one(ctx, tx, nil, `INSERT INTO `+quoted+`.migration (version) VALUES ($1)`, done.Version)
}

// makeHome makes schema and version table where they are missing. It looks first:
// a role may use a schema that it may not make.
func makeHome(ctx context.Context, tx pgx.Tx, schema string) error {
	there := false
	if err := one(ctx, tx, &there, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema); err != nil {
		return err
	}
	if !there {
		if err := run(ctx, tx, `CREATE SCHEMA `+quote(schema)); err != nil {
			return err
		}
	}
	return run(ctx, tx, `SET LOCAL client_min_messages = warning;
		CREATE TABLE IF NOT EXISTS `+quote(schema)+`.migration (
			version    int PRIMARY KEY,
			applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
		)`)
}

// run runs SQL text, which must leave the transaction open: it holds the lock.
func run(ctx context.Context, tx pgx.Tx, sql string) error {
	if _, err := tx.Exec(ctx, sql); err != nil { // without arguments, so in the simple protocol: it may be many statements
		return err
	}
	if tx.Conn().PgConn().TxStatus() != 'T' {
		return errors.New("the SQL ended its transaction: it must not, and some of it stays applied")
	}
	return nil
}

// one runs a statement without preparing it, which works through poolers of
// transactions, and scans its one row, if into is not nil.
func one(ctx context.Context, tx pgx.Tx, into any, sql string, args ...any) error {
	args = append([]any{pgx.QueryExecModeExec}, args...)
	if into == nil {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	}
	return tx.QueryRow(ctx, sql, args...).Scan(into)
}

// lockKey is what stands for the schema among the database's advisory locks.
func lockKey(schema string) int64 {
	sum := sha256.Sum256([]byte("penstock migrate " + schema))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// explain says what to do about the errors that are not the SQL's fault.
func explain(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "55P03": // lock_not_available
		return fmt.Errorf("another transaction used a table for longer than %v: end it (SELECT * FROM pg_stat_activity shows it) and migrate again: %w", lockTimeout, err)
	case "42501": // insufficient_privilege
		return fmt.Errorf("the role may not do that: migrate as the owner of schema and database: %w", err)
	}
	return err
}

func (s *Steps) newer(schema string, version int) error {
	return fmt.Errorf("%w: schema %s is at version %d, this program knows up to version %d: use a newer program", store.ErrNewerSchema, schema, version, s.Newest())
}
