package postgres

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock/store"
)

// slowStore takes a while for each insert, and notes when it began and with how many jobs.
type slowStore struct {
	store.Store
	takes time.Duration
	sizes chan int
}

func (s *slowStore) Insert(_ context.Context, jobs []store.NewJob) ([]store.Inserted, error) {
	s.sizes <- len(jobs)
	<-time.After(s.takes)
	return make([]store.Inserted, len(jobs)), nil
}

// TestGroupsOfInserts: what comes while a transaction is under way goes together with
// the next one; a second one begins beside it if many wait, or if it takes long.
func TestGroupsOfInserts(t *testing.T) {
	for _, c := range []struct {
		name   string
		takes  time.Duration
		later  int           // calls that come while the first one is under way
		after  time.Duration // and when
		beside int           // jobs that are written beside it at once
	}{
		{"few", groupLong, groupWaiting - 1, 1, 0},
		{"many", groupLong, groupWaiting, 1, groupWaiting},
		{"long", time.Second, 1, groupLong + 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slowStore{takes: c.takes, sizes: make(chan int, 100)}
				g := &group{Store: s}
				var all sync.WaitGroup
				defer all.Wait()
				insert := func() {
					if out, err := g.Insert(t.Context(), []store.NewJob{newJob()}); err != nil || len(out) != 1 {
						t.Errorf("%v, %v", out, err)
					}
				}
				all.Go(insert)
				synctest.Wait()
				if n := <-s.sizes; n != 1 {
					t.Fatalf("the first transaction has %d jobs, want 1", n)
				}
				<-time.After(c.after)
				for range c.later {
					all.Go(insert)
				}
				synctest.Wait()
				beside := 0
				for len(s.sizes) > 0 {
					beside += <-s.sizes
				}
				if beside != c.beside {
					t.Errorf("%d jobs are written beside it, want %d", beside, c.beside)
				}
				if beside > 0 {
					return
				}
				<-time.After(c.takes)
				synctest.Wait()
				if n := <-s.sizes; n != c.later {
					t.Errorf("the next transaction has %d jobs, want %d", n, c.later)
				}
			})
		})
	}
}

// TestGroupsGoOneWay: a call that has to make a lane does not keep others from the short way.
func TestGroupsGoOneWay(t *testing.T) {
	few, many := make([]store.NewJob, 1), make([]store.NewJob, groupJobs-2)
	calls := []*insert{{jobs: few, short: true}, {jobs: few}, {jobs: many, short: true}, {jobs: few}, {jobs: few, short: true}, {jobs: few, short: true}}
	g := &group{waiting: slices.Clone(calls)}
	for _, want := range [][]*insert{{calls[0], calls[2], calls[4]}, {calls[1], calls[3]}, {calls[5]}, nil} {
		if got := g.take(); !slices.Equal(got, want) {
			t.Errorf("%d calls were taken, want %d: %v, want %v", len(got), len(want), got, want)
		}
	}
}

// TestGroupsOfKnownLanes: which calls can go the short way is seen when they come.
func TestGroupsOfKnownLanes(t *testing.T) {
	r := newRig(t)
	r.declare("api", "10/s")
	r.insert(newJob(), newJob("api"))
	unknown, unique := newJob(), newJob()
	unknown.Group, unique.Unique = "another", "key"
	for name, c := range map[string]struct {
		jobs []store.NewJob
		want bool
	}{
		"known":   {[]store.NewJob{newJob(), newJob("api"), newJob("api")}, true},
		"unknown": {[]store.NewJob{newJob(), unknown}, false},
		"unique":  {[]store.NewJob{newJob(), unique}, false},
	} {
		if got := r.st.db.knows(c.jobs); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
