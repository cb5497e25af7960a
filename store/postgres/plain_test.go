package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// short inserts jobs the short way, and fails the test if that is not to be had.
func (r *rig) short(d *db, jobs ...store.NewJob) []store.Inserted {
	r.t.Helper()
	out, done, err := d.insertPlain(r.ctx(), jobs)
	r.must(err)
	if !done {
		r.t.Fatal("the jobs were not written the short way")
	}
	return out
}

// TestPlainJobsAreWrittenAlike: what the short way writes is what the engine's way
// does, in every way to send statements.
func TestPlainJobsAreWrittenAlike(t *testing.T) {
	dsn := pgtest.DSN(t)
	const now = 4_000_000_000_000_000
	jobs := []store.NewJob{newJob(), newJob("api"), newJob("key/1"), newJob("key/2", "api"), newJob(), newJob("api"), newJob("key/1")}
	jobs[0].Payload = nil
	jobs[1].At, jobs[5].At = now+1000, now+10
	jobs[2].At, jobs[6].At = now+7, 5
	jobs[3].ExpiresAt, jobs[3].Group = now+5, `a "quoted" \ group, {with} NULL`
	jobs[4].Payload = []byte{0, 1, 2, 255, '\\', '\''}
	jobs[4].Options.Timeout = time.Minute.Microseconds()
	want := ""
	for _, way := range []string{"engine", "short", "short, pooler"} {
		r := rigOn(t, dsn)
		r.declare("api", "1000/s")
		r.declare("key/*", "1000/s")
		in := r.dsn
		if way == "short, pooler" {
			in += "&pooler=transaction"
		}
		d := open(t, in, Options{Now: func() int64 { return now }})
		t.Cleanup(func() { _ = d.Close() })
		e := engine.New(d)
		insert := func() []store.Inserted { return r.short(d, jobs...) }
		if way == "engine" {
			insert = func() []store.Inserted {
				out, err := e.Insert(r.ctx(), jobs)
				r.must(err)
				return out
			}
		}
		_, err := e.Insert(r.ctx(), jobs) // makes the lanes
		r.must(err)
		got := ""
		for _, in := range insert() {
			got += fmt.Sprintln(in)
		}
		for _, table := range []string{"job", "body", "wake"} {
			rows, err := r.pool.Query(r.ctx(), r.text(`SELECT x::text FROM penstock.`+table+` x ORDER BY 1`))
			r.must(err)
			texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
			r.must(err)
			got += table + "\n" + strings.Join(texts, "\n") + "\n"
		}
		if want == "" {
			want = got
		} else if got != want {
			t.Errorf("%s wrote\n%s\nwant\n%s", way, got, want)
		}
	}
}

// TestPlainJobsByTheServersClock: without a clock of its own, a store has the
// server's, also in what it writes the short way.
func TestPlainJobsByTheServersClock(t *testing.T) {
	r := newRig(t)
	r.insert(newJob())
	before, err := r.st.Now(r.ctx())
	r.must(err)
	in := r.short(r.st.db, newJob())
	after, err := r.st.Now(r.ctx())
	r.must(err)
	j, err := r.st.Job(r.ctx(), in[0].ID)
	r.must(err)
	if j.At < before || j.At > after || j.EnqueuedAt != j.At {
		t.Errorf("due at %d, enqueued at %d: expected both between %d and %d", j.At, j.EnqueuedAt, before, after)
	}
	if at := value[int64](r, `SELECT at FROM penstock.wake ORDER BY id DESC LIMIT 1`); at != j.At {
		t.Errorf("announced for %d, due at %d", at, j.At)
	}
}

// TestPlainJobsAreChecked: jobs whose lane is known are refused as all others, also when
// another process changed the limits since.
func TestPlainJobsAreChecked(t *testing.T) {
	r := newRig(t)
	another := r.open(r.dsn)
	r.declare("key/*", "10/s")
	costly, cheap := newJob("key/1"), newJob("key/1", "key/2")
	costly.Draws[0].Cost = 5
	jobs := []store.NewJob{cheap, costly}
	r.insert(jobs...)
	r.short(r.st.db, jobs...)
	change := func(do func(context.Context, string, limit.Spec) error, name, spec string) {
		t.Helper()
		s, err := limit.Parse(spec)
		r.must(err)
		r.must(do(r.ctx(), name, s))
	}
	refused := func(why string) {
		t.Helper()
		before := value[int](r, `SELECT count(*) FROM penstock.job`)
		_, err := r.st.Insert(r.ctx(), jobs)
		var at *store.InsertError
		var cost *limit.CostError
		if !errors.As(err, &at) || at.Index != 1 || !errors.As(err, &cost) {
			t.Errorf("%s: %v, expected the second job's cost to be refused", why, err)
		}
		if n := value[int](r, `SELECT count(*) FROM penstock.job`) - before; n > 0 {
			t.Errorf("%s: %d jobs were written", why, n)
		}
	}
	change(another.SetLimit, "key/1", "4/s")
	refused("the key got a limit of its own")
	r.must(another.ResetLimit(r.ctx(), "key/1"))
	change(another.SetLimit, "key/1", "10/s")
	r.insert(jobs...)
	r.short(r.st.db, jobs...)
	change(another.SetLimit, "key/*", "3/s")
	change(another.SetLimit, "key/1", "3/s")
	r.insert(cheap) // one lane is known with what is new, the other one with what was
	refused("both were set")
	r.must(another.ResetLimit(r.ctx(), "key/1"))
	r.must(another.ResetLimit(r.ctx(), "key/*"))
	r.declare("api", "10/s")
	jobs[1] = newJob("api")
	jobs[1].Draws[0].Cost = 5
	r.insert(jobs...)
	r.short(r.st.db, jobs...)
	change(another.DeclareLimit, "api", "4/s")
	refused("code declared it anew")
	change(another.DeclareLimit, "api", "5/s")
	r.insert(jobs...)
	r.short(r.st.db, jobs...)
}

