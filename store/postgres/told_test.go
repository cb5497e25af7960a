package postgres

import (
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
)

// TestClaimsTellOfWhatTheyLeave: a claim takes the announcement of what was enqueued.
// Others hear of it if something is left, and only then.
func TestClaimsTellOfWhatTheyLeave(t *testing.T) {
	r := newRig(t)
	r.declare("api", "10/s burst 1")
	r.register("w")
	other := newJob()
	other.Kind = "another"
	later := newJob()
	now, err := r.st.Now(r.ctx())
	r.must(err)
	later.At = now + time.Hour.Microseconds()
	limited := newJob("api")
	for _, tt := range []struct {
		name   string
		jobs   []store.NewJob
		places int
		told   bool
	}{
		{"it takes all", []store.NewJob{newJob(), newJob()}, 10, false},
		{"one is left", []store.NewJob{newJob(), newJob()}, 1, true},
		{"it takes the rest", nil, 10, false},
		{"one is of a kind it does not know", []store.NewJob{newJob(), other}, 10, true},
		{"one is due later", []store.NewJob{newJob(), later}, 10, true},
		{"a limit has no room for all", []store.NewJob{limited, limited}, 10, true},
	} {
		if tt.jobs != nil {
			r.insert(tt.jobs...)
		}
		if told := r.st.db.Told(); told != (tt.jobs != nil) {
			t.Errorf("%s: the insert told: %v", tt.name, told)
		}
		req := r.request("w", 100)
		req.Places = tt.places
		_, err := r.st.Claim(r.ctx(), req)
		r.must(err)
		if told := r.st.db.Told(); told != tt.told {
			t.Errorf("%s: the claim told: %v, want %v", tt.name, told, tt.told)
		}
	}
}

// TestSweepsTellOfWhatTheyWake: what a process enqueued that was killed before it could
// tell is announced only. If a sweep comes first, it takes the announcement.
func TestSweepsTellOfWhatTheyWake(t *testing.T) {
	r := newRig(t)
	r.insert(newJob())
	r.st.db.Told()
	if _, err := r.st.Sweep(r.ctx()); err != nil {
		t.Fatal(err)
	}
	if !r.st.db.Told() {
		t.Error("the sweep took the announcement of a job and told nobody")
	}
}
