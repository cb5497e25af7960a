package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/postgres/fault"
)

// What goes wrong with a server, beside the errors of package store. Health and
// other calls return them, wrapped.
var (
	ErrUnreachable = fault.ErrUnreachable // no server answers
	ErrRefused     = fault.ErrRefused     // the role or its password is refused
	ErrNoDatabase  = fault.ErrNoDatabase  // the database is not there
	ErrPrivileges  = fault.ErrPrivileges  // see docs/postgres.md for the least that are needed
	ErrReadOnly    = fault.ErrReadOnly    // it is a standby, or was set so
	ErrFull        = fault.ErrFull        // it has no connection left
	ErrDiskFull    = fault.ErrDiskFull
)

var (
	// errConflict says that another transaction came first: the same again may succeed.
	errConflict = errors.New("another transaction came first")
	// errCommitted says that a transaction has committed, and that something went wrong
	// behind that. So the same again would be done twice.
	errCommitted = errors.New("the transaction has committed, but not all was answered")
)

// translate gives the errors that a program must tell apart their names.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		// Serialization failure, deadlock, unique violation; the session was ended while
		// it was idle for too long, or by somebody: the server says so before a commit only.
		case "40001", "40P01", "23505", "25P03", "57P01":
			return fmt.Errorf("%w: %w", errConflict, err)
		case "55P03": // lock_timeout
			return fmt.Errorf("%w: %w", store.ErrBusy, err)
		}
	}
	return fault.Name(err)
}
