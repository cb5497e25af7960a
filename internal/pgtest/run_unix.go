//go:build unix

package pgtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Run runs a command with a server for all its tests: Env names it. The server
// ends with the command. Signals go to the command, and Run waits for its end. code
// is what the command exited with, 128 and the number if it was a signal. If Env
// names a server already, that one is taken. Where no PostgreSQL is found, the command
// runs without: its tests say what they miss.
func Run(program string, args ...string) (code int, err error) {
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = os.Environ()

	// Before the server is there: an interrupt meanwhile ends it as well.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	if os.Getenv(Env) == "" {
		e, failed := newEngine(nil)
		switch {
		case errors.Is(failed, errNoServer):
		case failed != nil:
			return 1, failed
		default:
			defer func() { err = errors.Join(err, e.close()) }()
			cmd.Env = append(cmd.Env, Env+"="+e.dsn(plainRole, "penstock"))
		}
	}
	return passSignals(cmd, signals)
}

// passSignals runs the command and sends it what comes in.
func passSignals(cmd *exec.Cmd, signals <-chan os.Signal) (code int, err error) {
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended, stop := context.WithCancel(context.Background())
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s)
			case <-ended.Done():
				return
			}
		}
	}()
	err = cmd.Wait()
	stop()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return cmd.ProcessState.ExitCode(), err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
