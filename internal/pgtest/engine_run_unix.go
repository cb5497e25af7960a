//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

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
		if l, err = net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 between 10000 and 30000: %w", err)
}

// start starts the server and returns when it answers.
func (e *engine) start() error {
	if e.cmd != nil {
		return fmt.Errorf("the server runs already, as process %d", e.cmd.Process.Pid)
	}
	args := []string{"-D", e.data(), "-c", "port=" + strconv.Itoa(e.port)}
	for name, value := range e.conf {
		args = append(args, "-c", name+"="+value)
	}
	log, err := os.OpenFile(e.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	before, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	cmd := e.command("postgres", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	e.cmd, e.done = cmd, done
	if err := e.await(before); err != nil {
		return errors.Join(err, e.stop(Immediate))
	}
	return nil
}

// await returns when the server answers. What it wrote to its log since the
// offset says why it does not.
func (e *engine) await(since int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		err := execute(ctx, e.dsn(superRole, "postgres"))
		if err == nil {
			return nil
		}
		select {
		case <-e.done:
			text, _ := os.ReadFile(e.log())
			why := strings.TrimSpace(string(text[min(since, int64(len(text))):]))
			if strings.Contains(why, "could not create any TCP/IP sockets") {
				return fmt.Errorf("%w: %d\n%s", errPortTaken, e.port, why)
			}
			return fmt.Errorf("postgres of %s ended at its start:\n%s", e.bin, why)
		case <-ctx.Done():
			return fmt.Errorf("postgres of %s did not answer for %v: %w", e.bin, startTimeout, err)
		case <-look.C:
		}
	}
}

// stop ends the server and waits for that. It does nothing if it is stopped.
func (e *engine) stop(mode Mode) error {
	if e.cmd == nil {
		return nil
	}
	signal, ok := map[Mode]syscall.Signal{Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT}[mode]
	if !ok {
		return fmt.Errorf("stop mode %q: expected %q or %q", mode, Fast, Immediate)
	}
	_ = e.cmd.Process.Signal(signal)          // it may have ended by itself
	_ = e.cmd.Process.Signal(syscall.SIGCONT) // or be stopped
	select {
	case <-e.done:
	case <-time.After(startTimeout):
		return fmt.Errorf("postgres, process %d, did not end within %v", e.cmd.Process.Pid, startTimeout)
	}
	e.cmd, e.done = nil, nil
	return nil
}

// close ends the server and removes its files.
func (e *engine) close() error {
	return errors.Join(e.stop(Immediate), os.RemoveAll(e.dir), e.watch.close())
}

// dsn is how to connect over TCP.
func (e *engine) dsn(role, db string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(role, e.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(e.port)), Path: "/" + db,
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

// exec runs statements as the superuser.
func (e *engine) exec(statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return execute(ctx, e.dsn(superRole, "postgres"), statements...)
}

// execute runs statements, each on its own, on a connection of their own.
func execute(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}
