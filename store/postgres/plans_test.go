package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// explainer is a server that sends the plan of every statement that it has run, with
// what it cost, as a notice.
func explainer(t *testing.T) *pgtest.Postgres {
	return pgtest.Server(t, pgtest.Options{Conf: map[string]string{
		"shared_preload_libraries":      "auto_explain",
		"auto_explain.log_min_duration": "0",
		"auto_explain.log_analyze":      "on",
		"auto_explain.log_buffers":      "on",
		"auto_explain.log_timing":       "off",
		"auto_explain.log_format":       "json",
		"auto_explain.log_level":        "notice",
		"autovacuum":                    "off",
		"shared_buffers":                "256MB",
		"max_wal_size":                  "4GB",
	}})
}

// explained is a statement that a server has run.
type explained struct {
	sql  string
	plan plan
}

// buffers are the pages that it looked at.
func (e explained) buffers() float64 {
	hit, _ := e.plan["Shared Hit Blocks"].(float64)
	read, _ := e.plan["Shared Read Blocks"].(float64)
	return hit + read
}

// explaining opens a store whose statements are noted.
type explaining struct {
	mu   sync.Mutex
	list []explained
}

func (e *explaining) open(t *testing.T, dsn string) *Store {
	t.Helper()
	return openWith(t, dsn, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { e.note(n.Message) }
		cfg.MaxConns = 1 // which has all plans that it cached
	})
}

func (e *explaining) note(message string) {
	_, text, ok := strings.Cut(message, "plan:\n")
	if !ok {
		return
	}
	var read struct {
		Query string `json:"Query Text"`
		Plan  plan
	}
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		panic(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, explained{read.Query, read.Plan})
}

func (e *explaining) take() []explained {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	return list
}

// fill writes 1,000,000 waiting jobs: half of them in one lane without limits, the
// others in 100,000 lanes, ready or sleeping, at 50,000 gates, half of them open; 200,000 that ended; and what belongs to them.
func (r *rig) fill() {
	r.t.Helper()
	for _, sql := range []string{
		`INSERT INTO penstock.band (queue, kind, priority, run, load, suspect) SELECT 'q', 'k', 1 + i % 9, CASE WHEN i > 9 THEN 'run ' || i ELSE '' END, '', false FROM generate_series(1, 2000) i`,
		`INSERT INTO penstock.lane (id, key, band, grp, draws, state, next_at, gate, vtime)
			SELECT nextval('penstock.lane_id'), i, 1 + i % 9, 'g' || i, CASE WHEN i % 2 = 0 THEN '[["api",1]]' ELSE '[["key/' || i || '",1]]' END,
			CASE WHEN i % 10 = 3 THEN 2 ELSE 1 END, CASE WHEN i % 10 = 3 THEN 4000000000000000 + i ELSE 0 END, CASE WHEN i % 2 = 0 THEN 'api' ELSE 'key/' || i END, i
			FROM generate_series(1000, 101000) i`,
		`INSERT INTO penstock.gate (limit_name, band, opens_at, vclock) SELECT gate, band, CASE WHEN gate = 'api' THEN 0 WHEN min(key) % 4 = 1 THEN 1000 + min(key) ELSE 3000000000000000 END, 0
			FROM penstock.lane GROUP BY gate, band ON CONFLICT DO NOTHING`,
		`INSERT INTO penstock.job (id, lane, state, at, enqueued_at, expires_at, starts, cancel, unique_key, run, ref)
			SELECT nextval('penstock.job_id'), l.id, 1, CASE WHEN l.state = 2 THEN l.next_at ELSE 1000000 + n END, 1000000, 0, 0, false,
			CASE WHEN n = 1 THEN 'u' || l.id END, CASE WHEN n = 2 THEN 'run' END, CASE WHEN n = 2 THEN 'c' || l.id END FROM penstock.lane l, generate_series(1, 5) n WHERE l.key BETWEEN 1000 AND 101000`,
		`INSERT INTO penstock.job (id, lane, state, at, enqueued_at, expires_at, starts, cancel)
			SELECT nextval('penstock.job_id'), (SELECT min(lane) FROM penstock.job WHERE unique_key IS NULL AND run IS NULL AND lane IN (SELECT id FROM penstock.lane WHERE draws = '')), 1, 2000000 + i, 1000000, 0, 0, false FROM generate_series(1, 500000) i`,
		`INSERT INTO penstock.body (job, payload) SELECT id, '1' FROM penstock.job ON CONFLICT DO NOTHING`,
		`INSERT INTO penstock.call (run, ref, job, hash, line) SELECT run, ref, id, 'h', 1 FROM penstock.job WHERE ref IS NOT NULL ON CONFLICT DO NOTHING`,
		`INSERT INTO penstock.ended (id, lane, at, enqueued_at, expires_at, finished_at, starts, state, cancel)
			SELECT nextval('penstock.job_id'), (SELECT min(id) FROM penstock.lane), 1, 1, 0, 4000000000000000 + i, 1, CASE WHEN i % 2 = 0 THEN 3 ELSE 4 END, false FROM generate_series(1, 200000) i`,
		`INSERT INTO penstock.effect (key, job, token, done, at) SELECT 'e' || i, i, 1, i % 100 <> 0, 1 FROM generate_series(1, 100000) i`,
		`INSERT INTO penstock.event (job, n, at, started, outcome, next_at) SELECT i, 1, 1, 1, 1, 1 FROM generate_series(1000, 100000) i`,
	} {
		r.exec(sql)
	}
}

