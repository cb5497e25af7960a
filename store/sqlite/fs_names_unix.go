//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// hardLinks is how many names a file has on its file system; 0: not known.
func hardLinks(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 0
}
