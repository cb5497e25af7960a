package storetest

import (
	"context"
	"testing"

	"github.com/penstockhq/penstock/store"
)

// Audit checks that what a store holds fits together: each job in exactly one
// state, with the fields of that state and no others; counts equal to lists; calls in
// flight equal to running jobs; every lease held by a registered worker; no
// lane asleep that should be awake. Nothing else may use the store meanwhile.
func Audit(t testing.TB, s store.Store) {
	t.Helper()
	ctx := context.Background()
	jobs := all(t, s, store.Filter{})
	workers := make(map[string]int64)
	ws, err := s.Workers(ctx)
	if err != nil {
		t.Fatalf("audit: Workers: %v", err)
	}
	for _, w := range ws {
		workers[w.ID] = 0
	}
	inFlight := make(map[string]int64)
	uniques := make(map[string]int64)
	for _, j := range jobs {
		auditJob(t, j)
		if j.Unique != "" && !j.State.Ended() {
			if other, taken := uniques[j.Unique]; taken {
				t.Errorf("audit: jobs %d and %d both have the unique key %q", other, j.ID, j.Unique)
			}
			uniques[j.Unique] = j.ID
		}
		if j.State != store.Running {
			continue
		}
		if _, ok := workers[j.Worker]; !ok {
			t.Errorf("audit: job %d is leased to %q, who is not registered", j.ID, j.Worker)
		}
		workers[j.Worker]++
		for _, d := range j.Draws {
			inFlight[d.Limit]++
		}
	}
	for _, w := range ws {
		if w.Holds != workers[w.ID] {
			t.Errorf("audit: worker %q is said to hold %d jobs, it holds %d", w.ID, w.Holds, workers[w.ID])
		}
	}
	auditCounts(t, s, jobs)
	auditLimits(t, s, inFlight)
	for range 4 { // the sweep is bounded per call
		if n, err := s.Sweep(ctx); err != nil || n != 0 {
			t.Errorf("audit: the sweep found %d lanes asleep that should be awake (%v)", n, err)
		}
	}
}

// all lists every job that matches, page by page.
func all(t testing.TB, s store.Store, f store.Filter) []store.Job {
	t.Helper()
	var out []store.Job
	f.N = 500
	for {
		page, err := s.Jobs(context.Background(), f)
		if err != nil {
			t.Fatalf("Jobs: %v", err)
		}
		for _, j := range page {
			if j.ID <= f.AfterID {
				t.Fatalf("Jobs: job %d is listed after job %d", j.ID, f.AfterID)
			}
			f.AfterID = j.ID
		}
		out = append(out, page...)
		if len(page) < f.N {
			return out
		}
	}
}

func auditJob(t testing.TB, j store.Job) {
	t.Helper()
	switch j.State {
	case store.Waiting:
		if j.Worker != "" || j.Token != 0 || j.FinishedAt != 0 || j.Reason != "" {
			t.Errorf("audit: waiting job %d has a lease or an end: %+v", j.ID, j)
		}
	case store.Running:
		if j.Worker == "" || j.Token == 0 || j.FinishedAt != 0 || j.Reason != "" {
			t.Errorf("audit: running job %d has no lease, or an end: %+v", j.ID, j)
		}
	case store.Done, store.Dead, store.Cancelled:
		if j.Worker != "" || j.Token != 0 || j.FinishedAt == 0 || (j.Reason != "") != (j.State == store.Dead) {
			t.Errorf("audit: %v job %d has a lease, no end, or the wrong reason: %+v", j.State, j.ID, j)
		}
	default:
		t.Errorf("audit: job %d is in state %v", j.ID, j.State)
	}
}

func auditCounts(t testing.TB, s store.Store, jobs []store.Job) {
	t.Helper()
	ctx := context.Background()
	now, err := s.Now(ctx)
	if err != nil {
		t.Fatalf("audit: Now: %v", err)
	}
	want := make(map[string]store.QueueInfo)
	runs := make(map[string]map[store.State]int64)
	for _, j := range jobs {
		q := want[j.Queue]
		switch j.State {
		case store.Waiting:
			if j.At > now {
				q.Scheduled++
				break
			}
			q.Due++
			if q.OldestDue == 0 || j.At < q.OldestDue {
				q.OldestDue = j.At
			}
		case store.Running:
			q.Running++
		case store.Dead:
			q.Dead++
		case store.Done:
			q.Done++
		case store.Cancelled:
			q.Cancelled++
		}
		want[j.Queue] = q
		if j.Run != "" {
			if runs[j.Run] == nil {
				runs[j.Run] = make(map[store.State]int64)
			}
			runs[j.Run][j.State]++
		}
	}
	got, err := s.Queues(ctx)
	if err != nil {
		t.Fatalf("audit: Queues: %v", err)
	}
	for _, q := range got {
		w := want[q.Name]
		w.Name, w.Paused, w.PausedReason, w.PausedAt = q.Name, q.Paused, q.PausedReason, q.PausedAt
		if q != w {
			t.Errorf("audit: queue counts %+v, the jobs listed say %+v", q, w)
		}
		delete(want, q.Name)
	}
	for name := range want {
		t.Errorf("audit: queue %q has jobs and is not counted", name)
	}
	for run, counts := range runs {
		got, err := s.CountRun(ctx, run)
		if err != nil {
			t.Fatalf("audit: CountRun: %v", err)
		}
		for state := store.Waiting; state <= store.Cancelled; state++ {
			if got[state] != counts[state] {
				t.Errorf("audit: run %q counts %d jobs %v, listed are %d", run, got[state], state, counts[state])
			}
		}
	}
}

// auditLimits checks that each limit has as many calls in flight as jobs run
// that draw on it.
func auditLimits(t testing.TB, s store.Store, running map[string]int64) {
	t.Helper()
	ctx := context.Background()
	for name, after := "", ""; ; {
		page, err := s.ListLimits(ctx, after, 100)
		if err != nil {
			t.Fatalf("audit: ListLimits: %v", err)
		}
		for _, l := range page {
			name, after = l.Name, l.Name
			if _, ok := running[name]; !ok {
				running[name] = 0
			}
		}
		if len(page) < 100 {
			break
		}
	}
	for name, n := range running {
		l, err := s.Limit(ctx, name)
		if err != nil {
			t.Errorf("audit: Limit(%q): %v", name, err)
			continue
		}
		if got := l.State.InFlight(); got != n {
			t.Errorf("audit: limit %q says %d calls in flight, %d jobs run that draw on it", name, got, n)
		}
	}
}