// TestJ1_PlansAtAMillionRows: what claims, finishes, inserts and heartbeats do costs
// the same with a million waiting jobs, whatever the server believes of the tables:
// they were empty when a connection planned its statements; nobody ever looked at
// them; or their statistics are true.
func TestJ1_PlansAtAMillionRows(t *testing.T) {
	if testing.Short() {
		t.Skip("a million rows")
	}
	r := rigOn(t, explainer(t).DSN("penstock"))
	r.declare("api", "1000000/s")
	r.declare("key/*", "1/s")
	r.register("w")
	r.insert(newJob())       // the lane without limits
	r.exec(`VACUUM ANALYZE`) // the server knows for sure that they are empty
	e := &explaining{}
	warm := e.open(t, r.dsn)
	for range 8 {
		r.work(warm)
	}
	e.take()
	r.fill()
	if n := value[int](r, `SELECT count(*) FROM penstock.job WHERE state = 1`); n < 1_000_000 {
		t.Fatalf("%d jobs wait", n)
	}
	for _, pass := range []string{"planned while the tables were empty", "never analyzed", "analyzed"} {
		st := warm
		switch pass {
		case "never analyzed":
			st = e.open(t, r.dsn)
		case "analyzed":
			r.exec(`ANALYZE`)
			st = e.open(t, r.dsn)
		}
		for range 3 {
			r.work(st)
		}
		most := map[string]float64{}
		for _, x := range e.take() {
			x.check(t, pass)
			most[x.sql] = max(most[x.sql], x.buffers())
		}
		if len(most) < 40 {
			t.Errorf("%s: only %d statements were seen", pass, len(most))
		}
	}
}

// big are the tables that grow with the work.
var big = []string{"job", "lane", "gate", "wake", "ended", "body", "call", "event", "effect", "limit_state", "band"}

func (x explained) check(t *testing.T, pass string) {
	t.Helper()
	bad := func(format string, args ...any) {
		t.Errorf("%s: %s\n%s\n%v", pass, fmt.Sprintf(format, args...), x.sql, x.plan)
	}
	if b := x.buffers(); b > 2000 {
		bad("looked at %v pages", b)
	}
	x.plan.each(func(p plan) {
		kind, _ := p["Node Type"].(string)
		table, _ := p["Relation Name"].(string)
		rows, _ := p["Actual Rows"].(float64)
		loops, _ := p["Actual Loops"].(float64)
		removed, _ := p["Rows Removed by Filter"].(float64)
		switch {
		case kind == "Seq Scan" && slices.Contains(big, table):
			bad("Seq Scan on %s", table)
		case strings.Contains(kind, "Sort") && rows*max(loops, 1) > 600: // a claim here may take 500 jobs
			bad("%s of %v rows", kind, rows*loops)
		case removed*max(loops, 1) > 2000:
			bad("%v rows of %s were read for nothing", removed*loops, table)
		}
	})
}

