package dispatch

import (
	"testing"

	"github.com/penstockhq/penstock/limit"
)

func question(t *testing.T, spec string) (Question, *limit.State) {
	t.Helper()
	p := newPicture(1)
	st := p.limit(t, "api", spec)
	return Question{Now: t0, At: t0, Workers: 1, Lane: Lane{ID: 1, Priority: 5, Draws: []Draw{{"api", 1}}}, Limits: p.Limits}, st
}

func causes(ws []Wait) (all []Cause) {
	for _, w := range ws {
		all = append(all, w.Cause)
	}
	return all
}

func TestExplainNamesEveryReason(t *testing.T) {
	q, st := question(t, "1/m")
	st.Take(q.Limits["api"].Spec, limit.Ask{Cost: 1}, t0)
	q.At, q.QueuePaused, q.PausedReason, q.Workers, q.Ahead = t0+5, true, "maintenance", 0, 3
	got := Explain(q)
	want := []Cause{CauseQueue, CauseNoWorker, CauseScheduled, CauseLimit, CausePlace}
	if len(got) != len(want) {
		t.Fatalf("causes %v, want %v", causes(got), want)
	}
	for i, w := range got {
		if w.Cause != want[i] {
			t.Fatalf("causes %v, want %v", causes(got), want)
		}
	}
	at, _ := st.Earliest(q.Limits["api"].Spec, limit.Ask{Cost: 1}, t0)
	if got[3].Until != at {
		t.Fatalf("the limit lets it go at %d, want %d", got[3].Until, at)
	}
}

func TestExplainSaysReadyOnlyWhenAPlanWouldGrant(t *testing.T) {
	q, st := question(t, "2/s burst 1")
	if got := Explain(q); len(got) != 1 || got[0].Cause != CauseReady {
		t.Fatalf("causes %v of a free job, want ready", causes(got))
	}
	st.Take(q.Limits["api"].Spec, limit.Ask{Cost: 1}, t0)
	if got := Explain(q); len(got) != 1 || got[0].Cause != CauseLimit {
		t.Fatalf("causes %v of a paced job, want limit", causes(got))
	}
}
