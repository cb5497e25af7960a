package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// rig is a store in a schema of the test's own, and connections beside it.
type rig struct {
	t      testing.TB
	st     *Store
	dsn    string // with the schema
	schema string
	plain  string // without it, as a user's program would have it
	pool   *pgxpool.Pool
	sql    *sql.DB
	token  atomic.Int64
}

// newRig opens a store in a database of the test's own.
func newRig(t testing.TB) *rig {
	t.Helper()
	return rigOn(t, pgtest.DSN(t))
}

func rigOn(t testing.TB, dsn string) *rig {
	t.Helper()
	in := inSchema(t, dsn)
	u, err := url.Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dsn: in, plain: dsn, schema: u.Query().Get("schema")}
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 40
	if r.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.pool.Close)
	if r.sql, err = sql.Open("pgx", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.sql.Close() })
	r.st = r.open(in)
	return r
}

// open opens a store, as another process would.
func (r *rig) open(dsn string) *Store {
	r.t.Helper()
	st, err := Open(context.Background(), dsn, Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = st.Close() })
	return st
}

// ctx bounds what a test waits for: what takes longer hangs.
func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// text puts the schema's name into a statement.
func (r *rig) text(sql string) string {
	return strings.ReplaceAll(sql, DefaultSchema+".", quote(r.schema)+".")
}

// exec runs a statement beside the store.
func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	_, err := r.pool.Exec(r.ctx(), r.text(sql), args...)
	r.must(err)
}

// value reads one value beside the store.
func value[T any](r *rig, sql string, args ...any) (v T) {
	r.t.Helper()
	r.must(r.pool.QueryRow(r.ctx(), r.text(sql), args...).Scan(&v))
	return v
}

// newJob is a job of kind k in queue q, with draws on the limits.
func newJob(limits ...string) store.NewJob {
	j := store.NewJob{LaneKey: store.LaneKey{Queue: "q", Kind: "k", Priority: 5}, Payload: []byte(`1`)}
	for _, l := range limits {
		j.Draws = append(j.Draws, dispatch.Draw{Limit: l, Cost: 1})
	}
	return j
}

func (r *rig) insert(jobs ...store.NewJob) []store.Inserted {
	r.t.Helper()
	out, err := r.st.Insert(r.ctx(), jobs)
	r.must(err)
	return out
}

// within inserts in a caller's transaction.
func (r *rig) within(tx any, jobs ...store.NewJob) (out []store.Inserted, err error) {
	err = r.st.Within(r.ctx(), tx, func(t engine.Tx) error {
		out, err = engine.Insert(t, jobs)
		return err
	})
	return out, err
}

func (r *rig) register(id string) {
	r.t.Helper()
	r.must(r.st.Register(r.ctx(), store.Worker{ID: id, Kinds: []string{"k"}, Lease: time.Minute}))
}

func (r *rig) request(worker string, places int) store.ClaimRequest {
	return store.ClaimRequest{Worker: worker, Token: r.token.Add(1), Kinds: []string{"k"}, Places: places, Horizon: 50 * time.Millisecond, SuspectFree: true}
}

func (r *rig) claim(worker string, places int) []store.Claimed {
	r.t.Helper()
	res, err := r.st.Claim(r.ctx(), r.request(worker, places))
	r.must(err)
	return res.Jobs
}

// finish ends claimed jobs as done, and fails the test if one is refused.
func (r *rig) finish(worker string, jobs []store.Claimed) {
	r.t.Helper()
	for _, f := range r.finishing(worker, jobs) {
		r.must(f.Err)
	}
}

func (r *rig) finishing(worker string, jobs []store.Claimed) []store.Finished {
	r.t.Helper()
	out, err := r.st.Finish(r.ctx(), finishesOf(worker, jobs))
	r.must(err)
	return out
}

func finishesOf(worker string, jobs []store.Claimed) (fs []store.Finish) {
	for _, j := range jobs {
		fs = append(fs, store.Finish{ID: j.ID, Worker: worker, Token: j.Token, Outcome: store.OutcomeDone, Started: 1})
	}
	return fs
}

// drain claims and finishes until nothing is startable, and returns how many ended.
func (r *rig) drain(worker string) (n int) {
	r.t.Helper()
	for {
		res, err := r.st.Claim(r.ctx(), r.request(worker, 100))
		r.must(err)
		fs := finishesOf(worker, res.Jobs)
		for i := range fs {
			fs[i].Scarce = true // what they give back is waited for
		}
		_, err = r.st.Finish(r.ctx(), fs)
		r.must(err)
		n += len(res.Jobs)
		if len(res.Jobs) == 0 && res.NextAt > res.Now+time.Second.Microseconds() && value[int](r, `SELECT count(*) FROM penstock.wake`) == 0 {
			return n // what ended a moment ago is still announced, perhaps
		}
	}
}

