package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/penstockhq/penstock/store"
)

var cancelTests = []test{
	{"Cancel/Waiting", testCancelWaiting},
	{"Cancel/Blocked", testCancelBlocked},
	{"Cancel/Running", testCancelRunning},
	{"Cancel/RunningEndsAsItEnds", testCancelRunningEnds},
	{"Cancel/Ended", testCancelEnded},
	{"Cancel/Unknown", testCancelUnknown},
	{"Cancel/Successor", testCancelSuccessor},
	{"Cancel/SuccessorReplayed", testCancelSuccessorReplayed},
	{"Cancel/SuccessorWaitsAtAudit", testSuccessorWaits},
}

func (e *env) cancel(id int64, want store.State) {
	e.Helper()
	got, err := e.Cancel(e.ctx, id)
	e.must(err)
	if got != want {
		e.Errorf("cancel of job %d: %v, expected %v", id, got, want)
	}
}

func testCancelWaiting(e *env) {
	w := e.worker("w")
	ids := e.insert(job(unique("u")), job(at(Epoch+5_000_000)), job())
	e.cancel(ids[0], store.Cancelled)
	e.cancel(ids[1], store.Cancelled)
	if j := e.wantState(ids[0], store.Cancelled); j.FinishedAt != e.clock.Now() || j.Reason != "" {
		e.Errorf("stored is %+v", j)
	}
	e.wantIDs("what is left", e.take(w), ids[2])
	e.clock.Advance(time.Minute)
	e.wantIDs("a minute later", e.take(w))
	e.one(unique("u"))
}

func testCancelBlocked(e *env) {
	e.limit("api", "1/m")
	w := e.worker("w")
	ids := e.insert(times(4, draw("api", 1))...)
	e.done(e.take(w)...)
	e.cancel(ids[1], store.Cancelled)
	if got := e.wantNext(w); got[0].ID != ids[2] {
		e.Errorf("next came job %d, expected %d", got[0].ID, ids[2])
	}
}

func testCancelRunning(e *env) {
	w := e.worker("w")
	for _, o := range []store.Outcome{store.OutcomeCancelled, store.OutcomeRetry, store.OutcomeThrottled, store.OutcomeSnoozed, store.OutcomeReturned} {
		j := e.started(w)
		other := e.started(w)
		e.cancel(j.ID, store.Running)
		e.cancel(j.ID, store.Running)
		if ids, err := e.Cancels(e.ctx, w); err != nil || !slices.Equal(ids, []int64{j.ID}) {
			e.Errorf("to be stopped are %v, %v; expected job %d", ids, err, j.ID)
		}
		if s := e.wantState(j.ID, store.Running); !s.Cancel {
			e.Error("the running job does not show it")
		}
		f := ending(j, o)
		f.At = e.clock.Now() + 1_000_000
		if got := e.finish(f); got.State != store.Cancelled {
			e.Errorf("%v after a cancel: %+v", o, got)
		}
		e.wantState(j.ID, store.Cancelled)
		if ids, err := e.Cancels(e.ctx, w); err != nil || len(ids) != 0 {
			e.Errorf("after its end, to be stopped are %v, %v", ids, err)
		}
		e.done(other)
	}
	e.clock.Advance(time.Minute)
	e.wantIDs("a cancelled job never comes back", e.take(w))
}

// What really happened is what is stored: a job that was done before it noticed
// is done.
func testCancelRunningEnds(e *env) {
	w := e.worker("w")
	j := e.started(w)
	e.cancel(j.ID, store.Running)
	e.done(j)
	e.wantState(j.ID, store.Done)
	j = e.started(w)
	e.cancel(j.ID, store.Running)
	f := ending(j, store.OutcomeDead)
	f.Reason = store.Rejected
	e.finish(f)
	e.wantState(j.ID, store.Dead)
}

func testCancelEnded(e *env) {
	w := e.worker("w")
	j := e.started(w)
	e.done(j)
	e.cancel(j.ID, store.Done)
	id := e.one()
	e.cancel(id, store.Cancelled)
	e.cancel(id, store.Cancelled)
	if evs, err := e.Events(e.ctx, id); err != nil || len(evs) > 1 {
		e.Errorf("cancelled twice, the history is %v, %v", evs, err)
	}
}

func testCancelUnknown(e *env) {
	if _, err := e.Cancel(e.ctx, 12345); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("got %v", err)
	}
	e.insert(job(staged("l"), run("r")))
	e.must(e.Release(e.ctx, "l"))
}

// succession returns a running job and the newer version that waits for its end.
func (e *env) succession(w string) (store.Claimed, int64) {
	e.Helper()
	j := e.started(w, unique("u"), body("one"))
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("u"), body("two"), replace)})
	e.must(err)
	return j, got[0].ID
}

func testCancelSuccessor(e *env) {
	w := e.worker("w")
	j, next := e.succession(w)
	e.cancel(next, store.Cancelled)
	f := ending(j, store.OutcomeDone)
	e.finish(f)
	e.wantIDs("afterwards", e.take(w))
	e.wantState(next, store.Cancelled)
	e.done(e.started(w, unique("u")))
}

// A newer version that was cancelled and put back while the older one runs is
// not disturbed by the older one's end.
func testCancelSuccessorReplayed(e *env) {
	e.limit("api", "5 in flight")
	w := e.worker("w")
	j := e.started(w, unique("u"), draw("api", 1))
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("u"), replace, draw("api", 1))})
	e.must(err)
	next := got[0].ID
	e.cancel(next, store.Cancelled)
	errs, err := e.Replay(e.ctx, []int64{next}, nil, nil)
	e.must(err)
	e.must(errs[0])
	running := e.take(w)
	e.done(j)
	running = append(running, e.take(w)...)
	e.wantIDs("the newer version ran once", running, next)
	if s := e.wantState(next, store.Running); s.Token != running[0].Token {
		e.Errorf("the older one's end changed its lease: %+v", s)
	}
	e.done(running...)
}

// A version that waits for an older one's end is at rest: no sweep wakes it.
func testSuccessorWaits(e *env) {
	w := e.worker("w")
	j, next := e.succession(w)
	Audit(e.T, e.Store)
	e.wantIDs("after the audit", e.take(w))
	e.must(e.Deregister(e.ctx, w)) // the older one is lost: the newer takes over
	if s := e.get(j.ID); s.State == store.Waiting {
		e.Errorf("the older version waits beside the newer one: %+v", s)
	}
	got := e.take(e.worker("w2"))
	e.wantIDs("the newer one", got, next)
}
