package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkFileSystem refuses what the system itself calls not local.
func checkFileSystem(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("file system of %s: %w", dir, err)
	}
	if s.Flags&unix.MNT_LOCAL == 0 {
		return fmt.Errorf("%w (%s): SQLite's locks do not hold there; put the file on a local disk",
			ErrNetworkFS, unix.ByteSliceToString(s.Fstypename[:]))
	}
	return nil
}

// mountedAlone is a question for systems where a file can be mounted alone.
func mountedAlone(string) bool { return false }
