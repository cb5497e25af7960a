//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that servers run as: PostgreSQL refuses to run as root.
// Nil means the user of this process.
type account struct{ uid, gid int }

// serverAccount is nil for anybody but root, and postgres for root, or nobody
// where there is no such user.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uerr := strconv.Atoi(u.Uid)
		gid, gerr := strconv.Atoi(u.Gid)
		if uerr == nil && gerr == nil {
			return &account{uid, gid}, nil
		}
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root, and there is neither a user postgres nor nobody: run the tests as another user, or name a server in %s", Env)
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own gives a file to the account.
func (a *account) own(name string) error {
	if a == nil {
		return nil
	}
	return os.Chown(name, a.uid, a.gid)
}

// write makes a file that only the account, and root, can read.
func (a *account) write(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return err
	}
	return a.own(name)
}

// tempDir makes a directory that the account owns and can reach. Its name is
// short: a socket's path has room for about a hundred bytes.
func (a *account) tempDir() (string, error) {
	var dir string
	err := fmt.Errorf("no temporary directory that user %v can reach: set TMPDIR to one", a)
	for _, root := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if !a.reaches(root) || len(root) > 60 {
			continue
		}
		if dir, err = os.MkdirTemp(root, "pgtest-"); err == nil {
			break
		}
	}
	if err != nil {
		return "", err
	}
	return dir, a.own(dir)
}

// reaches reports whether the account may enter the directory. It looks at
// the bits for everybody only: it may say no where a group could.
func (a *account) reaches(dir string) bool {
	if a == nil {
		return true
	}
	dir, err := filepath.EvalSymlinks(dir)
	for ; err == nil; dir = filepath.Dir(dir) {
		var info os.FileInfo
		if info, err = os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return err == nil
		}
	}
	return false
}
