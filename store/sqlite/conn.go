package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"

	sqlite "modernc.org/sqlite"
)

// conn is one connection to the file, for one goroutine at a time. It talks to
// the driver below database/sql: the pool's locks, its conversions and its
// reflection took more time than SQLite itself.
type conn struct {
	c     driverConn
	stmts map[string]driverStmt
	args  []driver.NamedValue
	row   row
	ctx   context.Context // of the view under way; a write transaction has none

}

type driverConn interface {
	driver.Conn
	driver.ConnPrepareContext
}

type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

var theDriver sqlite.Driver

// connect opens the file, which must exist, and sets what each connection needs.
// SQLite never waits by itself: its back-off is unfair, see turnstile.go.
func connect(path string, pragmas ...string) (*conn, error) {
	c, err := theDriver.Open(dsn(path))
	if err != nil {
		return nil, translate(err)
	}
	dc, ok := c.(driverConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("the SQLite driver's connection (%T) does not prepare statements", c)
	}
	k := &conn{c: dc, stmts: make(map[string]driverStmt), ctx: context.Background()}
	// A pragma may read the schema, and meet somebody who creates or closes the file.
	ctx, cancel := context.WithTimeout(context.Background(), busyFor)
	defer cancel()
	for _, p := range pragmas {
		if err := whileBusy(ctx, func() error { return k.query(func(row) {}, "PRAGMA "+p) }); err != nil {
			return nil, errors.Join(err, k.close())
		}
	}
	return k, nil
}

// dsn names the file so that no character of its path is special.
func dsn(path string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path}
	return u.String() + "?mode=rw"
}

func (k *conn) close() error {
	var errs []error
	for _, s := range k.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, k.c.Close())...)
}

// prepare keeps statements for the life of the connection: their texts are few.
func (k *conn) prepare(sql string) (driverStmt, error) {
	if s, ok := k.stmts[sql]; ok {
		return s, nil
	}
	s, err := k.c.PrepareContext(context.Background(), sql)
	if err != nil {
		return nil, translate(err)
	}
	st, ok := s.(driverStmt)
	if !ok {
		s.Close()
		return nil, fmt.Errorf("the SQLite driver's statement (%T) takes no context", s)
	}
	k.stmts[sql] = st
	return st, nil
}

func (k *conn) bind(args []driver.Value) []driver.NamedValue {
	k.args = k.args[:0]
	for i, a := range args {
		k.args = append(k.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return k.args
}

func (k *conn) exec(sql string, args ...driver.Value) error {
	s, err := k.prepare(sql)
	if err != nil {
		return err
	}
	_, err = s.ExecContext(k.ctx, k.bind(args))
	return translate(err)
}

func (k *conn) query(each func(row), sql string, args ...driver.Value) (err error) {
	s, err := k.prepare(sql)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(k.ctx, k.bind(args))
	if err != nil {
		return translate(err)
	}
	defer func() {
		if e := rows.Close(); e != nil && err == nil {
			err = translate(e)
		}
	}()
	n := len(rows.Columns())
	if cap(k.row) < n {
		k.row = make(row, n)
	}
	r := k.row[:n]
	for {
		switch err := rows.Next(r); err {
		case nil:
			each(r)
		case io.EOF:
			return nil
		default:
			return translate(err)
		}
	}
}

// script runs several statements without arguments, which are not kept.
func (k *conn) script(sql string) error {
	s, err := k.c.PrepareContext(context.Background(), sql)
	if err != nil {
		return translate(err)
	}
	_, err = s.(driver.StmtExecContext).ExecContext(context.Background(), nil)
	if e := s.Close(); err == nil {
		err = e
	}
	return translate(err)
}
