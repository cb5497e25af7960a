//go:build unix

package system

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock"
)

// open returns a client of the test's own on the store, which enqueues and looks.
func open(t *testing.T, target string, cfg penstock.Config) *penstock.Client {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	c, err := penstock.Open(t.Context(), target, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// enqueue stores n jobs alike, in one commit.
func enqueue(t *testing.T, c *penstock.Client, n int, j penstock.NewJob) []int64 {
	t.Helper()
	if j.Payload == nil {
		j.Payload = []byte("x")
	}
	jobs := make([]penstock.NewJob, n)
	for i := range jobs {
		jobs[i] = j
	}
	return enqueueAll(t, c, jobs)
}

func enqueueAll(t *testing.T, c *penstock.Client, jobs []penstock.NewJob) []int64 {
	t.Helper()
	es, err := c.EnqueueMany(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(es))
	for i, e := range es {
		ids[i] = e.ID
	}
	return ids
}

// jobs lists what the filter selects, at most 10,000.
func jobs(t *testing.T, c *penstock.Client, f penstock.Filter) []penstock.JobInfo {
	t.Helper()
	f.N = 10_000
	js, err := c.Jobs(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// eventually waits for something that nobody tells of: it looks every so often.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for !done() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("after %v the test still waits for %s", patience, what)
		}
	}
}

// connect connects to a store's database as anybody may, without Penstock.
func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn) // it takes out what only a pool knows
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
