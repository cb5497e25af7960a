//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// errPortTaken says that something else listens on the server's port.
var errPortTaken = errors.New("the port is taken")

// startSomewhere starts the server on a port that is free.
func (e *engine) startSomewhere() (err error) {
	for range 10 { // another process can take the port between the look and the start
		if e.port, err = freePort(); err != nil {
			return err
		}
		if err = e.start(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// freePort finds a port below those that systems give to outgoing
// connections, so that it stays free while a server is stopped.
func freePort() (port int, err error) {
	for range 100 {
		port = 10000 + rand.IntN(20000)
		var l net.Listener
		if l, err = net.Listen("tcp4", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 between 10000 and 30000: %w", err)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// start starts the server and returns when it answers.
func (e *engine) start() (err error) {
	if e.server != nil {
		return fmt.Errorf("the server runs already, as process %d", e.pid())
	}
	args := []string{"-D", e.data(), "-c", "port=" + strconv.Itoa(e.port)}
	for name, value := range e.conf {
		args = append(args, "-c", name+"="+value)
	}
	e.server, err = launch(e.account, e.dir, filepath.Join(e.dir, "log"), filepath.Join(e.bin, "postgres"), args...)
	if err != nil {
		return err
	}
	if err := e.server.await(func() error { return e.exec() }); err != nil {
		if strings.Contains(err.Error(), "could not create any TCP/IP sockets") {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return errors.Join(err, e.stop(Immediate))
	}
	return nil
}

// stop ends the server and waits for that. It does nothing if it is stopped.
func (e *engine) stop(mode Mode) error {
	if e.server == nil {
		return nil
	}
	signal, ok := map[Mode]syscall.Signal{Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT}[mode]
	if !ok {
		return fmt.Errorf("stop mode %q: expected %q or %q", mode, Fast, Immediate)
	}
	if err := e.stopFrozen(signal); err != nil {
		return err
	}
	if err := e.server.end(signal); err != nil {
		return err
	}
	e.server = nil
	return nil
}

// pid is the process id of the server's first process, 0 while it is stopped.
func (e *engine) pid() int {
	if e.server == nil {
		return 0
	}
	return e.server.cmd.Process.Pid
}

// dsn is how to connect over TCP.
func (e *engine) dsn(role, db string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(role, e.password), Host: loopback(e.port), Path: "/" + db,
		RawQuery: "sslmode=disable",
	}).String()
}

// socketDSN is how to connect over the Unix socket.
func (e *engine) socketDSN(role, db string) string {
	query := url.Values{"host": {e.dir}, "port": {strconv.Itoa(e.port)}}
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(role, e.password), Path: "/" + db, RawQuery: query.Encode(),
	}).String()
}

// exec runs statements as the superuser, each on its own.
func (e *engine) exec(statements ...string) error {
	return onServer(e.dsn(superRole, "postgres"), func(ctx context.Context, conn *pgx.Conn) error {
		for _, s := range statements {
			if _, err := conn.Exec(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	})
}
