package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "stopped by a signal: " + e.signal.String() }

// untilSignal returns a context that the first INT or TERM ends. A second one
// ends the process, in the way of the system.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			cancel(&signalError{number})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// signalled gives err the exit code of the signal that ended ctx, if one has.
func signalled(ctx context.Context, err error) error {
	var by *signalError
	if errors.As(context.Cause(ctx), &by) {
		return &exitError{Code: exitSignal + int(by.signal)}
	}
	return err
}
