package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interrupts tells of INT and TERM. The first one ends stop, the second one
// closes now.
type interrupts struct {
	stop   context.Context
	now    chan struct{}
	first  atomic.Int64 // the number of the first signal, 0: none
	cancel context.CancelCauseFunc
	quit   chan struct{}
}

var errInterrupted = errors.New("interrupted")

func watchSignals(ctx context.Context) *interrupts {
	i := &interrupts{now: make(chan struct{}), quit: make(chan struct{})}
	i.stop, i.cancel = context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case s := <-signals:
				number := int64(syscall.SIGTERM)
				if s == os.Interrupt {
					number = int64(syscall.SIGINT)
				}
				if i.first.CompareAndSwap(0, number) {
					i.cancel(errInterrupted)
					continue
				}
				close(i.now)
				return
			case <-i.quit:
				return
			}
		}
	}()
	return i
}

// stopped says whether a signal came.
func (i *interrupts) stopped() bool { return i.first.Load() != 0 }

// code is the exit code after a signal.
func (i *interrupts) code() int { return exitSignal + int(i.first.Load()) }

func (i *interrupts) close() {
	close(i.quit)
	i.cancel(nil)
}

// survivePipes keeps this process alive when who reads its messages has gone: calls
// under way, and commands that hold a permit, would die with it. Commands that are
// started do not inherit it, as they would inherit an ignored signal.
func survivePipes() (stop func()) {
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, syscall.SIGPIPE)
	return func() { signal.Stop(dropped) }
}