// work does everything once that workers do all the time.
func (r *rig) work(st *Store) {
	r.t.Helper()
	ctx := r.ctx()
	worker := fmt.Sprint("w", r.token.Add(1))
	r.must(st.Register(ctx, store.Worker{ID: worker, Kinds: []string{"k"}, Lease: time.Minute}))
	unique, call, keyed := newJob(), newJob("api"), newJob("key/1")
	unique.Unique = worker
	call.Run, call.Ref, call.Hash = "run", worker, "h"
	keyed.Group = worker
	later := newJob("api")
	later.At = 4e15
	_, err := st.Insert(ctx, []store.NewJob{newJob(), newJob(), unique, call, keyed, later})
	r.must(err)
	start := newJob()
	start.Group, start.Start = "idle", &store.Starter{Worker: worker, Token: r.token.Add(1)}
	started, err := st.Insert(ctx, []store.NewJob{start})
	r.must(err)
	if started[0].Started == nil {
		r.t.Errorf("%+v was not started", started[0])
	}
	unique.Replace = true
	_, err = st.Insert(ctx, []store.NewJob{unique})
	r.must(err)
	_, err = st.Insert(ctx, []store.NewJob{call})
	r.must(err)
	ask := func(places, prefetch int) store.ClaimResult {
		req := r.request(worker, places)
		req.Prefetch = prefetch
		res, err := st.Claim(ctx, req)
		r.must(err)
		return res
	}
	one, many := ask(1, 0), ask(100, 400)
	for i, o := range []store.Outcome{store.OutcomeDone, store.OutcomeRetry, store.OutcomeReturned, store.OutcomeThrottled} {
		jobs := many.Jobs
		if o == store.OutcomeDone {
			jobs = append(one.Jobs, jobs[:len(jobs)/2]...)
		} else if len(jobs) > len(jobs)/2+i {
			jobs = jobs[len(jobs)/2+i : len(jobs)/2+i+1]
		}
		fs := finishesOf(worker, jobs)
		for k := range fs {
			fs[k].Outcome = o
		}
		_, err := st.Finish(ctx, fs)
		r.must(err)
	}
	if len(many.Jobs) > 8 { // the last one has not ended
		j := many.Jobs[len(many.Jobs)-1]
		_, err = st.BeginEffect(ctx, worker, j.ID, j.Token, true)
		r.must(err)
		r.must(st.FinishEffect(ctx, worker, j.ID, j.Token, []byte("1")))
		_, err = st.Cancel(ctx, j.ID)
		r.must(err)
	}
	_, err = st.Heartbeat(ctx, worker)
	r.must(err)
	_, err = st.Cancels(ctx, worker)
	r.must(err)
	_, err = st.Rescue(ctx, 3)
	r.must(err)
	_, err = st.Sweep(ctx)
	r.must(err)
	_, err = st.Prune(ctx, []store.State{store.Done, store.Dead}, 1, 100)
	r.must(err)
	r.must(st.PauseLimit(ctx, "api", limit.Never, ""))
	req := r.request(worker, 100)
	req.Kinds = []string{"another"}
	_, err = st.Claim(ctx, req)
	r.must(err)
	r.must(st.ResumeLimit(ctx, "api"))
	r.must(st.db.View(ctx, func(t engine.Tx) error { _, err := t.Announced(0); return err }))
	r.must(st.Deregister(ctx, worker))
}

// TestTidyAtAMillionRows: it ends, within its time, whatever the server believes of the tables.
func TestTidyAtAMillionRows(t *testing.T) {
	if testing.Short() {
		t.Skip("a million rows")
	}
	r := rigOn(t, explainer(t).DSN("penstock"))
	r.declare("api", "1000000/s")
	r.insert(newJob())
	r.fill()
	unused := func() {
		r.exec(`INSERT INTO penstock.lane (id, key, band, grp, draws, state, next_at, gate, vtime)
			SELECT nextval('penstock.lane_id'), i, 1 + i % 9, 'e' || i, '', 0, 0, '', 0 FROM generate_series(1, 20000) i`)
		r.exec(`INSERT INTO penstock.gate (limit_name, band, opens_at, vclock) SELECT 'gone/' || i, 1 + i % 9, $1, 0 FROM generate_series(1, 20000) i`, engine.Empty)
	}
	for _, analyzed := range []bool{false, true} {
		unused()
		if analyzed {
			r.exec(`ANALYZE`)
		}
		began := time.Now()
		tidied, err := r.st.Tidy(r.ctx())
		r.must(err)
		t.Logf("analyzed: %t, %v", analyzed, time.Since(began))
		if tidied.Lanes != 20000 || tidied.Gates != 20000 {
			t.Errorf("%+v were removed, want 20000 lanes and gates", tidied)
		}
	}
}

