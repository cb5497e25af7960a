package sqlite

import "golang.org/x/sys/unix"

// From xnu's bsd/sys/fcntl.h; SQLite's own unix VFS uses the same numbers on
// Apple systems.
const (
	fOFDSetLk  = 90
	fOFDSetLkW = 91
	fOFDGetLk  = 92
)

// bootID tells one boot of one kernel from any other, "" where that is unknown.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
