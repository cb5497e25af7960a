package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func TestEnds(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	quiet := int(engine.QuietFor.Milliseconds())
	for _, tt := range []struct {
		name   string
		ends   []int
		settle []int
		looked int
		due    int // -1: never
	}{
		{"none", nil, nil, 0, -1},
		{"the first one counts", []int{10, 50}, nil, 0, 10 + quiet},
		{"all were taken", []int{10, 50}, []int{51}, 0, -1},
		{"one came in the same moment", []int{10, 50}, []int{50}, 0, 50 + quiet},
		{"some were taken", []int{10, 50}, []int{30}, 0, 30 + quiet},
		{"none was taken", []int{10, 50}, []int{5}, 0, 10 + quiet},
		{"an earlier taking comes late", []int{10, 50}, []int{30, 20}, 0, 30 + quiet},
		{"nothing is there to take", nil, []int{30}, 0, -1},
		{"somebody looked too early to know", []int{10, 50}, nil, 70, 70 + quiet},
		{"somebody looked before", []int{10, 50}, nil, 5, 10 + quiet},
		{"somebody looked and all were taken", []int{10, 50}, nil, 51 + quiet, -1},
		{"somebody looked and some were taken", []int{10, 50}, nil, 30 + quiet, 30 + 2*quiet},
		{"somebody looked and more came", []int{10, 400}, []int{20}, 300, 300 + quiet},
	} {
		var h hub
		e := &h.ends
		for _, ms := range tt.ends {
			e.add(at(ms))
		}
		for _, ms := range tt.settle {
			e.settle(at(ms))
		}
		if tt.looked != 0 {
			h.looked(at(tt.looked))
		}
		due, ok := e.due()
		if ok != (tt.due >= 0) || ok && !due.Equal(at(tt.due)) {
			t.Errorf("%s: due %v, %t, want %d ms", tt.name, due.Sub(began), ok, tt.due)
		}
	}
}

// claimOn claims for the worker w on one of several stores.
func (r *rig) claimOn(st *Store) []store.Claimed {
	r.t.Helper()
	res, err := st.Claim(r.ctx(), r.request("w", 10))
	r.must(err)
	return res.Jobs
}

// minds reports whether the store waits for somebody to take the ends that it announced.
func (s *Store) minds() bool {
	h := s.db.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.minding != nil
}

// looksForEnds reports whether the trip is a look for announcements, and nothing else.
func looksForEnds(sql string) bool {
	look, _, _ := strings.Cut(sqlAnnounced, DefaultSchema)
	parts := strings.Split(sql, "; ")
	return len(parts) == 3 && strings.HasPrefix(parts[1], look) // behind the time
}

// TestQuietEndsAreToldInTime: a start ended quietly, and its limit turns out to have been
// full. Its process tells, though nobody looks by himself; not if the announcement was taken.
func TestQuietEndsAreToldInTime(t *testing.T) {
	r := newRig(t)
	r.declare("api", "1 in flight")
	r.register("w")
	r.insert(newJob("api"), newJob("api"), newJob("api"))
	c := new(trips)
	st, other := c.open(t, r.dsn), r.open(r.dsn)
	finish := func(jobs []store.Claimed) {
		t.Helper()
		out, err := st.Finish(r.ctx(), finishesOf("w", jobs))
		r.must(err)
		for _, f := range out {
			r.must(f.Err)
		}
	}
	others := r.ears()
	first := r.claimOn(st)
	others.hear("jobs are left", st)
	finish(first)
	began := time.Now()
	others.hear("a place is free", st)
	if took := time.Since(began); took < engine.QuietFor/2 {
		t.Errorf("told after %v: most ends are of no interest, and are not told", took)
	}
	second := r.claimOn(other)
	if len(first) != 1 || len(second) != 1 {
		t.Fatalf("%d and %d jobs were claimed, want 1 and 1", len(first), len(second))
	}
	r.soon("nothing is waited for", func() bool { return !st.minds() })

	c.take()
	finish(second)
	_, err := st.Insert(r.ctx(), []store.NewJob{newJob()}) // so that the claim does more than look
	r.must(err)
	if n := len(r.claimOn(st)); n != 2 {
		t.Fatalf("%d jobs were claimed, want 2", n)
	}
	r.soon("nothing is waited for", func() bool { return !st.minds() })
	if sql := c.take(); slices.ContainsFunc(sql, looksForEnds) {
		t.Errorf("the announcement was taken, and looked for:\n%s", strings.Join(sql, "\n"))
	}
	finish(nil)
	if st.minds() {
		t.Error("a finish of nothing is waited for")
	}
}

// TestLooksOfWorkersFindQuietEnds: a worker that looks for jobs all the time finds out
// whether announcements were taken, and nobody needs to ask besides.
func TestLooksOfWorkersFindQuietEnds(t *testing.T) {
	r := newRig(t)
	r.declare("api", "100/s")
	r.register("w")
	r.insert(newJob("api"))
	c := new(trips)
	st, other := c.open(t, r.dsn), r.open(r.dsn)
	out, err := st.Finish(r.ctx(), finishesOf("w", r.claimOn(st)))
	r.must(err)
	r.must(out[0].Err)
	if !st.minds() {
		t.Fatal("an end that nobody took is not minded")
	}
	r.insert(newJob("api"))
	if n := len(r.claimOn(other)); n != 1 { // and takes the announcement
		t.Fatalf("%d jobs were claimed, want 1", n)
	}
	c.take()
	r.soon("nothing is waited for", func() bool { r.claimOn(st); return !st.minds() })
	for _, sql := range c.take() {
		if looksForEnds(sql) {
			t.Errorf("asked besides:\n%s", sql)
		}
	}
}
