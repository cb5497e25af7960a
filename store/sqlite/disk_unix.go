//go:build linux || darwin

package sqlite

import "golang.org/x/sys/unix"

// diskFree is how much room there is for this user, -1 if that is not known.
func diskFree(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
