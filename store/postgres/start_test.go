package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// wish is a job of a lane of its own that the worker "w" would start at once.
func (r *rig) wish(group string) store.NewJob {
	j := newJob()
	j.Group, j.Start = group, &store.Starter{Worker: "w", Token: r.token.Add(1)}
	return j
}

// wantStarted inserts the job alone, and wants it started or not.
func (r *rig) wantStarted(st *Store, j store.NewJob, want bool, why string) store.Inserted {
	r.t.Helper()
	out, err := st.Insert(r.ctx(), []store.NewJob{j})
	r.must(err)
	if got := out[0].Started != nil; got != want || got != (out[0].State == store.Running) {
		r.t.Errorf("%s: %+v, expected it to be started: %t", why, out[0], want)
	}
	return out[0]
}

// TestStartsDoNotWait: while somebody is alone, a job is inserted as any other, and at once.
func TestStartsDoNotWait(t *testing.T) {
	r := newRig(t)
	r.register("w")
	r.wantStarted(r.st, r.wish("a"), true, "nobody is alone")
	another := r.open(r.dsn)
	r.insert(newJob()) // makes the lane, which only who is alone can
	open, commit, ended := make(chan bool), make(chan bool), make(chan error)
	go func() {
		once := sync.OnceFunc(func() { close(open) })
		ended <- another.db.Update(context.Background(), func(tx engine.Tx) error {
			if _, _, err := tx.Queue("q"); err != nil { // it begins with the first read
				return err
			}
			once()
			<-commit
			return tx.SaveQueue(engine.QueueRow{Name: "q", At: 1})
		})
	}()
	<-open
	r.insert(newJob())
	r.wantStarted(r.st, r.wish("a"), false, "a pause is about to commit") // returns though it is open
	close(commit)
	r.must(<-ended)
	r.wantStarted(r.st, r.wish("b"), false, "the queue is paused")
	r.must(r.st.ResumeQueue(r.ctx(), "q"))
	r.wantStarted(r.st, r.wish("a"), false, "one of the lane waits")
	r.wantStarted(r.st, r.wish("c"), true, "the pause is over")
	if n := r.drain("w"); n != 5 {
		t.Errorf("%d jobs were claimed, want 5", n)
	}
	r.wantStarted(r.st, r.wish("a"), true, "nothing waits")
	r.nothingStranded()
}

// TestStartsAmongOthers: jobs that are written together are started or not each by itself,
// and only the lanes of those that wait are announced, at the due time of those.
func TestStartsAmongOthers(t *testing.T) {
	for _, pooler := range []string{"", "&pooler=transaction"} {
		r := newRig(t)
		r.declare("api", "10/s")
		r.register("w")
		d := r.open(r.dsn + pooler).db
		strange := r.wish("strange")
		strange.Start.Worker = "nobody"
		later := newJob()
		later.Group, later.At = "mixed", 5e15
		jobs := []store.NewJob{r.wish("a"), newJob("api"), r.wish("mixed"), strange, r.wish("a"), later}
		plain := slices.Clone(jobs)
		for i := range plain {
			plain[i].Start, plain[i].At = nil, 5e15
		}
		_, err := engine.New(d).Insert(r.ctx(), plain) // makes the lanes
		r.must(err)
		r.drain("w") // takes the announcements
		hub, told := d.hub, make(chan struct{}, 1)
		hub.mu.Lock()
		hub.watchers[told] = true // without those who look by themselves now and then
		hub.mu.Unlock()
		out := r.short(d, jobs...)
		var got []bool
		for i, in := range out {
			got = append(got, in.Started != nil)
			if c := in.Started; c != nil && (c.ID != in.ID || c.Token != jobs[i].Start.Token || c.Group != jobs[i].Group) {
				t.Errorf("job %d was started as %+v", i, c)
			}
		}
		if want := []bool{true, false, true, false, true, false}; !slices.Equal(got, want) {
			t.Errorf("started are %v, want %v", got, want)
		}
		if !slices.IsSortedFunc(out, func(a, b store.Inserted) int { return int(a.ID - b.ID) }) {
			t.Errorf("ids are not in order: %+v", out)
		}
		if len(told) == 0 {
			t.Error("those who watch were not told of the jobs that wait")
		}
		if n, far := value[int](r, `SELECT count(*) FROM penstock.wake`), value[int](r, `SELECT count(*) FROM penstock.wake WHERE at = 5000000000000000 AND parts LIKE '%mixed%'`); n != 3 || far != 1 {
			t.Errorf("%d lanes are announced, want 3; %d for the far future, want 1", n, far)
		}
		for len(told) > 0 {
			<-told
		}
		r.short(d, r.wish("a"))
		if len(told) > 0 {
			t.Error("those who watch were told of a job that was started")
		}
		if n := r.drain("w"); n != 2 {
			t.Errorf("%d jobs were claimed, want 2", n)
		}
		r.nothingStranded()
	}
}

