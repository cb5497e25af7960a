//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// Roles of a throwaway server; both have its password. Tests use the plain
// one, as people do: nothing in Penstock may need more. Its name is not that of the
// usual schema, which it would find without being told where tables are.
const (
	plainRole = "tester"
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
	server   *process // nil while it is stopped
	frozen   []int    // its processes that freeze stopped, without the first
}

// newEngine makes a server and starts it. conf adds to postgresql.conf.
func newEngine(conf map[string]string) (*engine, error) {
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	e := &engine{bin: bin, password: password()}
	if e.account, err = serverAccount(); err != nil {
		return nil, err
	}
	if e.dir, err = e.account.tempDir(); err != nil {
		return nil, err
	}
	if e.watch, err = watchOver(e.dir, filepath.Join(e.data(), "postmaster.pid")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(e.dir))
	}
	e.conf = map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": e.dir,
		"max_connections":         "300", // tests of several packages run at a time
		"fsync":                   "off",
		"full_page_writes":        "off",
		"shared_buffers":          "64MB",
		// Not what anybody has by chance: code that leans on the server's zone shows.
		"timezone":        "<+0545>-05:45",
		"log_timezone":    "UTC",
		"log_line_prefix": "%m [%p] %d ",
	}
	maps.Copy(e.conf, conf)
	if err := e.init(); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *engine) data() string { return filepath.Join(e.dir, "data") }

// init makes the files, starts the server and makes roles and a database.
func (e *engine) init() error {
	secret := filepath.Join(e.dir, "password")
	if err := e.account.write(secret, e.password); err != nil {
		return err
	}
	initdb := e.account.command(e.dir, filepath.Join(e.bin, "initdb"), "--pgdata", e.data(),
		"--username", superRole, "--pwfile", secret, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C", "--no-sync")
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

// close ends the server and removes its files.
func (e *engine) close() error {
	return errors.Join(e.stop(Immediate), os.RemoveAll(e.dir), e.watch.close())
}
