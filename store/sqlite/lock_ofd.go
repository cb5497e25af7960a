//go:build linux || darwin

package sqlite

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Open file description locks (fcntl(2), "Open file description locks"): they
// belong to the open file, so two stores in one process exclude each other, a
// close elsewhere does not drop them, and the kernel drops them when the process
// is gone, whatever ended it.

// lockByte takes the byte at the offset, waiting if wait is set. It reports false
// if somebody else has it.
func lockByte(f *os.File, offset int64, wait bool) (bool, error) {
	cmd := fOFDSetLk
	if wait {
		cmd = fOFDSetLkW
	}
	err := fcntlLock(f, cmd, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: offset, Len: 1})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

func unlockByte(f *os.File, offset int64) error {
	return fcntlLock(f, fOFDSetLk, &unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart, Start: offset, Len: 1})
}

// byteLocked reports whether another open file than f has the byte.
func byteLocked(f *os.File, offset int64) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: offset, Len: 1}
	err := fcntlLock(f, fOFDGetLk, &l)
	return l.Type != unix.F_UNLCK, err
}

func fcntlLock(f *os.File, cmd int, l *unix.Flock_t) error {
	for {
		if err := unix.FcntlFlock(f.Fd(), cmd, l); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
