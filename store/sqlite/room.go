package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	sqlite "modernc.org/sqlite"
)

// probeBytes is more than SQLite adds to a file at a time.
const probeBytes = 128 << 10

// hasRoom reports whether a little can be written beside the database. To try it is the
// only way to know: quotas, what is kept for root, and a lack of inodes do not show
// in how much is free. A variable for tests.
var hasRoom = func(path string) bool {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-room-*")
	if err != nil {
		return !isNoRoom(err)
	}
	_, err = f.Write(make([]byte, probeBytes))
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	return !isNoRoom(err)
}

func isNoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// orFull returns ErrDiskFull in place of an error that a lack of room explains. SQLite
// tells it by that name only where it writes pages: where it makes the log or its
// index (SQLITE_IOERR_SHMSIZE, 4874), or syncs, it tells of a failed disk, or of a file
// that cannot be opened.
func orFull(path string, err error) error {
	if err == nil || errors.Is(err, ErrDiskFull) {
		return err
	}
	if isNoRoom(err) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	var e *sqlite.Error
	if c := code(err); c != codeIO && c != codeCantOpen || !errors.As(err, &e) || hasRoom(path) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDiskFull, e)
}
