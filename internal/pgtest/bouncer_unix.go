//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// bouncerConf takes: host, port, listen port, directory.
const bouncerConf = `[databases]
* = host=%s port=%d
[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = plain
auth_file = %[4]s/users
pidfile = %[4]s/pid
default_pool_size = 20
max_client_conn = 300
`

// bouncer is a PgBouncer of this process.
type bouncer struct {
	dir   string
	watch *watchdog
	p     *process
}

// Bouncer starts PgBouncer before the server of a DSN and returns the DSN by
// way of it. It pools by transaction: what a session keeps between transactions,
// like prepared statements, advisory locks and LISTEN, is another session's the
// next time. It ends with the test.
func Bouncer(t testing.TB, dsn string) string {
	t.Helper()
	b := new(bouncer)
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	pooled, err := b.start(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return pooled
}

// start returns the DSN by way of PgBouncer when it answers.
func (b *bouncer) start(dsn string) (string, error) {
	program, err := findBouncer()
	if err != nil {
		return "", err
	}
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "", err
	}
	a, err := serverAccount()
	if err != nil {
		return "", err
	}
	if b.dir, err = a.tempDir(); err != nil {
		return "", err
	}
	if b.watch, err = watchOver(b.dir, filepath.Join(b.dir, "pid")); err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	users, conf := filepath.Join(b.dir, "users"), filepath.Join(b.dir, "conf")
	err = errors.Join(
		a.write(users, fmt.Sprintf("%q %q\n", c.User, c.Password)),
		a.write(conf, fmt.Sprintf(bouncerConf, c.Host, c.Port, port, b.dir)))
	if err != nil {
		return "", err
	}
	if b.p, err = launch(a, b.dir, filepath.Join(b.dir, "log"), program, conf); err != nil {
		return "", err
	}
	pooled := withAddress(dsn, loopback(port))
	return pooled, b.p.await(func() error {
		return onServer(pooled, func(ctx context.Context, conn *pgx.Conn) error { return nil })
	})
}

// close ends it, however far it came.
func (b *bouncer) close() (err error) {
	if b.p != nil {
		err = b.p.end(syscall.SIGKILL) // what other signals mean differs from version to version
	}
	if b.dir != "" {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	if b.watch != nil {
		err = errors.Join(err, b.watch.close())
	}
	return err
}
