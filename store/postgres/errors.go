package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstockhq/penstock/store"
)

// ErrReadOnly says that the server takes no writes: it is a standby, or was set so.
var ErrReadOnly = errors.New("the PostgreSQL server takes no writes")

// ErrPrivileges says that the role may not do what the store needs.
var ErrPrivileges = errors.New("the PostgreSQL role lacks a privilege: see the documentation of package store/postgres for the least it needs")

var (
	// errConflict says that another transaction came first: the same again may succeed.
	errConflict = errors.New("another transaction came first")
	// errStale says that the connection leads to a server that is of no use.
	errStale = errors.New("the connection leads to a server that takes no writes")
)

// translate gives the errors that a program must tell apart their names.
func translate(err error) error {
	var pg *pgconn.PgError
	if err == nil || !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case "40001", "40P01", "23505", "25P03": // serialization failure, deadlock, unique violation, idle for too long
		return fmt.Errorf("%w: %w", errConflict, err)
	case "55P03": // lock_timeout
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	case "25006": // read_only_sql_transaction
		return fmt.Errorf("%w: %w: %w", ErrReadOnly, errStale, err)
	case "42501":
		return fmt.Errorf("%w: %w", ErrPrivileges, err)
	}
	return err
}
