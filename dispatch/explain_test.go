package dispatch

import (
	"testing"
	"time"

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

// A limit that waits because of what the API said is left says so.
func TestExplainTellsWhatTheAPISaid(t *testing.T) {
	q, st := question(t, "10/s")
	sp := q.Limits["api"].Spec
	st.Take(sp, limit.Ask{Cost: 1}, t0)
	reset := t0 + 3_600_000_000
	st.Observe(sp, limit.Observation{At: t0 + 500_000, Slot: t0, LeftKnown: true, Whole: 100, ResetAt: reset}, 0)
	q.Now, q.At = t0+500_000, t0+500_000
	got := Explain(q)
	want := "limit api (10/s): the API said that 0 are left until " + time.UnixMicro(reset).UTC().Format("15:04:05 UTC")
	if len(got) != 1 || got[0].Why != limit.Announced || got[0].Text != want {
		t.Fatalf("%+v, want %q", got, want)
	}
	if at, _ := st.Earliest(sp, limit.Ask{Cost: 1}, q.Now); got[0].Until != at || at <= q.Now {
		t.Fatalf("it waits until %d, its limit opens at %d", got[0].Until, at)
	}
}
