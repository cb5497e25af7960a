package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// beforeCommit is a DB that calls a function when a transaction is about to commit.
type beforeCommit struct {
	*db
	update, add func()
}

func (b *beforeCommit) Update(ctx context.Context, fn func(engine.Tx) error) error {
	return b.db.Update(ctx, hooked(fn, b.update))
}

func (b *beforeCommit) Append(ctx context.Context, fn func(engine.Tx) error) error {
	return b.db.Append(ctx, hooked(fn, b.add))
}

func hooked(fn func(engine.Tx) error, hook func()) func(engine.Tx) error {
	return func(t engine.Tx) error {
		if _, err := t.Counter("x"); err != nil { // begins it, which may else travel with the commit
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
		if hook != nil {
			hook()
		}
		return nil
	}
}

// TestH4_StoppedBetweenLockAndCommit: a process is stopped while it has the lock
// that all others want. They have it soon; the stopped one, when it goes on, has
// changed nothing, and does its work again.
func TestH4_StoppedBetweenLockAndCommit(t *testing.T) {
	r := newRig(t)
	r.register("w")
	r.insert(newJob())
	stopped, goesOn := make(chan bool), make(chan bool)
	runs := 0
	ended := make(chan error, 1)
	go func() {
		ended <- r.open(r.dsn).db.Update(r.ctx(), func(t engine.Tx) error {
			n, err := t.Counter("runs")
			if err == nil {
				err = t.SetCounter("runs", n+1)
			}
			if err == nil {
				_, err = t.Counter("something else") // sends the write
			}
			if err == nil && runs == 0 {
				stopped <- true
				<-goesOn
			}
			runs++
			return err
		})
	}()
	<-stopped
	began := time.Now()
	r.finish("w", r.claim("w", 1)) // it would wait for ever
	t.Logf("others went on after %v", time.Since(began))
	close(goesOn)
	r.must(<-ended)
	if n := value[int](r, `SELECT value FROM penstock.counter WHERE name = 'runs'`); n != 1 || runs != 2 {
		t.Errorf("it ran %d times, and what it wrote is there %d times: expected 2 and 1", runs, n)
	}
}

// TestH4_StoppedInsert: the same of an insert, whose unique key others want, and of
// a heartbeat, which the rescuer waits for.
func TestH4_StoppedInsert(t *testing.T) {
	r := newRig(t)
	job := newJob()
	job.Unique = "key"
	stopped, goesOn := make(chan bool), make(chan bool)
	first := true
	st := engine.New(&beforeCommit{db: r.st.db, add: func() {
		if first {
			first = false
			stopped <- true
			<-goesOn
		}
	}})
	type end struct {
		out []store.Inserted
		err error
	}
	ended := make(chan end, 1)
	go func() {
		out, err := st.Insert(r.ctx(), []store.NewJob{job})
		ended <- end{out, err}
	}()
	<-stopped
	there := r.insert(job)
	if there[0].Verdict != store.Created {
		t.Errorf("the other one's job was %v, want created", there[0].Verdict)
	}
	close(goesOn)
	e := <-ended
	r.must(e.err)
	if e.out[0].Verdict != store.Duplicate || e.out[0].ID != there[0].ID {
		t.Errorf("the stopped one's job was %v (%d), want a duplicate of %d", e.out[0].Verdict, e.out[0].ID, there[0].ID)
	}
}

// TestSlowClientGetsMoreTime: a transaction whose client lets it wait for longer than a
// transaction may is given more time in each run, so that it ends at last. One that
// others wait for is given less.
func TestSlowClientGetsMoreTime(t *testing.T) {
	r := newRig(t)
	st := r.open(r.dsn)
	for _, c := range []struct {
		name string
		run  func(context.Context, func(engine.Tx) error) error
		want []string
	}{
		{"alone", st.db.Update, []string{"700ms", "1400ms", "2800ms", "3s"}},
		{"beside others", st.db.Append, []string{"700ms", "1400ms", "2800ms"}},
	} {
		var had []string
		err := c.run(r.ctx(), func(et engine.Tx) error {
			tx := et.(*tx)
			var idle string
			var pid int
			if _, err := tx.one(`SELECT current_setting('idle_in_transaction_session_timeout'), pg_backend_pid()`, func(s scan) error { return s(&idle, &pid) }); err != nil {
				return err
			}
			if had = append(had, idle); len(had) < len(c.want) {
				r.soon("the session ends", func() bool {
					return value[bool](r, fmt.Sprintf(`SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = %d)`, pid))
				})
			}
			return tx.SetCounter("slow", 1)
		})
		r.must(err)
		if !slices.Equal(had, c.want) {
			t.Errorf("%s: it had %v, want %v", c.name, had, c.want)
		}
	}
}

// TestH4_StoppedHeartbeat: a process stops in the middle of its heartbeat, for
// longer than its lease. It is rescued all the same, and then knows it.
func TestH4_StoppedHeartbeat(t *testing.T) {
	r := newRig(t)
	r.insert(newJob())
	r.must(r.st.Register(r.ctx(), store.Worker{ID: "w", Kinds: []string{"k"}, Lease: time.Millisecond}))
	jobs := r.claim("w", 1)
	stopped, goesOn := make(chan bool), make(chan bool)
	first := true
	st := engine.New(&beforeCommit{db: r.st.db, add: func() {
		if first {
			first = false
			stopped <- true
			<-goesOn
		}
	}})
	ended := make(chan error, 1)
	go func() {
		_, err := st.Heartbeat(r.ctx(), "w")
		ended <- err
	}()
	<-stopped
	lost, err := r.st.Rescue(r.ctx(), 3)
	r.must(err)
	if len(lost) != 1 {
		t.Errorf("%d jobs were taken back, want 1", len(lost))
	}
	close(goesOn)
	if err := <-ended; !errors.Is(err, store.ErrUnknownWorker) {
		t.Errorf("the heartbeat said %v, want %v", err, store.ErrUnknownWorker)
	}
	if f := r.finishing("w", jobs); !errors.Is(f[0].Err, store.ErrLeaseLost) {
		t.Errorf("the late outcome got %v, want %v", f[0].Err, store.ErrLeaseLost)
	}
}

// TestH6_HeartbeatBesideVerdict: heartbeats that commit while a rescuer looks keep
// the worker's jobs; a verdict that commits is final. Never both.
func TestH6_HeartbeatBesideVerdict(t *testing.T) {
	r := newRig(t)
	for range 40 {
		r.insert(newJob())
		r.must(r.st.Register(r.ctx(), store.Worker{ID: "w", Kinds: []string{"k"}, Lease: time.Millisecond}))
		jobs := r.claim("w", 1)
		beat := make(chan error, 1)
		go func() {
			_, err := r.st.Heartbeat(r.ctx(), "w")
			beat <- err
		}()
		lost, err := r.st.Rescue(r.ctx(), 1000)
		r.must(err)
		err = <-beat
		if len(lost) > 0 {
			err = nil // a heartbeat before the verdict does not prevent it
		}
		r.must(err)
		out, ferr := r.st.Finish(r.ctx(), finishesOf("w", jobs))
		r.must(ferr)
		if gone := out[0].Err != nil; gone != (len(lost) > 0) {
			t.Fatalf("%d jobs were taken back, and the outcome got %v", len(lost), out[0].Err)
		}
		r.exec(`DELETE FROM penstock.worker`)
		r.exec(`DELETE FROM penstock.job`)
	}
}

// TestH5_CommitReplyLost: the commit went through, its reply did not. Repeated with
// its token, a claim returns the same jobs; a repeated Finish is told that the lease
// is lost, and does no harm; a repeated insert with a unique key finds its job.
func TestH5_CommitReplyLost(t *testing.T) {
	r := newRig(t)
	r.declare("api", "1000/s, 2 in flight")
	// By a pooler's ways, since else the statements are prepared in trips of their own.
	link := pgtest.Proxy(t, r.dsn+"&pooler=transaction")
	d := r.open(link.DSN()).db
	var cancel context.CancelFunc // of a call whose answer is to be lost
	lose := func() {
		if cancel != nil {
			lost := link.SwallowAnswers()
			go func(cancel func()) {
				<-lost
				cancel()
			}(cancel)
		}
	}
	st := engine.New(&beforeCommit{db: d, update: lose, add: lose})
	// lost does something whose commit's reply gets lost, and lets the network heal.
	lost := func(what string, do func(ctx context.Context) error) {
		t.Helper()
		var ctx context.Context
		ctx, cancel = context.WithCancel(r.ctx())
		if err := do(ctx); err == nil {
			t.Errorf("%s: no error, though nothing was answered", what)
		}
		cancel = nil
		link.Pass()
		link.Cut()
	}
	job := newJob("api")
	job.Unique = "key"
	lost("insert", func(ctx context.Context) error { _, err := st.Insert(ctx, []store.NewJob{job}); return err })
	out, err := st.Insert(r.ctx(), []store.NewJob{job})
	r.must(err)
	if out[0].Verdict != store.Duplicate {
		t.Errorf("the repeated insert was %v, want a duplicate", out[0].Verdict)
	}
	r.register("w")
	req := r.request("w", 5)
	lost("claim", func(ctx context.Context) error { _, err := st.Claim(ctx, req); return err })
	req.Repeat = true
	res, err := st.Claim(r.ctx(), req)
	r.must(err)
	if len(res.Jobs) != 1 || string(res.Jobs[0].Payload) != "1" || len(res.Jobs[0].Charges) != 1 {
		t.Fatalf("the repeated claim returned %+v, want the job with its payload and charge", res.Jobs)
	}
	lost("finish", func(ctx context.Context) error { _, err := st.Finish(ctx, finishesOf("w", res.Jobs)); return err })
	again, err := st.Finish(r.ctx(), finishesOf("w", res.Jobs))
	r.must(err)
	if !errors.Is(again[0].Err, store.ErrLeaseLost) {
		t.Errorf("the repeated Finish got %v, want %v", again[0].Err, store.ErrLeaseLost)
	}
	if n := value[int](r, `SELECT count(*) FROM penstock.ended WHERE state = 3`); n != 1 {
		t.Errorf("%d jobs are done, want 1", n)
	}
	if l, err := r.st.Limit(r.ctx(), "api"); err != nil || l.State.InFlight() != 0 {
		t.Errorf("%d calls are in flight (%v), want 0", l.State.InFlight(), err)
	}
	r.nothingStranded()
}

// TestA2_ConnectionKilledInTheMiddle: the server ends a transaction's session before
// its commit. It cannot have committed, so it is run again, and the caller sees nothing.
func TestA2_ConnectionKilledInTheMiddle(t *testing.T) {
	r := newRig(t)
	kills := 0
	kill := func() {
		if kills++; kills == 1 {
			r.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock' AND state = 'idle in transaction'`)
		}
	}
	st := engine.New(&beforeCommit{db: r.st.db, update: kill, add: kill})
	for range 3 { // the first time, statements are prepared
		kills = 0
		_, err := st.Insert(r.ctx(), []store.NewJob{newJob()})
		r.must(err)
	}
	r.register("w")
	for range 3 {
		kills = 0
		res, err := st.Claim(r.ctx(), r.request("w", 1))
		r.must(err)
		if len(res.Jobs) != 1 {
			t.Errorf("%d jobs were claimed, want 1", len(res.Jobs))
		}
	}
	if n := value[int](r, `SELECT count(*) FROM penstock.job WHERE state = 2`); n != 3 {
		t.Errorf("%d jobs are claimed, want 3", n)
	}
}

// TestA2_NetworkCutInTheMiddle: the same by a network that resets connections.
func TestA2_NetworkCutInTheMiddle(t *testing.T) {
	r := newRig(t)
	link := pgtest.Proxy(t, r.dsn)
	st := r.open(link.DSN())
	cuts := 0
	cut := func(tx engine.Tx) error {
		if _, err := tx.Counter("x"); err != nil {
			return err
		}
		if cuts++; cuts == 1 {
			link.Cut()
		}
		_, err := tx.Counter("x")
		return err
	}
	for name, run := range map[string]func(context.Context, func(engine.Tx) error) error{"Update": st.db.Update, "Append": st.db.Append, "View": st.db.View} {
		cuts = 0
		if err := run(r.ctx(), cut); err != nil || cuts != 2 {
			t.Errorf("%s: run %d times: %v", name, cuts, err)
		}
	}
}

// TestCommitOfAFailedTransaction: the server answers the COMMIT of a transaction that
// failed without an error.
func TestCommitOfAFailedTransaction(t *testing.T) {
	r := newRig(t)
	for name, run := range map[string]func(context.Context, func(engine.Tx) error) error{"Update": r.st.db.Update, "Append": r.st.db.Append} {
		err := run(r.ctx(), func(tx engine.Tx) error {
			_, _ = tx.Counter("\x00") // an error that is swallowed
			return nil
		})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestCommittedIsNotDoneAgain: a server that is being shut down answers a COMMIT, and says
// good-bye before it answers what was sent behind it.
func TestCommittedIsNotDoneAgain(t *testing.T) {
	r := newRig(t)
	for name, write := range map[string]func(context.Context, func(engine.Tx) error) error{"alone": r.st.db.Update, "beside others": r.st.db.Append} {
		runs := 0
		err := write(r.ctx(), func(et engine.Tx) error {
			t := et.(*tx)
			n, err := t.Counter(name)
			if err != nil {
				return err
			}
			if runs++; runs == 1 {
				t.after = append(t.after, statement{sql: `SELECT pg_terminate_backend(pg_backend_pid())`}, statement{sql: `SELECT 1`})
			}
			return t.SetCounter(name, n+1)
		})
		if n := value[int](r, `SELECT value FROM penstock.counter WHERE name = '`+name+`'`); n != 1 || runs != 1 || err == nil {
			t.Errorf("%s: it ran %d times, what it wrote is there %d times, error %v: expected once, and an error for what was not answered", name, runs, n, err)
		}
	}
}
