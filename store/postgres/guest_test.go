package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// TestH1_OpenTransactionHoldsUpNobody: a caller's transaction enqueued into lanes
// that are in use, and stays open. Everything that a store does goes on meanwhile:
// what is done here ends while the transaction is open, or never.
func TestH1_OpenTransactionHoldsUpNobody(t *testing.T) {
	eachGuest(t, func(t *testing.T, r *rig, begin func() *guest, _ string) {
		r.declare("api", "1000/s, 1 in flight")
		r.register("w")
		r.insert(newJob(), newJob("api"), newJob("api"))
		g := begin()
		unique := newJob("api")
		unique.Unique = "theirs"
		other := newJob()
		other.Group = "a lane of its own"
		_, err := r.within(g.tx, newJob(), newJob("api"), unique, other)
		r.must(err)

		r.insert(newJob(), newJob("api"), newJob())
		jobs := r.claim("w", 100)
		if len(jobs) != 4 { // three without a limit, and one of those with it
			t.Errorf("claimed %d jobs, want 4: none of the open transaction's", len(jobs))
		}
		r.finish("w", jobs)
		_, err = r.st.Heartbeat(r.ctx(), "w")
		r.must(err)
		r.must(r.st.PauseLimit(r.ctx(), "api", limit.Never, "a test"))
		r.must(r.st.ResumeLimit(r.ctx(), "api"))
		_, err = r.st.Tidy(r.ctx())
		r.must(err)
		_, err = r.st.Prune(r.ctx(), []store.State{store.Done}, engineNever, 100)
		r.must(err)
		_, err = r.st.Rescue(r.ctx(), 3)
		r.must(err)
		if w := r.waitersOn(g.pid); len(w) > 0 {
			t.Errorf("these wait for the open transaction: %q", w)
		}
		r.must(g.commit())
		if n := r.drain("w"); n != 6 {
			t.Errorf("%d jobs ended after the commit, want 6", n)
		}
		r.nothingStranded()
	})
}

const engineNever = 1 << 60

// TestH1_OppositeOrder: two callers' transactions enqueue into the same lanes in
// opposite order, with steps in turn. No step waits, and nobody is rolled back.
func TestH1_OppositeOrder(t *testing.T) {
	eachGuest(t, func(t *testing.T, r *rig, begin func() *guest, _ string) {
		r.declare("a", "1000/s")
		r.declare("b", "1000/s")
		r.register("w")
		one, two := begin(), begin()
		for _, step := range []struct {
			g     *guest
			limit string
		}{{one, "a"}, {two, "b"}, {one, "b"}, {two, "a"}} {
			_, err := r.within(step.g.tx, newJob(step.limit))
			r.must(err)
		}
		r.must(one.commit())
		r.must(two.commit())
		if n := r.drain("w"); n != 4 {
			t.Errorf("%d jobs ended, want 4", n)
		}
	})
}

// TestH1_RolledBackNeverHappened: also its unique keys and call ids.
func TestH1_RolledBackNeverHappened(t *testing.T) {
	eachGuest(t, func(t *testing.T, r *rig, begin func() *guest, _ string) {
		r.register("w")
		job := newJob()
		job.Unique, job.Run, job.Ref, job.Hash = "key", "run", "c-1", "h"
		g := begin()
		_, err := r.within(g.tx, newJob(), job)
		r.must(err)
		again, err := r.within(g.tx, job)
		r.must(err)
		if again[0].Verdict != store.Duplicate {
			t.Errorf("the same call twice in one transaction is %v, want a duplicate", again[0].Verdict)
		}
		r.must(g.rollback())
		if out := r.insert(job); out[0].Verdict != store.Created {
			t.Errorf("after the rollback the same job is %v, want created", out[0].Verdict)
		}
		if n := r.drain("w"); n != 1 {
			t.Errorf("%d jobs ended, want the one that was not rolled back", n)
		}
		if n := value[int](r, `SELECT count(*) FROM penstock.body`); n != 1 {
			t.Errorf("%d bodies are stored, want 1", n)
		}
	})
}

// TestG_UniqueKeyOfOpenTransaction: whoever enqueues the same unique key, or the
// same call of a run, waits for the transaction that has it and nobody else does;
// then there is one job, of the transaction if it committed.
func TestG_UniqueKeyOfOpenTransaction(t *testing.T) {
	for _, by := range []string{"unique key", "call id"} {
		for _, commits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/commits=%t", by, commits), func(t *testing.T) {
				r := newRig(t)
				r.register("w")
				job := newJob()
				if by == "unique key" {
					job.Unique = "key"
				} else {
					job.Run, job.Ref, job.Hash = "run", "c-1", "h"
				}
				g := r.pgxGuest("READ COMMITTED")
				first, err := r.within(g.tx, job)
				r.must(err)
				const many = 30 // more than the store has connections
				outs := make(chan store.Inserted, many)
				for range many {
					go func() {
						out, err := r.st.Insert(r.ctx(), []store.NewJob{job})
						if err != nil {
							t.Error(err)
							out = make([]store.Inserted, 1)
						}
						outs <- out[0]
					}()
				}
				r.waitsOn(g.pid)
				// The others are not among those who wait.
				for range 5 {
					_, err := r.st.Heartbeat(r.ctx(), "w")
					r.must(err)
					r.insert(newJob())
					r.finish("w", r.claim("w", 10))
				}
				select {
				case out := <-outs:
					t.Errorf("%v before the transaction's end", out)
				default:
				}
				if commits {
					r.must(g.commit())
				} else {
					r.must(g.rollback())
				}
				created, ids := 0, map[int64]bool{}
				for range many {
					out := <-outs
					ids[out.ID] = true
					if out.Verdict == store.Created {
						created++
					}
				}
				if want := map[bool]int{true: 0, false: 1}[commits]; created != want || len(ids) != 1 || commits != ids[first[0].ID] {
					t.Errorf("%d of %d were created, with ids %v; the transaction's was %d, and it committed: %t", created, many, ids, first[0].ID, commits)
				}
			})
		}
	}
}

