package penstock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/postgres"
)

// onServer makes the tables in a fresh database, and returns how to reach it, and a
// pool of the user's own with a table of the user's own.
func onServer(t *testing.T) (dsn string, users *pgxpool.Pool) {
	t.Helper()
	dsn = pgtest.DSN(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	users, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(users.Close)
	if _, err := users.Exec(t.Context(), `CREATE TABLE paid (job bigint)`); err != nil {
		t.Fatal(err)
	}
	return dsn, users
}

// clientOn opens a client, as a process of its own would.
func clientOn(t *testing.T, dsn string, cfg penstock.Config) *penstock.Client {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	c, err := penstock.Open(t.Context(), dsn, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func begin(t *testing.T, users *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := users.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// eventually waits for what others bring about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after 30 s", what)
		}
	}
}

// TestH1_WorkersBesideOpenTransaction: while a caller's transaction with jobs stays
// open, workers run everything else; its own jobs run soon after its commit, and
// never if it rolls back. Also by way of a pooler.
func TestH1_WorkersBesideOpenTransaction(t *testing.T) {
	for _, pooled := range []bool{false, true} {
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			name := string(level)
			if pooled {
				name += ", pooled"
			}
			t.Run(name, func(t *testing.T) {
				dsn, users := onServer(t)
				if pooled {
					dsn = pgtest.Bouncer(t, dsn)
					dsn += map[bool]string{true: "&", false: "?"}[strings.Contains(dsn, "?")] + "pooler=transaction"
				}
				cfg := penstock.Config{Limits: map[string]string{"api": "500/s, 2 in flight"}}
				one, two := clientOn(t, dsn, cfg), clientOn(t, dsn, cfg)
				var seen calls
				for _, c := range []*penstock.Client{one, two} {
					handle(t, c, "pay", penstock.Kind{Limits: penstock.Draws("api")}, func(_ context.Context, j *penstock.Job[string]) error {
						seen.note(j.Args)
						return nil
					})
				}
				working(t, one, penstock.WorkOptions{})
				tx := begin(t, users, level)
				if _, err := one.EnqueueTx(t.Context(), tx, "pay", "committed", penstock.Unique("committed")); err != nil {
					t.Fatal(err)
				}
				rolled := begin(t, users, level)
				if _, err := two.EnqueueTx(t.Context(), rolled, "pay", "rolled back", penstock.Unique("rolled back")); err != nil {
					t.Fatal(err)
				}
				for range 30 {
					enqueue(t, two, "pay", "other")
				}
				eventually(t, "the others have run", func() bool { return seen.count("other") == 30 })
				if n := seen.count("committed") + seen.count("rolled back"); n != 0 {
					t.Errorf("%d jobs of open transactions ran", n)
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := rolled.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
				enqueue(t, two, "pay", "rolled back, and then not", penstock.Unique("rolled back"))
				eventually(t, "both have run", func() bool { return seen.count("committed") == 1 && seen.count("rolled back, and then not") == 1 })
				drain(t, two, penstock.WorkOptions{})
				if n := seen.count("rolled back"); n != 0 {
					t.Error("a job ran whose transaction was rolled back")
				}
			})
		}
	}
}

// TestH11_OnceTxOfALostLease: a handler is in the middle of an effect, inside a
// transaction of its own, when its process loses touch with the store. Another process
// takes the job over and comes to the same effect. The effect happens once.
func TestH11_OnceTxOfALostLease(t *testing.T) {
	dsn, users := onServer(t)
	link := pgtest.Proxy(t, dsn)
	cfg := penstock.Config{Lease: 3 * time.Second}
	lost, other := clientOn(t, link.DSN(), cfg), clientOn(t, dsn, cfg)
	inside, goOn := make(chan bool, 1), make(chan bool)
	var effects atomic.Int64
	pay := func(wait bool) func(context.Context, *penstock.Job[string]) error {
		return func(ctx context.Context, j *penstock.Job[string]) error {
			ctx = context.WithoutCancel(ctx) // it does not listen
			tx, err := users.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(ctx)
			_, err = penstock.OnceTx(ctx, tx, "pay", func(ctx context.Context) (int64, error) {
				effects.Add(1)
				if wait {
					inside <- true
					<-goOn
				}
				_, err := tx.Exec(ctx, `INSERT INTO paid VALUES ($1)`, j.ID)
				return j.ID, err
			})
			if err != nil {
				return err
			}
			return tx.Commit(ctx)
		}
	}
	handle(t, lost, "pay", penstock.Kind{}, pay(true))
	handle(t, other, "pay", penstock.Kind{}, pay(false))
	id := enqueue(t, other, "pay", "")
	stopLost := working(t, lost, penstock.WorkOptions{Grace: time.Second})
	<-inside
	link.Swallow()
	working(t, other, penstock.WorkOptions{})
	eventually(t, "taken over", func() bool { j := job(t, other, id); return j.State == store.Running && j.Losses > 0 || j.Suspect })
	// The other start waits for the transaction: the user's database says so.
	eventually(t, "the other start waits, or has failed for now", func() bool {
		var n int
		err := users.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0`).Scan(&n)
		return err == nil && n > 0
	})
	link.Pass()
	close(goOn)
	eventually(t, "done", func() bool { return job(t, other, id).State == store.Done })
	stopLost()
	var n int
	if err := users.QueryRow(t.Context(), `SELECT count(*) FROM paid`).Scan(&n); err != nil || n != 1 {
		t.Errorf("it was paid %d times (%v), want once", n, err)
	}
}

// TestPasswordsStayOutOfErrors: whatever is wrong with how to reach the server.
func TestPasswordsStayOutOfErrors(t *testing.T) {
	const secret = "s3cr3t-pass"
	for _, dsn := range []string{
		"postgres://user:" + secret + "@127.0.0.1:1/db",
		"postgres://user:" + secret + "@nowhere.invalid/db?connect_timeout=2",
		"postgres://user:" + secret + "@127.0.0.1:notaport/db",
		"postgres://user:" + secret + "@127.0.0.1:1/db?sslmode=perhaps",
		"postgres://user:" + secret + "@127.0.0.1:1/db?pooler=session",
		"postgres://user:" + secret + "@127.0.0.1:1/db?pool_max_conns=many",
		"postgres://user:" + secret + "@127.0.0.1:1/db?schema=" + strings.Repeat("x", 100),
		"postgres://user:%zz" + secret + "@127.0.0.1:1/db",
		"postgres://127.0.0.1:1/db?password=" + secret,
		"postgres://127.0.0.1:1/db?user=u&password=" + secret + "&sslmode=perhaps",
	} {
		_, err := penstock.Open(t.Context(), dsn, penstock.Config{Logger: quiet()})
		for _, err := range []error{err, postgres.Migrate(t.Context(), dsn)} {
			for e := err; e != nil; e = errors.Unwrap(e) {
				if strings.Contains(e.Error(), secret) {
					t.Errorf("%s: the error has the password: %v", strings.ReplaceAll(dsn, secret, "***"), e)
				}
			}
			if err == nil {
				t.Errorf("%s: no error", dsn)
			}
		}
	}
}
