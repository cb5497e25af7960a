package sqlite

import (
	"errors"
	"fmt"
	"os"
)

// ErrTwoNames refuses a file that can be reached by a second name beside which the
// -wal, -shm and -lock of the first do not stand: a hard link, or a mount of the
// file alone. Used under both names at once it would be damaged, since neither side
// sees what the other has in its log.
var ErrTwoNames = errors.New("the database's file has more than one name")

// checkNames refuses a file that two programs could open with different side files.
// info is that of path, whose symbolic links are followed already: those are no
// danger. Whoever opens a second name that was made after the file was opened under
// the first is refused, so looking once is enough.
func checkNames(path string, info os.FileInfo) error {
	if n := hardLinks(info); n > 1 {
		return fmt.Errorf("%w: %d hard links lead to it, and under two of them it would be damaged; "+
			"find them with find -samefile, and remove all but one, or use a copy", ErrTwoNames, n)
	}
	if mountedAlone(path) {
		return fmt.Errorf("%w: it is mounted here without its folder, and what is in its log stays where it was written; "+
			"mount the folder instead", ErrTwoNames)
	}
	return nil
}
