package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

// goqiteQueue is goqite with one connection, as in its own benchmark, and a
// runner that polls every millisecond.
type goqiteQueue struct {
	db *sql.DB
	q  *goqite.Queue
}

// moduleFile reads a file of a module, such as the schema that it has its users create.
func moduleFile(ctx context.Context, module, name string) (string, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("where the module %s is (run this program in its own directory): %w", module, err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), name))
	return string(text), err
}

func openGoqite(ctx context.Context, path string) (*goqiteQueue, error) {
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	var there int
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'goqite'`).Scan(&there)
	if err == nil && there == 0 {
		var schema string
		if schema, err = moduleFile(ctx, "maragu.dev/goqite", "schema_sqlite.sql"); err == nil {
			_, err = db.ExecContext(ctx, schema)
		}
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &goqiteQueue{db, goqite.New(goqite.NewOpts{DB: db, Name: "jobs"})}, nil
}

func (q *goqiteQueue) enqueue(ctx context.Context) error {
	_, err := jobs.Create(ctx, q.q, "noop", goqite.Message{Body: payload})
	return err
}

func (q *goqiteQueue) enqueueMany(ctx context.Context, n int) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for range n {
		if _, err := jobs.CreateTx(ctx, tx, q.q, "noop", goqite.Message{Body: payload}); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (q *goqiteQueue) drain(ctx context.Context, n int) error {
	return untilSettled(ctx, n, q.work, func() (left int, err error) {
		err = q.db.QueryRowContext(ctx, `SELECT count(*) FROM goqite`).Scan(&left)
		return left, err
	})
}

func (q *goqiteQueue) work(ctx context.Context, handler func()) error {
	r := jobs.NewRunner(jobs.NewRunnerOpts{Limit: places, PollInterval: time.Millisecond, Queue: q.q})
	r.Register("noop", func(context.Context, []byte) error { handler(); return nil })
	r.Start(ctx)
	return nil
}

func (q *goqiteQueue) close() error { return q.db.Close() }
