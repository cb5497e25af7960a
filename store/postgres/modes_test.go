package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store"
)

// TestWithinAnyMode: a program may have its driver send statements in any of its
// ways, also those that poolers demand. A conflict leaves the transaction usable.
func TestWithinAnyMode(t *testing.T) {
	dsn := pgtest.DSN(t)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			r := rigOn(t, dsn)
			r.declare("api", "1000/s")
			cfg, err := pgxpool.ParseConfig(r.plain)
			r.must(err)
			cfg.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(r.ctx(), cfg)
			r.must(err)
			defer pool.Close()
			keyed := newJob("api")
			keyed.Unique, keyed.Group = `a "quoted" \ key, {with} NULL`, `é'"\`
			keyed.Payload = []byte{0, 1, 2, 255, '\\', '\''}
			call := newJob()
			call.Run, call.Ref, call.Hash = "run", "c-1", "h"
			rival := r.pgxGuest("READ COMMITTED")
			there, err := r.within(rival.tx, keyed)
			r.must(err)
			tx, err := pool.Begin(r.ctx())
			r.must(err)
			defer func() { _ = tx.Rollback(context.Background()) }()
			out := make(chan error, 1)
			go func() {
				got, err := r.within(tx, keyed, call, newJob())
				if err == nil && (got[0].Verdict != store.Duplicate || got[0].ID != there[0].ID || got[1].Verdict != store.Created) {
					err = fmt.Errorf("%+v: expected a duplicate of %d, and two jobs", got, there[0].ID)
				}
				out <- err
			}()
			r.waitsOn(rival.pid)
			r.must(rival.commit())
			r.must(<-out)
			_, err = tx.Exec(r.ctx(), `SELECT 1`)
			r.must(err)
			r.must(tx.Commit(r.ctx()))
			j, err := r.st.Job(r.ctx(), there[0].ID)
			r.must(err)
			if j.Unique != keyed.Unique || j.Group != keyed.Group || string(j.Payload) != string(keyed.Payload) {
				t.Errorf("%q %q %q came back", j.Unique, j.Group, j.Payload)
			}
			r.register("w")
			if n := r.drain("w"); n != 3 {
				t.Errorf("%d jobs ended, want 3", n)
			}
		})
	}
}

// TestErrorsByState: what the server says, and what becomes of it.
func TestErrorsByState(t *testing.T) {
	for state, want := range map[string]error{
		"40001": errConflict, "40P01": errConflict, "23505": errConflict, "25P03": errConflict, "57P01": errConflict,
		"55P03": store.ErrBusy, "25006": ErrReadOnly, "42501": ErrPrivileges, "53300": ErrFull, "53100": ErrDiskFull,
	} {
		err := translate(fmt.Errorf("batch: %w", &pgconn.PgError{Code: state, Message: "m"}))
		var pg *pgconn.PgError
		if !errors.Is(err, want) || !errors.As(err, &pg) || pg.Code != state {
			t.Errorf("%s: %v, want %v", state, err, want)
		}
	}
}

// TestBusyIsSaid: whoever waits for longer than a transaction may take is told what
// for, and does no harm meanwhile.
func TestBusyIsSaid(t *testing.T) {
	r := newRig(t)
	j := newJob()
	j.Unique = "key"
	g := r.pgxGuest("READ COMMITTED")
	_, err := r.within(g.tx, j)
	r.must(err)
	ctx, cancel := context.WithTimeout(r.ctx(), 500*time.Millisecond)
	defer cancel()
	_, err = r.st.Insert(ctx, []store.NewJob{j})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: expected the caller's deadline", err)
	}
	if w := r.waitersOn(g.pid); len(w) > 0 {
		r.soon("nobody waits any more", func() bool { return len(r.waitersOn(g.pid)) == 0 })
	}
	j.Replace = true
	_, err = r.st.Insert(r.ctx(), []store.NewJob{j})
	if !errors.Is(err, store.ErrBusy) || !errors.Is(err, errTaken) {
		t.Errorf("%v: expected %v, and what has it", err, store.ErrBusy)
	}
	t.Log(err)
}

// TestDefaultsOfTheRole: a role's default isolation is for its own transactions. The store's
// statements that are transactions by themselves, and all others, do not meet it.
func TestDefaultsOfTheRole(t *testing.T) {
	r := newRig(t)
	u, err := url.Parse(r.dsn)
	r.must(err)
	q := u.Query()
	q.Set("default_transaction_isolation", "serializable")
	u.RawQuery = q.Encode()
	st := r.open(u.String())
	for name, pool := range map[string]*pgxpool.Pool{"writers": st.db.writers, "others": st.db.others} {
		var level string
		r.must(pool.QueryRow(r.ctx(), `SHOW transaction_isolation`).Scan(&level))
		if level != "read committed" {
			t.Errorf("%s: statements run as %s transactions, want read committed", name, level)
		}
	}
}