// TestCountsAtAMillionRows: what people and metrics look at takes a pass over the
// jobs at most, with 100,000 lanes, too, whatever the server believes of the tables. A
// plan that goes through all jobs for each lane takes hours.
func TestCountsAtAMillionRows(t *testing.T) {
	if testing.Short() {
		t.Skip("a million rows")
	}
	r := rigOn(t, explainer(t).DSN("penstock"))
	r.declare("api", "1000000/s")
	r.insert(newJob())
	e := &explaining{}
	st := e.open(t, r.dsn)
	look := func() {
		ctx := r.ctx()
		lines, err := st.Lines(ctx)
		r.must(err)
		unserved, err := st.Unserved(ctx)
		r.must(err)
		queues, err := st.Queues(ctx)
		r.must(err)
		_, err = st.Flow(ctx, 0)
		r.must(err)
		_, err = st.CountRun(ctx, "run")
		r.must(err)
		for _, f := range []store.Filter{
			{States: []store.State{store.Waiting, store.Running}, Kind: "k", N: 1},
			{States: []store.State{store.Dead}}, {Queue: "q"}, {Limit: "key/*"}, {Run: "run"},
			{Newest: true}, {Newest: true, States: []store.State{store.Dead}}, {Newest: true, Run: "run"},
		} {
			_, err = st.Jobs(ctx, f)
			r.must(err)
		}
		t.Logf("%d lines, %d unserved, %d queues", len(lines), len(unserved), len(queues))
	}
	look()
	e.take()
	r.fill()
	for _, pass := range []string{"planned while the tables were empty", "never analyzed", "analyzed"} {
		switch pass {
		case "never analyzed":
			st = e.open(t, r.dsn)
		case "analyzed":
			r.exec(`ANALYZE`)
			st = e.open(t, r.dsn)
		}
		began := time.Now()
		look()
		t.Logf("%s: %v", pass, time.Since(began))
		for _, x := range e.take() {
			x.plan.each(func(p plan) {
				rows, _ := p["Actual Rows"].(float64)
				loops, _ := p["Actual Loops"].(float64)
				removed, _ := p["Rows Removed by Filter"].(float64)
				join, _ := p["Rows Removed by Join Filter"].(float64)
				if n := (rows + removed + join) * max(loops, 1); n > 2_000_000 {
					t.Errorf("%s: %v rows\n%s\n%v", pass, n, x.sql, p)
				}
			})
		}
	}
}

// TestPlansInACallersTransaction: a caller's connection planned the statements while
// the tables were empty. It does not read them whole when they are not, and the
// transaction has the settings that it had.
func TestPlansInACallersTransaction(t *testing.T) {
	r := newRig(t)
	cfg, err := pgxpool.ParseConfig(r.plain)
	r.must(err)
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(r.ctx(), cfg)
	r.must(err)
	defer pool.Close()
	n := 0
	enqueue := func() (scans int) {
		tx, err := pool.Begin(r.ctx())
		r.must(err)
		for range 8 {
			n++
			unique, call := newJob(), newJob()
			unique.Unique = fmt.Sprint("key ", n)
			call.Run, call.Ref, call.Hash = "run", unique.Unique, "h"
			_, err := r.within(tx, unique, call)
			r.must(err)
			r.must(r.st.Within(r.ctx(), tx, func(t engine.Tx) error { _, _, err := t.Effect(unique.Unique); return err }))
		}
		var seqscan string
		r.must(tx.QueryRow(r.ctx(), `SELECT sum(seq_scan), current_setting('enable_seqscan') FROM pg_stat_xact_user_tables WHERE schemaname = $1`, r.schema).Scan(&scans, &seqscan))
		if seqscan != "on" {
			t.Errorf("the caller's transaction has enable_seqscan = %s now", seqscan)
		}
		r.must(tx.Commit(r.ctx()))
		return scans
	}
	r.exec(`VACUUM ANALYZE`)
	enqueue()
	enqueue()
	r.exec(`INSERT INTO penstock.job (id, lane, state, at, enqueued_at, expires_at, starts, cancel, unique_key)
		SELECT nextval('penstock.job_id'), 1, 1, 1, 1, 0, 0, false, 'u' || i FROM generate_series(1, 20000) i`)
	if scans := enqueue(); scans > 0 {
		t.Errorf("tables were read whole %d times", scans)
	}
}