// TestG_UniqueKeysInOppositeOrder: each of two callers' transactions has the key
// that the other one wants. One of them is told at once (SQLSTATE 40P01), the other
// one goes on when that one is rolled back.
func TestG_UniqueKeysInOppositeOrder(t *testing.T) {
	eachGuest(t, func(t *testing.T, r *rig, begin func() *guest, _ string) {
		keyed := func(key string) store.NewJob {
			j := newJob()
			j.Unique = key
			return j
		}
		one, two := begin(), begin()
		_, err := r.within(one.tx, keyed("a"))
		r.must(err)
		_, err = r.within(two.tx, keyed("b"))
		r.must(err)
		type end struct {
			g   *guest
			err error
		}
		ends := make(chan end, 2)
		for g, key := range map[*guest]string{one: "b", two: "a"} {
			go func() {
				_, err := r.within(g.tx, keyed(key))
				ends <- end{g, err}
			}()
		}
		began := time.Now()
		first := <-ends
		if state := sqlState(first.err); state != "40P01" {
			t.Fatalf("%v: expected SQLSTATE 40P01", first.err)
		}
		if took := time.Since(began); took > 3*time.Second { // the server looks for deadlocks after 1 s
			t.Errorf("told after %v: it was tried again, though nothing can have changed", took)
		}
		r.must(first.g.rollback())
		second := <-ends
		r.must(second.err)
		r.must(second.g.commit())
	})
}

// TestG_KeyTakenSinceTheSnapshot: a caller's transaction that keeps its snapshot
// cannot see who took the key meanwhile. It gets what databases say then and
// programs retry: SQLSTATE 40001. In READ COMMITTED it gets the duplicate.
func TestG_KeyTakenSinceTheSnapshot(t *testing.T) {
	eachGuest(t, func(t *testing.T, r *rig, begin func() *guest, isolation string) {
		job := newJob()
		job.Unique = "key"
		call := newJob()
		call.Run, call.Ref, call.Hash = "run", "c-1", "h"
		for _, j := range []store.NewJob{job, call} {
			g := begin()
			r.must(g.exec(`SELECT 1`)) // now it has its snapshot
			there := r.insert(j)
			out, err := r.within(g.tx, j)
			if isolation == "READ COMMITTED" {
				if err != nil || out[0].Verdict != store.Duplicate || out[0].ID != there[0].ID {
					t.Errorf("%v, %v: expected a duplicate of job %d", out, err, there[0].ID)
				}
			} else if state := sqlState(err); state != "40001" {
				t.Errorf("%v: expected SQLSTATE 40001", err)
			}
			r.must(g.rollback())
		}
	})
}

// TestG_SerializableCallersDoNotDisturbEachOther: their jobs have nothing in common.
func TestG_SerializableCallersDoNotDisturbEachOther(t *testing.T) {
	r := newRig(t)
	r.declare("api", "1000/s")
	var guests []*guest
	for i := range 4 {
		g := r.pgxGuest("SERIALIZABLE")
		_, err := r.within(g.tx, newJob(), newJob("api"))
		r.must(err)
		own := newJob("api")
		own.Group = fmt.Sprint("group ", i)
		_, err = r.within(g.tx, own)
		r.must(err)
		guests = append(guests, g)
	}
	r.register("w")
	r.drain("w")
	slices.Reverse(guests)
	for _, g := range guests {
		r.must(g.commit())
	}
	if n := r.drain("w"); n != 12 {
		t.Errorf("%d jobs ended, want 12", n)
	}
}

// sqlState is the SQLSTATE of an error, of whatever driver.
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return fmt.Sprintf("none in %v", err)
}

