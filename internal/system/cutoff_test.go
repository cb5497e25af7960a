//go:build unix

package system

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/internal/pgtest"
)

// TestLongSilence has the network swallow, for longer than a lease, all that one
// process and the server say to each other. Neither hears of it.
func TestLongSilence(t *testing.T) {
	t.Parallel()
	db := onPostgres.fresh(t)
	link := pgtest.Proxy(t, db)
	absent(t, db, link.DSN(), func(*worker) { <-link.Swallow() }, func(*worker) { link.Pass() })
}

// TestStoppedProcess has a process stand still for longer than a lease, as one
// does in a debugger, in a frozen container, or on a laptop that sleeps.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	db := onPostgres.fresh(t)
	absent(t, db, db, func(w *worker) { w.signal(syscall.SIGSTOP) }, func(w *worker) { w.signal(syscall.SIGCONT) })
}

// absent has a process be absent for longer than its lease, in the middle of
// calls that succeed, and come back. Its jobs go on elsewhere, what it has to say
// of them then is refused, and it works on.
func absent(t *testing.T, db, dbOfFirst string, leave, comeBack func(*worker)) {
	const plain, doubtful = 4, 2
	v := newVendor(t, apisim.Config{}, "api", "effect", "after", "busy")
	v.shut("api", "effect", "busy")
	o := orders{DB: db, Lease: shortLease, URL: v.URL, Concurrency: plain + doubtful, Limits: map[string]string{"api": fmt.Sprint(plain, " in flight")}, Tell: true}
	c := open(t, db, penstock.Config{Limits: o.Limits})
	calls := enqueue(t, c, plain, penstock.NewJob{Kind: "call", Limits: penstock.Draws("api")})
	guarded := enqueue(t, c, doubtful, penstock.NewJob{Kind: "guarded"})

	first, said := o, newSayings()
	first.DB = dbOfFirst
	a := start(t, first, said.hear)
	v.awaitCalls(t, "api", plain)
	v.awaitCalls(t, "effect", doubtful)
	leave(a)
	v.open() // the calls of the absent process succeed
	v.shut("api")

	b := start(t, o, nil)
	v.awaitCalls(t, "api", plain+1) // what the other process has of it is under way
	comeBack(a)
	for _, id := range append(calls, guarded...) {
		said.await(t, fmt.Sprintf("refused %d 1", id))
		said.never(t, fmt.Sprintf("recorded %d 1", id))
	}
	v.open()
	allEnd(t, c)

	// It works again: without its places there are not enough.
	v.shut("busy")
	enqueue(t, c, 2*o.Concurrency, penstock.NewJob{Kind: "busy"})
	v.awaitCalls(t, "busy", 2*o.Concurrency)
	v.open()
	if n := len(v.of(v.calls("busy"), a)); n != o.Concurrency {
		t.Errorf("the process that came back made %d of %d calls, expected %d", n, 2*o.Concurrency, o.Concurrency)
	}
	allEnd(t, c) // a process that is told to stop leaves handlers little time
	stopAll([]*worker{a, b})

	v.distinct(t)
	audit(t, c, nil)
	allDone(t, c, v, "api", calls)
	effectsOnce(t, c, v, guarded)
	for id, n := range perJob(v.calls("api")) {
		if n != 2 {
			t.Errorf("job %d was called %d times, expected 2: by the absent process and by another", id, n)
		}
	}
}

// allEnd waits until no job waits or runs.
func allEnd(t *testing.T, c *penstock.Client) {
	t.Helper()
	eventually(t, "the jobs to end", func() bool {
		return len(jobs(t, c, penstock.Filter{States: []penstock.State{penstock.Waiting, penstock.Running}})) == 0
	})
}

// TestStoppedInItsTransaction stops a process while its transaction has the lock
// that all claims need. The others hardly notice.
func TestStoppedInItsTransaction(t *testing.T) {
	t.Parallel()
	const most = 4 * time.Second // two transactions of the process may have to be timed out, on a busy machine
	v := newVendor(t, apisim.Config{Latency: 10 * time.Millisecond}, "api")
	db := onPostgres.fresh(t)
	o := orders{DB: db, Lease: shortLease, URL: v.URL, Concurrency: 5, Limits: map[string]string{"api": "100/s"}}
	c := open(t, db, penstock.Config{Limits: o.Limits})
	ids := enqueue(t, c, 600, penstock.NewJob{Kind: "call", Limits: penstock.Draws("api")})

	first := o
	first.DB = with(db, "application_name=stopped")
	a, b := start(t, first, nil), start(t, o, nil)
	v.await(t, "calls of both", func() bool {
		log := v.calls("api")
		return len(v.of(log, a)) > 10 && len(v.of(log, b)) > 10
	})
	// It waits for the lock, is stopped, and is given the lock.
	look := connect(t, db)
	locks := func(granted bool, state string) (n int) {
		err := look.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE a.application_name = 'stopped' AND l.locktype = 'advisory' AND l.granted = $1 AND a.state = $2`, granted, state).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	tx, err := connect(t, db).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := lockWriters(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process to want the lock", func() bool { return locks(false, "active") > 0 })
	a.signal(syscall.SIGSTOP)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	eventually(t, "the process to have the lock", func() bool {
		// On a very busy machine it may have lost the lock before we look.
		return locks(true, "idle in transaction") > 0 || time.Since(stopped) > most
	})
	later := func() (log []apisim.Call) {
		for _, call := range v.of(v.calls("api"), b) {
			if call.Arrival.After(stopped) {
				log = append(log, call)
			}
		}
		return log
	}
	v.await(t, "50 calls of the other process", func() bool { return len(later()) >= 50 })
	longest, last := time.Duration(0), stopped
	for _, call := range later() {
		longest, last = max(longest, call.Arrival.Sub(last)), call.Arrival
	}
	t.Logf("the other process stood still for %v", longest)
	if longest > most {
		t.Errorf("the other process stood still for %v, expected at most %v", longest, most)
	}
	a.signal(syscall.SIGCONT)
	// It works again: without its places there are not enough.
	v.shut("api")
	back := time.Now()
	ids = append(ids, enqueue(t, c, 2*o.Concurrency, penstock.NewJob{Kind: "call", Limits: penstock.Draws("api")})...)
	v.await(t, "a call of the process that goes on", func() bool {
		log := v.of(v.calls("api"), a)
		return log[len(log)-1].Arrival.After(back)
	})
	v.open()
	v.await(t, "all calls", func() bool { return len(perJob(v.calls("api"))) == len(ids) })
	stopAll([]*worker{a, b})
	o.Drain = true
	start(t, o, nil).ends()

	v.judge(t, v.calls("api"), 100, time.Second)
	v.distinct(t)
	audit(t, c, ids)
	allDone(t, c, v, "api", ids)
}
