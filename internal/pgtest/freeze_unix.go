//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// freeze stops all processes of the server. Connections stay open, nothing answers.
func (e *engine) freeze() error {
	if e.server == nil {
		return errors.New("the server is stopped already")
	}
	return onServer(e.dsn(superRole, "postgres"), func(ctx context.Context, conn *pgx.Conn) error {
		// The first process starts the others, so it goes first.
		if err := syscall.Kill(e.pid(), syscall.SIGSTOP); err != nil {
			return err
		}
		rows, _ := conn.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()`)
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
		if err != nil {
			return err
		}
		for _, pid := range pids {
			err := syscall.Kill(pid, syscall.SIGSTOP)
			if err != nil && !errors.Is(err, syscall.ESRCH) { // it ended
				return fmt.Errorf("stop process %d: %w", pid, err)
			}
			e.frozen = append(e.frozen, pid)
		}
		return nil
	})
}

// thaw lets the processes go on that freeze stopped.
func (e *engine) thaw() error {
	for _, pid := range append(e.frozen, e.pid()) {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("let process %d go on: %w", pid, err)
		}
	}
	e.frozen = nil
	return nil
}

// stopFrozen signals a server that is frozen and lets it go on: it must not do
// anything else first.
func (e *engine) stopFrozen(signal syscall.Signal) error {
	if e.frozen == nil {
		return nil
	}
	for _, pid := range append(e.frozen, e.pid()) {
		if signal == syscall.SIGQUIT || pid == e.pid() { // in a fast stop the first process tells the others
			_ = syscall.Kill(pid, signal)
		}
	}
	return e.thaw()
}
