package pgtest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheNewestBinariesAreTaken(t *testing.T) {
	root := t.TempDir()
	for _, version := range []string{"9", "18", "17", "10"} {
		if err := os.MkdirAll(filepath.Join(root, "postgresql", version, "bin"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for _, dir := range newestFirst(filepath.Join(root, "postgresql", "*", "bin")) {
		got = append(got, major(dir))
	}
	if want := []int{18, 17, 10, 9}; !slices.Equal(got, want) {
		t.Errorf("in the order %v, want %v", got, want)
	}
	for path, want := range map[string]int{"/usr/pgsql-16/bin": 16, "/opt/homebrew/opt/postgresql@17/bin": 17, "/usr/local/pgsql/bin": 0} {
		if n := major(path); n != want {
			t.Errorf("the version of %s is %d, want %d", path, n, want)
		}
	}
}

// Binaries on PATH win, and links to them are followed: the server's programs
// look for one another beside themselves.
func TestBinariesOnPATHWin(t *testing.T) {
	dir, links := t.TempDir(), t.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "initdb"), filepath.Join(links, "initdb")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", links)
	if got := binDirs()[0]; got != dir || !found(got, "postgres") {
		t.Errorf("the first place to look at is %s, want %s", got, dir)
	}
}
