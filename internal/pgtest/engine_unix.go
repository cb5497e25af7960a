//go:build unix

package pgtest

import (
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Roles of a throwaway server; both have its password. Tests use the plain
// one, as people do: nothing in Penstock may need more.
const (
	plainRole = "penstock"
	superRole = "postgres"
)

// startTimeout is for slow machines; a server is usually there in a second.
const startTimeout = 2 * time.Minute

// engine is a PostgreSQL server of this process. Its methods are for one
// goroutine at a time.
type engine struct {
	dir      string // data, socket and log; owned by the account
	bin      string
	account  *account
	conf     map[string]string
	port     int
	password string
	watch    *watchdog

	cmd  *exec.Cmd     // nil while it is stopped
	done chan struct{} // closed when cmd has ended
}

// newEngine makes a server and starts it. conf adds to postgresql.conf.
func newEngine(conf map[string]string) (*engine, error) {
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	e := &engine{bin: bin, password: rand.Text()}
	if e.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if e.dir, err = e.account.tempDir(); err != nil {
		return nil, err
	}
	if e.watch, err = watchOver(e.dir, filepath.Join(e.data(), "postmaster.pid")); err != nil {
		_ = os.RemoveAll(e.dir)
		return nil, err
	}
	e.conf = map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": e.dir,
		"max_connections":         "300",
		"fsync":                   "off",
		"full_page_writes":        "off",
		"shared_buffers":          "64MB",
		// Not what anybody has by chance: code that leans on the server's zone shows.
		"timezone":        "<+0545>-05:45",
		"log_timezone":    "UTC",
		"log_statement":   "none",
		"log_line_prefix": "%m [%p] %d ",
	}
	maps.Copy(e.conf, conf)
	if err := e.init(); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *engine) data() string { return filepath.Join(e.dir, "data") }
func (e *engine) log() string  { return filepath.Join(e.dir, "log") }

// init makes the files, starts the server and makes roles and a database.
func (e *engine) init() error {
	secret := filepath.Join(e.dir, "password")
	if err := os.WriteFile(secret, []byte(e.password), 0o600); err != nil {
		return err
	}
	if err := e.account.own(secret); err != nil {
		return err
	}
	initdb := e.command("initdb", "--pgdata", e.data(), "--username", superRole, "--pwfile", secret,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb of %s: %w\n%s", e.bin, err, out)
	}
	if err := e.startSomewhere(); err != nil {
		return err
	}
	return e.exec(
		fmt.Sprintf(`CREATE ROLE %s LOGIN CREATEDB PASSWORD '%s'`, plainRole, e.password),
		fmt.Sprintf(`CREATE DATABASE penstock OWNER %s`, plainRole),
	)
}

// command is a program of PostgreSQL, run by the account, with no setting of
// the environment that is meant for other servers.
func (e *engine) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(e.bin, name), args...)
	cmd.Dir = e.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + e.dir}
	for _, name := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	// A group of its own: what Ctrl-C in a terminal ends is the tests, first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: e.account.credential()}
	return cmd
}
