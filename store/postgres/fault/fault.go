// Package fault gives what goes wrong with a PostgreSQL server the names that a
// program tells apart, and texts that a person can read.
package fault

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// What goes wrong with a server.
var (
	// ErrUnreachable says that no server answers, or that it stopped answering.
	ErrUnreachable = errors.New("the PostgreSQL server does not answer")
	// ErrRefused says that the server does not let the role in.
	ErrRefused = errors.New("the PostgreSQL server refuses the role or its password")
	// ErrNoDatabase says that the server has no database of that name.
	ErrNoDatabase = errors.New("the PostgreSQL server has no such database")
	// ErrPrivileges says that the role may not do what is needed.
	ErrPrivileges = errors.New("the PostgreSQL role lacks a privilege")
	// ErrReadOnly says that the server takes no writes: it is a standby, or was set so.
	ErrReadOnly = errors.New("the PostgreSQL server takes no writes")
	// ErrFull says that the server has no connection left for the role.
	ErrFull = errors.New("the PostgreSQL server has no connection left")
	// ErrDiskFull says that the server's disk is full.
	ErrDiskFull = errors.New("the PostgreSQL server's disk is full")
)

// All are the errors of this package.
var All = []error{ErrUnreachable, ErrRefused, ErrNoDatabase, ErrPrivileges, ErrReadOnly, ErrFull, ErrDiskFull}

// fault is an error with its name.
type fault struct {
	name, err error
	text      string
}

func (f *fault) Error() string   { return f.text }
func (f *fault) Unwrap() []error { return []error{f.name, f.err} }

// Name returns err with its name, if it has one here, else err itself. Its text is
// one line, and has no password.
func Name(err error) error {
	if err == nil {
		return nil
	}
	for _, name := range All {
		if errors.Is(err, name) {
			return err
		}
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if name := ofCode(pg.Code); name != nil {
			return &fault{name, err, name.Error() + ": " + pg.Message + " (SQLSTATE " + pg.Code + ")"}
		}
		return err
	}
	if !isNetwork(err) {
		return err
	}
	return &fault{ErrUnreachable, err, ErrUnreachable.Error() + ": " + reason(err)}
}

// Is reports whether an error is a server's, or has a name here.
func Is(err error) bool {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	if errors.As(err, &pg) || errors.As(err, &connect) {
		return true
	}
	for _, name := range All {
		if errors.Is(err, name) {
			return true
		}
	}
	return false
}

// ofCode is the name of a SQLSTATE; nil if it has none.
func ofCode(code string) error {
	switch code {
	case "28P01", "28000":
		return ErrRefused
	case "3D000":
		return ErrNoDatabase
	case "42501":
		return ErrPrivileges
	case "25006": // read_only_sql_transaction
		return ErrReadOnly
	case "53300":
		return ErrFull
	case "53100":
		return ErrDiskFull
	case "57P01", "57P02", "57P03": // it shuts down, crashed, or starts
		return ErrUnreachable
	}
	if strings.HasPrefix(code, "08") {
		return ErrUnreachable
	}
	return nil
}

func isNetwork(err error) bool {
	var connect *pgconn.ConnectError
	var network *net.OpError // not net.Error: a file's errors are such, too
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, pgconn.ErrConnClosed)
}

// reason is what went wrong on the way, on one line. A server is tried at each of
// its addresses, with encryption and without, so the same comes up several times.
func reason(err error) string {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		err = errors.Unwrap(connect)
	} else if pgconn.Timeout(err) {
		return "no answer came in time"
	}
	var lines []string
	seen := map[string]bool{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" && !seen[line] {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
