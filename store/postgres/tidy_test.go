package postgres

import (
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
)

// TestTidyBesideOpenTransaction: lanes are removed while a caller's transaction has
// jobs for them that nobody sees. After its commit they are found and run, also if the
// lane has been made anew meanwhile.
func TestTidyBesideOpenTransaction(t *testing.T) {
	eachGuest(t, func(t *testing.T, r *rig, begin func() *guest, _ string) {
		r.declare("api", "1000/s")
		r.register("w")
		inLane := func(group string) store.NewJob {
			j := newJob("api")
			j.Group = group
			return j
		}
		g := begin()
		_, err := r.within(g.tx, inLane("gone"), inLane("anew"), inLane("both"))
		r.must(err)
		tidied, err := r.st.Tidy(r.ctx())
		r.must(err)
		if tidied.Lanes != 3 {
			t.Errorf("%d lanes were removed, want all 3: nobody sees a job", tidied.Lanes)
		}
		other := r.open(r.dsn)
		_, err = other.Insert(r.ctx(), []store.NewJob{inLane("anew"), inLane("both")})
		r.must(err)
		_, err = r.within(g.tx, inLane("both"))
		r.must(err)
		r.must(g.commit())
		if n := r.drain("w"); n != 6 {
			t.Errorf("%d jobs ended, want 6", n)
		}
		r.nothingStranded()
		found, err := r.st.Jobs(r.ctx(), store.Filter{States: []store.State{store.Done}})
		r.must(err)
		if len(found) != 6 {
			t.Errorf("%d jobs are listed as done, want 6: each must have its lane", len(found))
		}
	})
}

// TestTidyBetweenCommitAndClaim: the jobs are committed, and not announced to a claim
// yet. Their lanes stay, and lists of people show the jobs.
func TestTidyBetweenCommitAndClaim(t *testing.T) {
	r := newRig(t)
	g := r.pgxGuest("READ COMMITTED")
	out, err := r.within(g.tx, newJob())
	r.must(err)
	_, err = r.st.Tidy(r.ctx())
	r.must(err)
	r.must(g.commit())
	_, err = r.st.Tidy(r.ctx())
	r.must(err)
	j, err := r.st.Job(r.ctx(), out[0].ID)
	if err != nil || j.Kind != "k" || j.Queue != "q" {
		t.Errorf("the job is %+v (%v), want its kind and queue", j, err)
	}
	if state, err := r.st.Cancel(r.ctx(), out[0].ID); err != nil || state != store.Cancelled {
		t.Errorf("cancelled: %v, %v", state, err)
	}
	found, err := r.st.Jobs(r.ctx(), store.Filter{})
	r.must(err)
	if len(found) != 1 || found[0].Kind != "k" {
		t.Errorf("%+v is listed, want the cancelled job", found)
	}
}

// TestHotTablesStaySmall: jobs that ended leave the hot tables, and those that are
// pruned with their calls leave nothing. Tables with churn are vacuumed by their own settings.
func TestHotTablesStaySmall(t *testing.T) {
	r := newRig(t)
	r.declare("key/*", "1000/s")
	r.register("w")
	for i := range 200 {
		j := newJob("key/" + string(rune('a'+i%26)))
		j.Run, j.Ref, j.Hash = "run", string(rune('a'+i)), "h"
		r.insert(j)
	}
	if n := r.drain("w"); n != 200 {
		t.Fatalf("%d jobs ended, want 200", n)
	}
	for _, table := range []string{"job", "wake"} {
		if n := value[int](r, `SELECT count(*) FROM penstock.`+table); n != 0 {
			t.Errorf("%d rows are in %s", n, table)
		}
	}
	now, err := r.st.Now(r.ctx())
	r.must(err)
	for want := range []int{0, 1, 2, 3} {
		n, err := r.st.PruneCalls(r.ctx(), []store.State{store.Done}, now+time.Hour.Microseconds(), 64)
		r.must(err)
		if w := []int{64, 64, 64, 8}[want]; n != w {
			t.Errorf("%d jobs were pruned in a chunk, want %d", n, w)
		}
	}
	for _, table := range []string{"ended", "body", "call", "event"} {
		if n := value[int](r, `SELECT count(*) FROM penstock.`+table); n != 0 {
			t.Errorf("%d rows are in %s after everything was pruned", n, table)
		}
	}
	for _, table := range []string{"job", "wake", "lane", "gate", "limit_state"} {
		n := value[int](r, `SELECT count(*) FROM pg_class c, unnest(c.reloptions) o WHERE c.oid = $1::text::regclass AND o LIKE 'autovacuum_vacuum_%'`, r.text(`penstock.`+table))
		if n < 2 {
			t.Errorf("%s has %d settings for autovacuum, want its own scale factor and threshold", table, n)
		}
	}
}
