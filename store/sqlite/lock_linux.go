package sqlite

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	fOFDGetLk  = unix.F_OFD_GETLK
	fOFDSetLk  = unix.F_OFD_SETLK
	fOFDSetLkW = unix.F_OFD_SETLKW
)

// bootID tells one boot of one kernel from any other, "" where that is unknown.
// Containers on one machine share it, and its locks.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
