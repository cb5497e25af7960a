package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// statement is one SQL statement on its way to the server.
type statement struct {
	sql  string
	args []any
	each func(scan) error       // called for every row of its result; nil: there is none, or it does not matter
	ran  func(tag string) error // called when it has run, with what the server says it did
}

// scan reads the columns of the present row.
type scan func(into ...any) error

// link carries statements to the server, within one transaction.
type link interface {
	// send runs the statements in order, in one round trip where the link can.
	send(ctx context.Context, s []statement) error
}

// session is a transaction of the store's own. It takes a connection and begins
// when the first statements are sent, in the same round trip.
type session struct {
	pool   *pgxpool.Pool
	first  []statement // BEGIN and what belongs to it
	single bool        // one statement may go without a BEGIN
	loose  bool        // there is no BEGIN
	name   func(string) string
	conn   *pgxpool.Conn
	ends   bool // the COMMIT was sent
	due    bool // and all before it has run
	done   bool // committed
}

func (s *session) send(ctx context.Context, list []statement) error {
	if s.conn == nil {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return translate(err)
		}
		s.conn = conn
		list = append(append(make([]statement, 0, len(s.first)+len(list)), s.first...), list...)
	}
	return translate(sendBatch(ctx, s.conn.Conn(), list, s.name))
}

// commit sends what is left, the COMMIT, and what is to be read behind it.
func (s *session) commit(ctx context.Context, rest, behind []statement) error {
	if s.conn == nil && len(rest) == 0 && len(behind) == 0 {
		return nil // nothing was asked, and so nothing begun
	}
	if s.conn == nil && s.single && len(rest) == 1 && len(behind) == 0 {
		return s.only(ctx, rest[0])
	}
	commit := statement{sql: `COMMIT`, ran: func(tag string) error {
		if s.done = tag == `COMMIT`; !s.done { // the server rolls back a transaction that failed, and calls it no error
			return fmt.Errorf("the server answered COMMIT with %s: a statement had failed before", tag)
		}
		return nil
	}}
	s.ends = true
	// Its answer tells that the server has come to the COMMIT.
	due := statement{sql: `SELECT`, ran: func(string) error { s.due = true; return nil }}
	answered := len(behind) == 0
	if !answered {
		behind[len(behind)-1].ran = func(string) error { answered = true; return nil }
	}
	err := s.send(ctx, append(append(rest, due, commit), behind...))
	switch {
	case err == nil || !s.done:
		return err
	case answered: // good-bye came behind all answers, as from a server that is being shut down
		return nil
	}
	return fmt.Errorf("%w: %w", errCommitted, err)
}

// only runs the only statement of the transaction, which is one by itself. A server
// that takes no writes refuses it.
func (s *session) only(ctx context.Context, st statement) error {
	s.first, s.loose, s.ends = nil, true, true
	st.ran = func(string) error { s.due = true; return nil }
	err := s.send(ctx, []statement{st})
	s.done = err == nil
	return err
}

// cutBefore reports whether the connection was lost before the COMMIT was sent: then
// the transaction did not happen, and the same again may succeed.
func (s *session) cutBefore(err error) bool {
	if err == nil || s.conn == nil || !s.conn.Conn().IsClosed() {
		return false
	}
	var preparing pgx.ErrPreprocessingBatch // which is done before anything is run
	if !s.ends || errors.As(err, &preparing) {
		return true
	}
	// A server that ends a session says so behind all answers that it has.
	var last *pgconn.PgError
	return !s.due && errors.As(err, &last) && last.Severity == "FATAL"
}

// rollbackWithin bounds how long a rollback may take: a connection that does not
// answer is closed, which rolls back as well.
const rollbackWithin = 2 * time.Second

// end gives the connection back, after rolling back what was not committed.
func (s *session) end(failed error) {
	if s.conn == nil {
		return
	}
	conn := s.conn
	s.conn = nil
	if !s.done && !s.loose && !conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackWithin)
		defer cancel()
		if _, err := conn.Exec(ctx, `ROLLBACK`); err != nil {
			_ = conn.Conn().Close(ctx) // the rollback's error is of no use to the caller, who has another
		}
	}
	if errors.Is(failed, ErrReadOnly) {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackWithin)
		defer cancel()
		_ = conn.Conn().Close(ctx)
	}
	conn.Release()
}

// sender is what pgx's connections and transactions have in common.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func sendBatch(ctx context.Context, conn sender, list []statement, name func(string) string) (err error) {
	b := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(list))}
	for _, s := range list {
		b.Queue(name(s.sql), s.args...)
	}
	res := conn.SendBatch(ctx, b)
	defer func() {
		if e := res.Close(); err == nil {
			err = e
		}
	}()
	for _, s := range list {
		rows, err := res.Query()
		if err != nil {
			return err
		}
		if err := readRows(rows, s.each); err != nil {
			return err
		}
		if s.ran != nil {
			if err := s.ran(rows.CommandTag().String()); err != nil {
				return err
			}
		}
	}
	return nil
}

func readRows(rows pgx.Rows, each func(scan) error) error {
	defer rows.Close()
	for rows.Next() {
		if each == nil {
			continue
		}
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	rows.Close()
	return rows.Err()
}