// TestG_ChangesBesideOpenTransaction: what changes the store alone (a replay, a
// Replace) wants the unique key, or the effect, that a caller's open transaction
// has. It waits, and others do not wait behind it.
func TestG_ChangesBesideOpenTransaction(t *testing.T) {
	dsn := pgtest.DSN(t)
	keyed := func() store.NewJob {
		j := newJob()
		j.Unique = "key"
		return j
	}
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprintf("replay/commits=%t", commits), func(t *testing.T) {
			r := rigOn(t, dsn)
			id := r.dead(keyed(), store.Rejected)
			g := r.pgxGuest("READ COMMITTED")
			_, err := r.within(g.tx, keyed())
			r.must(err)
			errs := r.besideOthers(g, func() (errs []error, err error) { return r.st.Replay(r.ctx(), []int64{id}, nil, nil) }, commits)
			if taken := errors.Is(errs[0], store.ErrUniqueTaken); taken != commits {
				t.Errorf("the replay said %v, the transaction committed: %t", errs[0], commits)
			}
		})
		t.Run(fmt.Sprintf("replace/commits=%t", commits), func(t *testing.T) {
			r := rigOn(t, dsn)
			r.register("w")
			g := r.pgxGuest("READ COMMITTED")
			_, err := r.within(g.tx, keyed())
			r.must(err)
			newer := keyed()
			newer.Replace = true
			var out []store.Inserted
			r.besideOthers(g, func() (_ []error, err error) {
				out, err = r.st.Insert(r.ctx(), []store.NewJob{newer})
				return nil, err
			}, commits)
			if want := map[bool]store.Verdict{true: store.Replaced, false: store.Created}[commits]; out[0].Verdict != want {
				t.Errorf("the newer version was %v, want %v", out[0].Verdict, want)
			}
		})
		t.Run(fmt.Sprintf("doubt/commits=%t", commits), func(t *testing.T) {
			r := rigOn(t, dsn)
			r.register("w")
			r.insert(newJob(), newJob())
			jobs := r.claim("w", 2)
			_, err := r.st.BeginEffect(r.ctx(), "effect", jobs[0].ID, jobs[0].Token, true)
			r.must(err)
			fs := finishesOf("w", jobs[:1])
			fs[0].Outcome, fs[0].Reason = store.OutcomeDead, store.InDoubt
			_, err = r.st.Finish(r.ctx(), fs)
			r.must(err)
			g := r.pgxGuest("READ COMMITTED") // the other job takes the effect over
			r.must(r.st.Within(r.ctx(), g.tx, func(tx engine.Tx) error {
				_, err := engine.BeginEffect(tx, "effect", jobs[1].ID, jobs[1].Token, true)
				return err
			}))
			errs := r.besideOthers(g, func() ([]error, error) { return r.st.Replay(r.ctx(), []int64{jobs[0].ID}, nil, nil) }, commits)
			r.must(errs[0])
			if begun := value[int](r, `SELECT count(*) FROM penstock.effect`); begun != map[bool]int{true: 1, false: 0}[commits] {
				t.Errorf("%d effects are begun, the transaction committed: %t", begun, commits)
			}
		})
	}
}

// TestG_ManyChangesBesideOpenTransaction: more of them than transactions that this
// process may have at once.
func TestG_ManyChangesBesideOpenTransaction(t *testing.T) {
	r := newRig(t)
	newer := newJob()
	newer.Unique = "key"
	g := r.pgxGuest("READ COMMITTED")
	there, err := r.within(g.tx, newer)
	r.must(err)
	newer.Replace = true
	const many = 3 * writersMost
	errs := r.besideOthers(g, func() (errs []error, err error) {
		got := make(chan error, many)
		for range many {
			go func() {
				out, err := r.st.Insert(r.ctx(), []store.NewJob{newer})
				if err == nil && (out[0].Verdict != store.Replaced || out[0].ID != there[0].ID) {
					err = fmt.Errorf("it was %v of %d, want %v of %d", out[0].Verdict, out[0].ID, store.Replaced, there[0].ID)
				}
				got <- err
			}()
		}
		for range many {
			errs = append(errs, <-got)
		}
		return errs, nil
	}, true)
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// besideOthers runs what must wait for the open transaction, while others work, and
// then ends the transaction.
func (r *rig) besideOthers(g *guest, waits func() ([]error, error), commits bool) []error {
	r.t.Helper()
	r.register("other")
	var errs []error
	done := make(chan error, 1)
	go func() {
		var err error
		errs, err = waits()
		done <- err
	}()
	r.waitsOn(g.pid)
	for i := range 10 {
		j := newJob()
		j.Group = fmt.Sprint(i) // a lane that must be made
		r.insert(j)
		r.finish("other", r.claim("other", 10))
	}
	select {
	case err := <-done:
		r.t.Errorf("it ended before the transaction did: %v", err)
		done <- err
	default:
	}
	if commits {
		r.must(g.commit())
	} else {
		r.must(g.rollback())
	}
	r.must(<-done)
	return errs
}

// dead makes a dead letter.
func (r *rig) dead(j store.NewJob, reason store.Reason) int64 {
	r.t.Helper()
	r.register("w")
	r.insert(j)
	jobs := r.claim("w", 1)
	fs := finishesOf("w", jobs)
	fs[0].Outcome, fs[0].Reason = store.OutcomeDead, reason
	out, err := r.st.Finish(r.ctx(), fs)
	r.must(err)
	r.must(out[0].Err)
	return jobs[0].ID
}
