package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/postgres/fault"
	"github.com/penstockhq/penstock/store/postgres/migrate"
	"github.com/penstockhq/penstock/store/sqlite"
)

// The exit codes. A command that a signal ended has 128 and the signal's number.
const (
	exitDone   = 0
	exitFailed = 1 // it ran, and something is not as it was to be
	exitUsage  = 2 // bad usage or bad input; nothing was done
	exitStore  = 3 // the database failed
	exitSignal = 128
)

// exitError ends the process with a code. A nil Err has been printed already.
type exitError struct {
	Code int
	Err  error
	hint bool // the help may help
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.Err }

// usagef is for a command line that cannot be meant.
func usagef(format string, args ...any) *exitError {
	return &exitError{Code: exitUsage, Err: fmt.Errorf(format, args...), hint: true}
}

// inputf is for input that cannot be used.
func inputf(format string, args ...any) *exitError {
	return &exitError{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}

// failure gives an error of a command its code: 3 if the store failed, else 1.
func failure(err error) *exitError {
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return coded
	case isOutput(err):
		return outputFailure(err)
	case isStoreFailure(err):
		return &exitError{Code: exitStore, Err: err}
	}
	return &exitError{Code: exitFailed, Err: err}
}

// storeFailure is for an error while the store was at work, or what it found was
// printed.
func storeFailure(db string, err error) *exitError {
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return coded
	case isOutput(err):
		return outputFailure(err)
	}
	if migrate.IsDSN(db) {
		err = fault.Name(err)
	}
	text := oneLine(plain(err)).Error()
	// Which database it is, and that it was to be opened, is said once.
	text = strings.TrimPrefix(strings.TrimPrefix(text, "penstock: "), "open "+db+": ")
	return &exitError{Code: exitStore, Err: textError{fmt.Sprintf("the database %s: %s", nameOf(db), text), err}}
}

// isOutput says whether an error is one of writing to standard output, whose disk
// may be full, too.
func isOutput(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && at.Op == "write" && at.Path == os.Stdout.Name()
}

// outputFailure does not advise to run the command again: it did what it was to do.
func outputFailure(err error) *exitError {
	var at *fs.PathError
	errors.As(err, &at)
	return &exitError{Code: exitFailed, Err: fmt.Errorf("what the command did is done, but standard output could not be written: %w", at.Err)}
}

var storeFailures = []error{
	store.ErrNewerSchema, store.ErrNotOurs, store.ErrBusy, store.ErrClosed,
	sqlite.ErrDiskFull, sqlite.ErrReadOnly, sqlite.ErrIO, sqlite.ErrCorrupt, sqlite.ErrNetworkFS, sqlite.ErrTwoNames,
	syscall.ENOSPC, syscall.EROFS, syscall.EDQUOT, migrate.ErrUnmigrated,
}

func isStoreFailure(err error) bool {
	for _, e := range storeFailures {
		if errors.Is(err, e) {
			return true
		}
	}
	return fault.Is(err)
}

// plain adds to a store's failure what a person can do about it.
func plain(err error) error {
	advice := ""
	switch {
	case errors.Is(err, sqlite.ErrDiskFull), errors.Is(err, fault.ErrDiskFull), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "make room and run the same command again; nothing is lost"
	case errors.Is(err, store.ErrBusy):
		advice = "another program holds it locked; end that, or wait, and run the same command again"
	case errors.Is(err, store.ErrNotOurs):
		advice = "it is some other file; name another one with --db"
	case errors.Is(err, store.ErrNewerSchema):
		advice = "use that newer version of penstock, or another database"
	case errors.Is(err, sqlite.ErrReadOnly), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		advice = "it and its folder must be writable"
	case errors.Is(err, sqlite.ErrCorrupt):
		advice = "stop all processes and go back to a copy; see https://sqlite.org/recovery.html"
	case errors.Is(err, sqlite.ErrIO):
		advice = "look whether its disk is full or failing"
	case errors.Is(err, fault.ErrUnreachable):
		advice = "does the server run, and are host and port right?"
	case errors.Is(err, fault.ErrRefused):
		advice = "the password is taken from the URL, PGPASSWORD or ~/.pgpass"
	case errors.Is(err, fault.ErrNoDatabase):
		advice = "make it with createdb, or name another one"
	case errors.Is(err, fault.ErrPrivileges):
		advice = "docs/postgres.md has the statements that grant what is needed"
	case errors.Is(err, fault.ErrReadOnly):
		advice = "name the primary server, or all of them, and target_session_attrs=read-write"
	case errors.Is(err, fault.ErrFull):
		advice = "raise max_connections, or go through a pooler, with pooler=transaction"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, advice)
}
