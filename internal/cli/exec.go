package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
)

const execLong = `Run a command under the limits that all processes on the database share: wait for
a permit of each --limit, start the command, and give the permits' place in flight
back when it has ended. It stands in the same line as jobs do. Several limits are
granted together, or none is charged.

--limit NAME draws on a limit that is declared; --limit NAME=SPEC declares it, too, and
makes the database file if it is not there. --limit 'NAME/*=SPEC' declares a limit for each key
after the slash, and draws on none.

Signals go to the command; INT and QUIT typed at its terminal reach it by themselves.
If penstock itself is killed, the permits come back at once, with PostgreSQL when its
lease is over, in some 20 s, and on Linux the command is killed with it.

Exit code: that of the command; 128 and the number of the signal that ended it; 126
or 127 if it cannot be started; 1 if --wait is over or the permit was lost or
cancelled; 2 bad usage or an unknown limit; 3 the database failed.`

const execExample = `  # a script that calls an API, at most 5 of them a second on this machine
  penstock exec --limit sms=5/s -- ./send.sh +441632960001

  # two limits, one with a cost; give up after a minute
  penstock exec --limit orders --limit tokens --cost 800 --wait 1m -- ./ask.sh`

// execFlags are the options of penstock exec.
type execFlags struct {
	db    string
	draws drawList
	wait  time.Duration
}

func newExec() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:     "exec --limit NAME[=SPEC] [flags] -- COMMAND [ARG...]",
		Short:   "Run a command while holding permits of shared limits",
		Long:    execLong,
		Example: execExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("expected a command behind --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExec(cmd, &f, args)
		},
		DisableFlagsInUseLine: true,
	}
	o := cmd.Flags()
	o.SortFlags = false
	o.SetInterspersed(false)
	addDB(cmd.Flags(), &f.db)
	f.draws.add(o, "a limit to draw on; with =SPEC it is declared (repeatable)")
	o.DurationVar(&f.wait, "wait", 0, "give up if no permit is granted for so long (default: never)")
	_ = cmd.RegisterFlagCompletionFunc("limit", completeLimits)
	return cmd
}

var errWaited = errors.New("no permit was granted in time")

func runExec(cmd *cobra.Command, f *execFlags, args []string) error {
	switch {
	case len(f.draws.draws) == 0:
		return usagef("expected at least one --limit to draw on")
	case f.wait < 0:
		return usagef("--wait must not be negative, got %v", f.wait)
	}
	path, err := exec.LookPath(args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return cannotStart(args[0], err)
	}
	db := dbPath(f.db)
	if len(f.draws.specs) == 0 {
		if err := mustBeThere(db); err != nil {
			return err
		}
	}
	defer survivePipes()()
	// Signals are caught before the permit is there, so that none falls between.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	client, err := openClient(ctx, db, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer client.Close()
	if err := f.draws.declare(ctx, client); err != nil {
		return storeFailure(db, err)
	}
	if err := f.draws.check(ctx, client); err != nil {
		return storeFailure(db, err)
	}
	permit, err := awaitPermit(ctx, client, f, signals)
	var s *signalError
	switch {
	case errors.As(err, &s):
		return &exitError{Code: exitSignal + int(s.signal), Err: errors.New("interrupted; the command was not started")}
	case errors.Is(err, errWaited):
		return &exitError{Code: exitFailed, Err: fmt.Errorf("%w (--wait %v); the command was not started", err, f.wait)}
	case err != nil:
		return storeFailure(db, err)
	}
	child := exec.Command(path, args[1:]...)
	child.Args[0] = args[0]
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	return hold(permit, child, signals)
}

// signalError says that a signal came before the command was started.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return e.signal.String() }

// awaitPermit waits until the draws are granted, the patience is over or a
// signal comes that ends processes.
func awaitPermit(ctx context.Context, c *penstock.Client, f *execFlags, signals <-chan os.Signal) (*penstock.Permit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f.wait > 0 {
		defer time.AfterFunc(f.wait, func() { cancel(errWaited) }).Stop()
	}
	granted := make(chan struct{})
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		for {
			select {
			case s := <-signals:
				if number, ok := s.(syscall.Signal); ok && ends(number) {
					cancel(&signalError{number})
					return
				}
			case <-granted:
				return
			}
		}
	}()
	p, err := c.Acquire(ctx, f.draws.draws...)
	close(granted)
	<-listened
	var s *signalError
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errWaited) || errors.As(cause, &s)) {
		err = cause // also where the store was what kept it waiting
	}
	return p, err
}

// hold runs the command while the permit is held. What is typed at a terminal
// reaches the command without us, and would reach it twice: a second INT makes many
// programs drop what they are at.
func hold(p *penstock.Permit, child *exec.Cmd, signals <-chan os.Signal) error {
	ended, err := startTied(child)
	if err != nil {
		release(p)
		return cannotStart(child.Path, err)
	}
	lost := p.Context().Done()
	var why error
	for {
		select {
		case s := <-signals:
			if s != syscall.SIGINT && s != syscall.SIGQUIT || !inForeground() {
				_ = child.Process.Signal(s) // an error says that it has just ended
			}
		case <-lost:
			// Others may have the permit now.
			lost, why = nil, errPermitLost
			if errors.Is(context.Cause(p.Context()), penstock.ErrCancelled) {
				why = errPermitCancelled
			}
			_ = child.Process.Signal(syscall.SIGTERM)
		case err := <-ended:
			release(p)
			code := exitOf(child.ProcessState, err)
			if why != nil && code.Code != exitDone {
				return &exitError{Code: exitFailed, Err: why}
			}
			if code.Code == exitDone {
				return nil
			}
			return code
		}
	}
}

var (
	errPermitLost      = errors.New("the permit was lost, since the database was out of reach for too long: the command was told to end")
	errPermitCancelled = errors.New("somebody cancelled the permit: the command was told to end")
)

// release gives the permit back. If that cannot be stored soon, it comes back
// with the end of this process.
func release(p *penstock.Permit) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.Release(ctx)
}

// exitOf is the exit code of a command that has ended.
func exitOf(state *os.ProcessState, err error) *exitError {
	if state == nil {
		return &exitError{Code: exitFailed, Err: err}
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exitError{Code: exitSignal + int(status.Signal())}
	}
	return &exitError{Code: state.ExitCode()}
}

// cannotStart is for a command that is not there, or is none: the codes are
// those of shells.
func cannotStart(name string, err error) error {
	code := 126
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		code = 127
	}
	return &exitError{Code: code, Err: fmt.Errorf("%s cannot be started: %w", name, errors.Unwrap(err))}
}
