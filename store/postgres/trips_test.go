package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock/store"
)

// trips counts what goes to the server and is waited for.
type trips struct {
	mu  sync.Mutex
	sql []string
}

func (c *trips) note(sql string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sql = append(c.sql, sql)
}

// take returns what went to the server since the last time.
func (c *trips) take() (sql []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sql, c.sql = c.sql, nil
	return sql
}

func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	var text strings.Builder
	for _, q := range b.Batch.QueuedQueries {
		text.WriteString(q.SQL[:min(60, len(q.SQL))] + "; ")
	}
	c.note(text.String())
	return ctx
}
func (c *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	// Nobody waits for a notification or the end of a look, and settings come once in a connection.
	if !strings.Contains(q.SQL, "pg_notify") && q.SQL != setConnection && q.SQL != "ROLLBACK" {
		c.note(q.SQL)
	}
	return ctx
}
func (c *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *trips) open(t *testing.T, dsn string) *Store {
	t.Helper()
	return openWith(t, dsn, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = c })
}

// TestRoundTripsAreBounded: what is done all the time takes a number of trips to the
// server that does not depend on how many jobs, lanes and limits it is about.
func TestRoundTripsAreBounded(t *testing.T) {
	r := newRig(t)
	r.declare("api", "100000/s")
	r.declare("key/*", "100000/s")
	r.register("w")
	for _, size := range []int{1, 50} {
		c := new(trips)
		st := c.open(t, r.dsn)
		bound := func(what string, most int, do func() error) {
			t.Helper()
			c.take()
			r.must(do())
			sql := slices.DeleteFunc(c.take(), looksForEnds) // nobody waits for them
			n := len(sql)
			t.Logf("%d jobs, %s: %d trips", size, what, n)
			if n > most {
				t.Errorf("%d jobs, %s: %d trips to the server, want at most %d:\n%s", size, what, n, most, strings.Join(sql, "\n"))
			}
		}
		plain, keyed := make([]store.NewJob, size), make([]store.NewJob, size)
		for i := range size {
			plain[i], keyed[i] = newJob(), newJob("api", fmt.Sprint("key/", i))
			keyed[i].Unique = fmt.Sprint(size, "/", i)
			keyed[i].Run, keyed[i].Ref, keyed[i].Hash = "run", keyed[i].Unique, "h"
		}
		insert := func(jobs []store.NewJob) func() error {
			return func() error { _, err := st.Insert(r.ctx(), jobs); return err }
		}
		bound("insert into new lanes", 8, insert(keyed))
		again := append([]store.NewJob(nil), keyed...)
		for i := range again {
			again[i].Unique += "again"
			again[i].Ref = again[i].Unique
		}
		bound("insert, keyed", 2, insert(again))
		bound("insert, plain", 8, insert(plain))
		bound("insert, plain, lane known", 1, insert(plain))
		var started []store.Inserted
		start := func() (err error) {
			started, err = st.Insert(r.ctx(), []store.NewJob{r.wish("idle")})
			return err
		}
		bound("insert, to be started", 8, start)
		bound("insert, to be started, lane known", 1, start)
		if started[0].Started == nil {
			t.Errorf("%+v was not started", started[0])
		}
		bound("finish what was started", 1, func() error {
			_, err := st.Finish(r.ctx(), finishesOf("w", []store.Claimed{*started[0].Started}))
			return err
		})
		limited := make([]store.NewJob, size)
		for i := range limited {
			limited[i] = newJob("api", fmt.Sprint("key/", i))
		}
		bound("insert, with limits", 8, insert(limited))
		bound("insert, with limits, lanes known", 1, insert(limited))
		for range 6 {
			var res store.ClaimResult
			bound("claim", 5, func() (err error) {
				req := r.request("w", 100)
				req.Places = 2 * size
				res, err = st.Claim(r.ctx(), req)
				return err
			})
			fs := finishesOf("w", res.Jobs)
			bound("finish", 1, func() error { _, err := st.Finish(r.ctx(), fs); return err })
		}
		r.drain("w") // what was announced and is left would come first
		// It reads all in one trip where the bands are those that the claim before served.
		for _, backlog := range []int{1, 3} {
			for range 3 {
				for range backlog {
					r.must(insert(plain)())
				}
				left := backlog * size
				for range backlog {
					var res store.ClaimResult
					bound("claim, as before", 2, func() (err error) {
						req := r.request("w", size)
						req.More = true
						res, err = st.Claim(r.ctx(), req)
						return err
					})
					left -= len(res.Jobs)
					_, err := st.Finish(r.ctx(), finishesOf("w", res.Jobs))
					r.must(err)
				}
				if left != 0 {
					t.Errorf("%d jobs were not brought", left)
				}
			}
		}
		bound("heartbeat", 3, func() error { _, err := st.Heartbeat(r.ctx(), "w"); return err })
		bound("claim, nothing there", 1, func() error {
			req := r.request("w", 100)
			req.Kinds = []string{"another"}
			_, err := st.Claim(r.ctx(), req)
			return err
		})
	}
}

// TestManyNewLanes: one insert of as many keys of a limit as jobs.
func TestManyNewLanes(t *testing.T) {
	r := newRig(t)
	r.declare("shop/*", "1000/s")
	jobs := make([]store.NewJob, 20_000)
	for i := range jobs {
		jobs[i] = newJob(fmt.Sprint("shop/", i))
	}
	c := new(trips)
	_, err := c.open(t, r.dsn).Insert(r.ctx(), jobs)
	r.must(err)
	if n := value[int](r, `SELECT count(*) FROM penstock.lane`); n != len(jobs) {
		t.Errorf("%d lanes, want %d", n, len(jobs))
	}
	// All others wait for a transaction that makes lanes, so it makes few of them.
	made := 0
	for _, sql := range c.take() {
		made += strings.Count(sql, "lane_id")
	}
	if want := len(jobs) / lanesAtOnce; made != want {
		t.Errorf("lanes were made %d times, want %d", made, want)
	}
	r.insert(jobs[:100]...)
	if n := value[int](r, `SELECT count(*) FROM penstock.lane`); n != len(jobs) {
		t.Errorf("%d lanes after the same keys again, want %d", n, len(jobs))
	}
}
