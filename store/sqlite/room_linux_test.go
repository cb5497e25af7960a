package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/penstockhq/penstock/store"
)

// smallDisk mounts a file system of a few pages.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mounting a small file system takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no more than so many bytes.
func fill(t *testing.T, dir string, but int64) (path string) {
	t.Helper()
	path = filepath.Join(dir, "filler")
	if err := os.WriteFile(path, make([]byte, diskFree(dir)-but), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A disk that fills up is told from one that fails, wherever SQLite meets it: while
// it makes the file, its log, the index of the log, or writes.
func TestFullDiskIsNamed(t *testing.T) {
	named := map[string]bool{}
	for room := int64(0); room < 400<<10; room += 12 << 10 {
		dir := smallDisk(t, "4m")
		path := filepath.Join(dir, "q.db")
		filler := fill(t, dir, room)
		s, err := Open(t.Context(), path, Options{})
		for err == nil {
			big := job("q")
			big.Payload = make([]byte, 30_000)
			_, err = s.Insert(t.Context(), []store.NewJob{big})
		}
		if !errors.Is(err, ErrDiskFull) || errors.Is(err, store.ErrBusy) {
			t.Errorf("with %d bytes of room: %v", room, err)
		}
		named[err.Error()[strings.LastIndex(err.Error(), "(")+1:]] = true
		if s == nil {
			continue
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Insert(t.Context(), []store.NewJob{job("q")}); err != nil {
			t.Errorf("with %d bytes of room, and more later: %v", room, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%v", named)
	if len(named) < 2 {
		t.Errorf("SQLite met it in one way only: %v", named)
	}
}

// A disk that fails with room on it is not full, and one that cannot be written is not.
func TestFailingDiskIsNotFull(t *testing.T) {
	path := tempFile(t)
	for _, err := range []error{ErrIO, fs.ErrPermission, ErrReadOnly, nil} {
		if got := orFull(path, err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	if !hasRoom(path) {
		t.Error("there is room")
	}
	if left, err := filepath.Glob(path + "*-room-*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
