package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	driver "modernc.org/sqlite"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/postgres"
	"github.com/penstockhq/penstock/store/sqlite"
)

const (
	places      = 100 // jobs at once
	payloadSize = 100 // bytes
)

// payload is the content of every job.
var payload = []byte(strings.Repeat("x", payloadSize))

// quiet logs nothing.
var quiet = slog.New(slog.DiscardHandler)

// A queue is a job system on a SQLite file or on PostgreSQL, with one kind of job.
type queue interface {
	// enqueue stores one job.
	enqueue(ctx context.Context) error
	// enqueueMany stores n jobs in one commit.
	enqueueMany(ctx context.Context, n int) error
	// drain works until the n jobs that are there are recorded as done.
	drain(ctx context.Context, n int) error
	// work calls handler for each job, until ctx ends.
	work(ctx context.Context, handler func()) error
	close() error
}

// The systems that are compared. "limited" is Penstock, each job drawing on a
// limit far above the rate.
const (
	penstockName = "penstock"
	limitedName  = "penstock limited"
	riverName    = "river"
	goqiteName   = "goqite"
	gueName      = "gue"
)

func openQueue(ctx context.Context, system, place string) (queue, error) {
	// Penstock has the driver sync without the file's timestamps. All get that.
	if _, err := driver.Fdatasync(true); err != nil && !errors.Is(err, driver.ErrFdatasyncUnavailable) {
		return nil, err
	}
	switch system {
	case penstockName:
		return openPenstock(ctx, place, "")
	case limitedName:
		return openPenstock(ctx, place, "1000000/s")
	case riverName:
		return openRiver(ctx, place)
	case goqiteName:
		return openGoqite(ctx, place)
	case gueName:
		return openGue(ctx, place)
	}
	return nil, fmt.Errorf("no system %q", system)
}

// openStore opens Penstock's store alone.
func openStore(ctx context.Context, place string) (store.Store, error) {
	if isDSN(place) {
		return postgres.Open(ctx, place, postgres.Options{})
	}
	return sqlite.Open(ctx, place, sqlite.Options{})
}

// dsn opens a file as the peers are to have it: WAL, every commit on the disk.
func dsn(path string) string {
	return "file:" + path + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_txlock=immediate"
}

// untilSettled works until count, which starts at n, says that nothing is left.
// It is asked only when n handlers have run, so it takes nothing from the work.
func untilSettled(ctx context.Context, n int, work func(ctx context.Context, handler func()) error, left func() (int, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ran, ended := make(chan struct{}, n), make(chan error, 1)
	go func() {
		ended <- work(ctx, func() {
			select {
			case ran <- struct{}{}:
			default: // a job ran twice
			}
		})
	}()
	for range n {
		select {
		case <-ran:
		case err := <-ended:
			return fmt.Errorf("work ended early: %w", err)
		}
	}
	for {
		rest, err := left()
		if err != nil {
			return err
		}
		if rest == 0 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	stop()
	return nil // how long it takes to stop is not measured
}
