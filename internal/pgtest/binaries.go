package pgtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// errNoServer is what to do where there is no PostgreSQL.
var errNoServer = errors.New("!!!! No PostgreSQL to test with: `make test` as root installs it, else install it, " +
	"e.g. with: sudo apt-get install -y postgresql, or name a server in " + Env)

// binDir is the directory of the newest initdb and postgres that can be found.
// Binaries on PATH win: whoever puts them there means them.
var binDir = sync.OnceValues(func() (string, error) {
	for _, dir := range binDirs() {
		if found(dir, "initdb") && found(dir, "postgres") {
			return dir, nil
		}
	}
	return "", errNoServer
})

func binDirs() []string {
	var dirs []string
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if initdb, err = filepath.EvalSymlinks(initdb); err == nil { // postgres may not be linked beside it
			dirs = append(dirs, filepath.Dir(initdb))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",          // Debian
		"/usr/pgsql-*/bin",                   // the project's packages for Red Hat
		"/usr/libexec/postgresql*",           // Alpine
		"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
		"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
		"/usr/local/pgsql/bin",               // built from source
		"/opt/homebrew/bin",                  // linked by Homebrew
		filepath.Join(os.Getenv("HOMEBREW_PREFIX"), "opt/postgresql@*/bin"), // Homebrew elsewhere
	} {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	return dirs
}

// newestFirst lists what matches the pattern, by the number in the name.
func newestFirst(pattern string) []string {
	dirs, _ := filepath.Glob(pattern)
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(major(b), major(a)) })
	return dirs
}

// major is the last number in a path, which stands for a version: 15 in
// /usr/lib/postgresql/15/bin. 0 if there is none.
func major(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[len(digits)-1])
	return n
}

func found(dir, name string) bool {
	_, err := exec.LookPath(filepath.Join(dir, name))
	return err == nil
}

// findBouncer returns the program pgbouncer.
func findBouncer() (string, error) {
	if p, err := exec.LookPath("pgbouncer"); err == nil {
		return p, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"} {
		if found(dir, "pgbouncer") {
			return filepath.Join(dir, "pgbouncer"), nil
		}
	}
	return "", fmt.Errorf("!!!! No PgBouncer to test with: `make test` as root installs it, else: sudo apt-get install -y pgbouncer")
}

// Missing names what the tests would not find: postgresql, pgbouncer, or both.
// These are the names of packages in most systems, too.
func Missing() (names []string) {
	if _, err := binDir(); err != nil && os.Getenv(Env) == "" {
		names = append(names, "postgresql")
	}
	if _, err := findBouncer(); err != nil {
		names = append(names, "pgbouncer")
	}
	return names
}