// TestLargeJobsAreNotStarted: what takes long to send must not hold the lock.
func TestLargeJobsAreNotStarted(t *testing.T) {
	r := newRig(t)
	r.register("w")
	j := r.wish("a")
	j.Payload = []byte(`"` + strings.Repeat("x", startBytes) + `"`)
	r.wantStarted(r.st, j, false, "a large payload")
	r.drain("w")
	r.wantStarted(r.st, r.wish("a"), true, "a small one")
}

// TestStartsWhoseAnswerIsLost: nobody knows whether the job was started, so it is an error,
// and it is not written again. The heartbeat tells of it.
func TestStartsWhoseAnswerIsLost(t *testing.T) {
	r := newRig(t)
	r.register("w")
	link := pgtest.Proxy(t, r.dsn+"&pooler=transaction")
	st := r.open(link.DSN())
	r.wantStarted(st, r.wish("a"), true, "over the proxy")
	lost := link.SwallowAnswers()
	go func() {
		<-lost
		link.Cut()
	}()
	j := r.wish("a")
	if _, done, err := st.db.insertPlain(r.ctx(), []store.NewJob{j}); !done || err == nil {
		t.Errorf("%v (done: %t), expected an error, and no second try", err, done)
	}
	leases, err := r.st.Heartbeat(r.ctx(), "w")
	r.must(err)
	if len(leases) != 2 || leases[1].Token != j.Start.Token {
		t.Errorf("the leases are %+v, expected the second with token %d", leases, j.Start.Token)
	}
}

// TestStartsOverAnEndedSession: the server ended the session before it ran anything. The
// job is written by another one, once.
func TestStartsOverAnEndedSession(t *testing.T) {
	r := newRig(t)
	r.register("w")
	for range 3 {
		r.insert(r.wish("a"))
		r.exec(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'penstock'`)
	}
	r.insert(r.wish("a"))
	if n := value[int](r, `SELECT count(*) FROM penstock.job`); n != 4 {
		t.Errorf("%d jobs are there, want 4", n)
	}
}

// TestStartsOnAFencedServer: nothing is written past default_transaction_read_only.
func TestStartsOnAFencedServer(t *testing.T) {
	r := newRig(t)
	r.register("w")
	r.wantStarted(r.st, r.wish("a"), true, "the server takes writes")
	name := quote(value[string](r, `SELECT current_database()`))
	r.exec(`ALTER DATABASE ` + name + ` SET default_transaction_read_only = on`)
	r.st.db.others.Reset()
	if _, done, err := r.st.db.insertPlain(r.ctx(), []store.NewJob{r.wish("a")}); !done || !errors.Is(err, ErrReadOnly) {
		t.Errorf("%v (done: %t), want %v", err, done, ErrReadOnly)
	}
	r.exec(`BEGIN READ WRITE; ALTER DATABASE ` + name + ` RESET default_transaction_read_only; COMMIT`)
	r.wantStarted(r.st, r.wish("a"), true, "it does again")
}