// TestJobsThatAreNotPlain: what refers to others, or is wrong, goes the engine's way, also
// if its lane is known.
func TestJobsThatAreNotPlain(t *testing.T) {
	r := newRig(t)
	run := newJob()
	run.Run = "run"
	r.insert(newJob(), run)
	r.short(r.st.db, newJob())
	for name, change := range map[string]func(*store.NewJob){
		"instant": func(j *store.NewJob) { j.At = -1 },
		"expiry":  func(j *store.NewJob) { j.ExpiresAt = engine.MaxInstant + 1 },
		"key":     func(j *store.NewJob) { j.Options.IdempotencyKey = "\x00" },
		"unique":  func(j *store.NewJob) { j.Unique = "key" },
		"replace": func(j *store.NewJob) { j.Unique, j.Replace = "key", true },
		"run":     func(j *store.NewJob) { j.Run = "run" },
		"call":    func(j *store.NewJob) { j.Run, j.Ref = "run", "1" },
	} {
		j := newJob()
		change(&j)
		if _, done, err := r.st.db.insertPlain(r.ctx(), []store.NewJob{newJob(), j}); done || err != nil {
			t.Errorf("%s: done: %t, %v", name, done, err)
		}
	}
	wrong := newJob()
	wrong.At = -1
	_, err := r.st.Insert(r.ctx(), []store.NewJob{newJob(), wrong})
	var at *store.InsertError
	if !errors.As(err, &at) || at.Index != 1 {
		t.Errorf("%v, expected the second job to be refused", err)
	}
	if n := value[int](r, `SELECT count(*) FROM penstock.job`); n != 3 {
		t.Errorf("%d jobs are there, want 3", n)
	}
}

// TestPlainJobsOnAFencedServer: nothing is written past default_transaction_read_only.
func TestPlainJobsOnAFencedServer(t *testing.T) {
	r := newRig(t)
	r.insert(newJob())
	r.short(r.st.db, newJob())
	name := quote(value[string](r, `SELECT current_database()`))
	r.exec(`ALTER DATABASE ` + name + ` SET default_transaction_read_only = on`)
	pool := r.st.db.others
	pool.Reset()
	var conns []*pgxpool.Conn
	for range 3 { // that lead to a server which takes no writes
		c, err := pool.Acquire(r.ctx())
		r.must(err)
		conns = append(conns, c)
	}
	for _, c := range conns {
		c.Release()
	}
	if _, done, err := r.st.db.insertPlain(r.ctx(), []store.NewJob{newJob()}); !done || !errors.Is(err, ErrReadOnly) {
		t.Errorf("%v (done: %t), want %v", err, done, ErrReadOnly)
	}
	r.exec(`BEGIN READ WRITE; ALTER DATABASE ` + name + ` RESET default_transaction_read_only; COMMIT`)
	r.short(r.st.db, newJob()) // by new connections, since the others were left
}

// TestPlainJobsWhoseAnswerIsLost: nobody knows whether they were written, so it is an
// error, and they are not written again.
func TestPlainJobsWhoseAnswerIsLost(t *testing.T) {
	r := newRig(t)
	link := pgtest.Proxy(t, r.dsn+"&pooler=transaction")
	d := r.open(link.DSN()).db
	_, err := engine.New(d).Insert(r.ctx(), []store.NewJob{newJob()})
	r.must(err)
	lost := link.SwallowAnswers()
	go func() {
		<-lost
		link.Cut()
	}()
	if _, done, err := d.insertPlain(r.ctx(), []store.NewJob{newJob()}); !done || err == nil {
		t.Errorf("%v (done: %t), expected an error, and no second try", err, done)
	}
	if n := value[int](r, `SELECT count(*) FROM penstock.job`); n != 2 {
		t.Errorf("%d jobs are there, want 2", n)
	}
}

// TestPlainJobsOverAnEndedSession: the server ended the session before it ran the
// statement, and said so. The jobs are written by another one, once.
func TestPlainJobsOverAnEndedSession(t *testing.T) {
	r := newRig(t)
	r.insert(newJob())
	for range 3 {
		r.exec(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'penstock'`)
		r.insert(newJob())
	}
	if n := value[int](r, `SELECT count(*) FROM penstock.job`); n != 4 {
		t.Errorf("%d jobs are there, want 4", n)
	}
}

// TestPlainJobsAreFound: watchers are told, and jobs of one call have ids in its order.
func TestPlainJobsAreFound(t *testing.T) {
	r := newRig(t)
	r.register("w")
	r.insert(newJob())
	r.drain("w")
	hub, told := r.st.db.hub, make(chan struct{}, 1)
	hub.mu.Lock()
	hub.watchers[told] = true // without those who look by themselves now and then
	hub.mu.Unlock()
	var ids []int64
	for _, in := range r.short(r.st.db, slices.Repeat([]store.NewJob{newJob()}, 500)...) {
		ids = append(ids, in.ID)
	}
	if len(told) == 0 {
		t.Error("those who watch were not told")
	}
	if !slices.IsSorted(ids) {
		t.Errorf("ids are not in order: %v", ids)
	}
	if n := r.drain("w"); n != len(ids) {
		t.Errorf("%d jobs ended, want %d", n, len(ids))
	}
	r.nothingStranded()
}