// nothingStranded sweeps all lanes, and wants no find.
func (r *rig) nothingStranded() {
	r.t.Helper()
	for range 1 + value[int](r, `SELECT count(*) FROM penstock.lane`)/200 {
		finds, err := r.st.Sweep(r.ctx())
		r.must(err)
		if finds > 0 {
			r.t.Errorf("the sweep found %d lanes that should have been awake", finds)
		}
	}
}

func (r *rig) declare(name, spec string) {
	r.t.Helper()
	s, err := limit.Parse(spec)
	r.must(err)
	r.must(r.st.DeclareLimit(r.ctx(), name, s))
}

// guest is a caller's own transaction, by whatever driver.
type guest struct {
	tx       any
	commit   func() error
	rollback func() error
	exec     func(sql string) error
	pid      int32
}

// isolations are those that a caller's transaction may have.
var isolations = []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

// drivers are ways to begin a caller's transaction.
var drivers = map[string]func(r *rig, isolation string) *guest{"pgx": (*rig).pgxGuest, "database/sql": (*rig).sqlGuest}

func (r *rig) pgxGuest(isolation string) *guest {
	r.t.Helper()
	ctx := r.ctx()
	tx, err := r.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(strings.ToLower(isolation))})
	r.must(err)
	r.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return &guest{tx: tx, pid: int32(tx.Conn().PgConn().PID()),
		commit:   func() error { return tx.Commit(ctx) },
		rollback: func() error { return tx.Rollback(ctx) },
		exec:     func(sql string) error { _, err := tx.Exec(ctx, sql); return err }}
}

func (r *rig) sqlGuest(isolation string) *guest {
	r.t.Helper()
	levels := map[string]sql.IsolationLevel{"READ COMMITTED": sql.LevelReadCommitted, "REPEATABLE READ": sql.LevelRepeatableRead, "SERIALIZABLE": sql.LevelSerializable}
	tx, err := r.sql.BeginTx(r.ctx(), &sql.TxOptions{Isolation: levels[isolation]})
	r.must(err)
	r.t.Cleanup(func() { _ = tx.Rollback() })
	g := &guest{tx: tx, commit: tx.Commit, rollback: tx.Rollback, exec: func(sql string) error { _, err := tx.Exec(sql); return err }}
	r.must(tx.QueryRow(`SELECT pg_backend_pid()`).Scan(&g.pid))
	return g
}

// eachGuest runs a test with every driver and isolation level.
func eachGuest(t *testing.T, fn func(t *testing.T, r *rig, begin func() *guest, isolation string)) {
	dsn := pgtest.DSN(t)
	for driver, begin := range drivers {
		for _, isolation := range isolations {
			t.Run(fmt.Sprintf("%s/%s", driver, isolation), func(t *testing.T) {
				r := rigOn(t, dsn)
				fn(t, r, func() *guest { return begin(r, isolation) }, isolation)
			})
		}
	}
}

// waitersOn tells who waits for a lock that the backend holds, now.
func (r *rig) waitersOn(pid int32) (texts []string) {
	r.t.Helper()
	rows, err := r.pool.Query(r.ctx(), `SELECT left(query, 200) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, pid)
	r.must(err)
	texts, err = pgx.CollectRows(rows, pgx.RowTo[string])
	r.must(err)
	return texts
}

// waitsOn waits until somebody waits for a lock that the backend holds.
func (r *rig) waitsOn(pid int32) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); len(r.waitersOn(pid)) == 0; {
		if time.Now().After(end) {
			r.t.Fatal("nobody waits for the transaction")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// soon waits until a condition holds that others bring about.
func (r *rig) soon(what string, holds func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: not after 30 s", what)
		}
	}
}

// plan is EXPLAIN's tree.
type plan map[string]any

func (p plan) each(fn func(plan)) {
	fn(p)
	subs, _ := p["Plans"].([]any)
	for _, s := range subs {
		plan(s.(map[string]any)).each(fn)
	}
}

func (p plan) String() string {
	b, _ := json.MarshalIndent(p, "", " ")
	return string(b)
}

// openWith opens a store over pools whose configuration the test changes.
func openWith(t *testing.T, dsn string, change func(*pgxpool.Config)) *Store {
	t.Helper()
	st, err := Open(context.Background(), dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := configure(dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	change(cfg)
	for _, pool := range []**pgxpool.Pool{&st.db.writers, &st.db.others} {
		(*pool).Close()
		if *pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}
