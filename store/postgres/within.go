package postgres

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstockhq/penstock/store/engine"
)

// Querier is what a transaction of database/sql must offer: *sql.Tx does.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// withinTries is how often fn is run in a caller's transaction that met another one.
const withinTries = 5

// Within runs fn in a transaction of the caller's on the store's database: a pgx.Tx
// or a *sql.Tx, with pgx's driver or another one. What fn writes commits or rolls
// back with it, and this process tells of the commit. fn may be run again after a
// savepoint was rolled back. It touches nothing that others wait for, but a unique
// key that it inserts, and an effect that it begins: whoever wants the same one waits
// for the transaction's end.
//
// In REPEATABLE READ and above, a unique key that was taken since the transaction's
// snapshot is an error (SQLSTATE 40001), as for the caller's own rows. In any, two
// transactions each of which wants what the other one has end with SQLSTATE 40P01
// for one of them. After either, roll the transaction back and run it again.
//
// A transaction on another database than the store's is refused: store.ErrOtherDatabase.
func (s *Store) Within(ctx context.Context, transaction any, fn func(engine.Tx) error) error {
	if err := engine.CheckGuest(transaction); err != nil {
		return err
	}
	var l link
	switch t := transaction.(type) {
	case pgx.Tx:
		l = &pgxLink{t, s.db.text}
	case Querier:
		l = &sqlLink{t, s.db.text}
	default:
		return fmt.Errorf("transaction %T: expected a pgx.Tx or a *sql.Tx", transaction)
	}
	for try := 1; ; try++ {
		isolation := ""
		err := s.within(ctx, l, &isolation, fn)
		// Only a unique key that somebody else took meanwhile is seen by the next try,
		// and not if the transaction keeps its snapshot. A deadlock would come again:
		// what the other one waits for is held since before.
		switch state := stateOf(err); {
		case state == uniqueViolation && keepsSnapshot(isolation):
			return &pgconn.PgError{Severity: "ERROR", Code: serializationFailure,
				Message: "a unique key, a call's id or an effect was taken since the transaction's snapshot (" + err.Error() + "): run the transaction again"}
		case state != uniqueViolation || try == withinTries:
			return err
		}
	}
}

const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	idleForTooLong       = "25P03" // in a transaction
)

// stateOf is the SQLSTATE of an error, of whatever driver; "": it has none.
func stateOf(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// keepsSnapshot says that a transaction never sees what others commit.
func keepsSnapshot(isolation string) bool {
	return isolation == "repeatable read" || isolation == "serializable"
}

func (s *Store) within(ctx context.Context, l link, isolation *string, fn func(engine.Tx) error) error {
	var seqscan string // the transaction's setting; a rollback to the savepoint brings it back as well
	var at place
	if err := l.send(ctx, []statement{{sql: `SAVEPOINT penstock`},
		{sql: `SELECT current_setting('transaction_isolation'), current_setting('enable_seqscan'), ` + sqlPlace,
			each: func(s scan) error { return s(isolation, &seqscan, &at.database, &at.since) }},
		{sql: `SELECT set_config('enable_seqscan', 'off', true)`}}); err != nil {
		return err
	}
	t := &tx{link: l, ctx: ctx, mode: adding, clock: s.db.clock, lanesOf: s.db.lanes, guess: &s.db.guess}
	err := s.db.atHome(ctx, at)
	if err == nil {
		err = fn(t)
	}
	if err == nil {
		xid := ""
		if err = l.send(ctx, append(t.waiting(), t.leave(seqscan, &xid), statement{sql: `RELEASE SAVEPOINT penstock`})); err == nil {
			if t.told {
				s.db.hub.guests.add(xid)
			}
			return nil
		}
	}
	// One after the other: drivers prepare what is sent together before they run it,
	// and in a transaction that failed nothing but a rollback can be prepared.
	for _, sql := range []string{`ROLLBACK TO SAVEPOINT penstock`, `RELEASE SAVEPOINT penstock`} {
		if e := l.send(context.WithoutCancel(ctx), []statement{{sql: sql}}); e != nil {
			return errors.Join(err, e)
		}
	}
	return err
}

// leave gives the caller's transaction its setting back. If those who watch are to be
// told of its commit, it reads the transaction's id, too: the server can be asked by it
// what became of the transaction. The id is the same inside savepoints, and there by then,
// since something was written.
func (t *tx) leave(seqscan string, xid *string) statement {
	const back = `SELECT set_config('enable_seqscan', $1, true)`
	if !t.told {
		return statement{sql: back, args: []any{seqscan}}
	}
	return statement{sql: back + `, pg_current_xact_id()::text`, args: []any{seqscan},
		each: func(s scan) error { return s(new(string), xid) }}
}

// pgxLink sends through pgx.
type pgxLink struct {
	tx   pgx.Tx
	name func(string) string
}

func (l *pgxLink) send(ctx context.Context, list []statement) error {
	return translate(sendBatch(ctx, l.tx, list, l.name))
}

// sqlLink sends through database/sql, one statement after the other.
type sqlLink struct {
	q    Querier
	name func(string) string
}

func (l *sqlLink) send(ctx context.Context, list []statement) error {
	for _, s := range list {
		if err := l.run(ctx, s); err != nil {
			return translate(err)
		}
	}
	return nil
}

func (l *sqlLink) run(ctx context.Context, s statement) (err error) {
	args := make([]any, len(s.args))
	for i, a := range s.args {
		args[i] = arrayText(a)
	}
	rows, err := l.q.QueryContext(ctx, l.name(s.sql), args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close(), rows.Err()) }()
	for rows.Next() {
		if s.each == nil {
			continue
		}
		if err := s.each(rows.Scan); err != nil {
			return err
		}
	}
	return nil
}

// arrayText writes a slice as PostgreSQL writes arrays, since drivers differ in
// what they make of a slice. What is none stays as it is.
func arrayText(a any) any {
	switch v := a.(type) {
	case []int64:
		return array(v, func(n int64) string { return strconv.FormatInt(n, 10) })
	case []int32:
		return array(v, func(n int32) string { return strconv.Itoa(int(n)) })
	case []int16:
		return array(v, func(n int16) string { return strconv.Itoa(int(n)) })
	case []bool:
		return array(v, strconv.FormatBool)
	case []string:
		return array(v, func(s string) string {
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
		})
	case [][]byte:
		return array(v, func(b []byte) string { return `"\\x` + hex.EncodeToString(b) + `"` })
	}
	return a
}

func array[T any](list []T, text func(T) string) any {
	if list == nil {
		return nil
	}
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = text(v)
	}
	return "{" + strings.Join(texts, ",") + "}"
}
