package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Querier is what a transaction of the caller's must offer: *sql.Tx does.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// InTx makes a transaction of the caller's on a Penstock file one that
// engine.Insert and the effects can run in, so that jobs are committed or rolled
// back together with the caller's own rows. The file must have been opened by
// this package once before. Committing is left to the caller, and so is waiting:
// set the driver's busy timeout. Begin the transaction as IMMEDIATE, or call this
// before it reads anything: SQLite refuses a transaction that began to write
// after another one has committed behind its reads.
//
// Workers learn of the jobs within 100 ms of the commit. now is the store's
// clock, nil for the machine's.
func InTx(ctx context.Context, q Querier, now func() int64) engine.Tx {
	if now == nil {
		now = func() int64 { return time.Now().UnixMicro() }
	}
	return &tx{link: &userLink{ctx: ctx, q: q}, clock: now}
}

// Within runs fn in a transaction of the caller's on the file, a *sql.Tx: see [InTx].
// One on another file is refused: store.ErrOtherDatabase.
func (s *Store) Within(ctx context.Context, transaction any, fn func(engine.Tx) error) error {
	if err := engine.CheckGuest(transaction); err != nil {
		return err
	}
	q, ok := transaction.(Querier)
	if !ok {
		return fmt.Errorf("transaction %T: expected a *sql.Tx", transaction)
	}
	if err := s.atHome(ctx, q); err != nil {
		return err
	}
	return fn(InTx(ctx, q, nil))
}

// atHome refuses a transaction whose connection has another file open than the
// store's. One that is attached beside it does not count: SQLite does not commit
// both together. A pragma, as a query would not, leaves the transaction unbegun.
func (s *Store) atHome(ctx context.Context, q Querier) (err error) {
	rows, err := q.QueryContext(ctx, `PRAGMA database_list`)
	if err != nil {
		return translate(err)
	}
	file := ""
	for rows.Next() {
		var number int
		var name, of string
		if err = errors.Join(err, rows.Scan(&number, &name, &of)); name == "main" {
			file = of
		}
	}
	if err := errors.Join(err, rows.Close(), rows.Err()); err != nil {
		return translate(err)
	}
	if file == "" {
		return fmt.Errorf("%w: it is on a database in memory, and the store is %s: begin it there", store.ErrOtherDatabase, s.path)
	}
	theirs, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("look whether the transaction is on the store's file: %w", err)
	}
	if err := sameFile(s.path, theirs); errors.Is(err, ErrReplaced) {
		return fmt.Errorf("%w: it is on %s, and the store is %s: begin it there", store.ErrOtherDatabase, file, s.path)
	} else {
		return err
	}
}

// userLink runs statements in a caller's transaction, by plain SQL only.
type userLink struct {
	ctx    context.Context
	q      Querier
	writes bool                 // the write lock is ours
	stmts  map[string]*sql.Stmt // nil for a statement that ran once; the end of the transaction closes them
}

// begin takes the write lock before anything is read.
func (u *userLink) begin() error {
	if u.writes {
		return nil
	}
	_, err := u.q.ExecContext(u.ctx, `UPDATE penstock_counter SET value = value WHERE name = 'job'`)
	u.writes = err == nil
	return translate(err)
}

// prepared returns a statement from its second use on.
func (u *userLink) prepared(query string) (*sql.Stmt, error) {
	s, known := u.stmts[query]
	if s != nil {
		return s, nil
	}
	if !known {
		if u.stmts == nil {
			u.stmts = make(map[string]*sql.Stmt)
		}
		u.stmts[query] = nil
		return nil, nil
	}
	s, err := u.q.PrepareContext(u.ctx, query)
	if err == nil {
		u.stmts[query] = s
	}
	return s, translate(err)
}

func anys(args []driver.Value) []any {
	a := make([]any, len(args))
	for i, v := range args {
		a[i] = v
	}
	return a
}

func (u *userLink) exec(query string, args ...driver.Value) error {
	if err := u.begin(); err != nil {
		return err
	}
	s, err := u.prepared(query)
	if err != nil {
		return err
	}
	if s != nil {
		_, err = s.ExecContext(u.ctx, anys(args)...)
	} else {
		_, err = u.q.ExecContext(u.ctx, query, anys(args)...)
	}
	return translate(err)
}

func (u *userLink) query(each func(row), query string, args ...driver.Value) (err error) {
	if err := u.begin(); err != nil {
		return err
	}
	s, err := u.prepared(query)
	if err != nil {
		return err
	}
	var rows *sql.Rows
	if s != nil {
		rows, err = s.QueryContext(u.ctx, anys(args)...)
	} else {
		rows, err = u.q.QueryContext(u.ctx, query, anys(args)...)
	}
	if err != nil {
		return translate(err)
	}
	defer func() {
		if e := errors.Join(rows.Close(), rows.Err()); e != nil && err == nil {
			err = translate(e)
		}
	}()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	r := make(row, len(columns))
	into := make([]any, len(columns))
	for i := range r {
		into[i] = (*any)(&r[i])
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		each(r)
	}
	return nil
}
