package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/penstockhq/penstock/store"
	sqlite "modernc.org/sqlite"
)

// What can happen to a file, besides the errors of package store. Test with
// errors.Is.
var (
	// ErrDiskFull says that the file or its log could not grow. Nothing was
	// written; the same call succeeds once there is room.
	ErrDiskFull = errors.New("no room left on the disk of the database")
	// ErrReadOnly says that the file, or the directory that must hold its log, cannot be written.
	ErrReadOnly = errors.New("the database cannot be written")
	// ErrIO says that the disk or its file system failed.
	ErrIO = errors.New("reading or writing the database failed")
	// ErrCorrupt says that the file is damaged. Restore a copy.
	ErrCorrupt = errors.New("the database is damaged")
	// ErrReplaced says that the file was removed or replaced while it was open: what
	// is written would be lost. Start anew with the file that is to be used.
	ErrReplaced = errors.New("the database's file was removed or replaced while it was open")
	// ErrNetworkFS refuses a file on a file system that cannot keep SQLite's locks.
	ErrNetworkFS = errors.New("the database is on a network file system")
)

// SQLite's primary result codes (https://sqlite.org/rescode.html).
const (
	codeError      = 1
	codeBusy       = 5
	codeLocked     = 6
	codeReadOnly   = 8
	codeIO         = 10
	codeCorrupt    = 11
	codeFull       = 13
	codeCantOpen   = 14
	codeProtocol   = 15
	codeConstraint = 19
	codeNotADB     = 26
)

// code returns the primary result code of err, 0 if it is not SQLite's.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// translate puts a sentinel around what a program may want to tell apart.
func translate(err error) error {
	var sentinel error
	switch code(err) {
	case 0:
		return err
	case codeBusy, codeLocked, codeProtocol:
		sentinel = store.ErrBusy
	case codeReadOnly, codeCantOpen:
		sentinel = ErrReadOnly
	case codeIO:
		sentinel = ErrIO
	case codeCorrupt:
		sentinel = ErrCorrupt
	case codeFull:
		sentinel = ErrDiskFull
	case codeNotADB:
		sentinel = store.ErrNotOurs
	case codeConstraint:
		if !strings.Contains(err.Error(), "penstock_job.unique_key") {
			return err
		}
		sentinel = store.ErrUniqueTaken
	default:
		return err
	}
	if errors.Is(err, sentinel) {
		return err
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

func isBusy(err error) bool { return errors.Is(err, store.ErrBusy) }
