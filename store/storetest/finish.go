package storetest

import (
	"errors"
	"time"

	"github.com/penstockhq/penstock/store"
)

var finishTests = []test{
	{"Finish/Done", testFinishDone},
	{"Finish/Retry", testFinishRetry},
	{"Finish/Dead", testFinishDead},
	{"Finish/DeadBeforeItBegan", testFinishDeadBeforeItBegan},
	{"Finish/Snoozed", testFinishSnoozed},
	{"Finish/Returned", testFinishReturned},
	{"Finish/Discarded", testFinishDiscarded},
	{"Finish/StaleToken", testFinishStale},
	{"Finish/EachForItself", testFinishEachForItself},
	{"Finish/Twice", testFinishTwice},
	{"Finish/TwiceInOneCall", testFinishTwiceInOneCall},
	{"Finish/RefundsOnce", testFinishRefundsOnce},
	{"Finish/BadOutcome", testFinishBadOutcome},
	{"Finish/FarRetry", testFinishFarRetry},
}

// started inserts a job and claims it.
func (e *env) started(w string, opts ...opt) store.Claimed {
	e.Helper()
	id := e.one(opts...)
	jobs := e.claim(w, places(1)).Jobs
	if len(jobs) != 1 || jobs[0].ID != id {
		e.Fatalf("claimed %v, expected job %d", idsOf(jobs), id)
	}
	return jobs[0]
}

func testFinishDone(e *env) {
	j := e.started(e.worker("w"), unique("u"))
	e.clock.Advance(time.Second)
	f := ending(j, store.OutcomeDone)
	f.Result = []byte("ok\x00\xff")
	if got := e.finish(f); got.State != store.Done {
		e.Errorf("the answer was %+v", got)
	}
	if s := e.wantState(j.ID, store.Done); string(s.Result) != "ok\x00\xff" || s.FinishedAt != e.clock.Now() || s.Attempts != 0 || s.Starts != 1 || s.Error != "" {
		e.Errorf("stored is %+v", s)
	}
	e.one(unique("u"))
}

func testFinishRetry(e *env) {
	w := e.worker("w")
	j := e.started(w)
	for n := 1; n <= 3; n++ {
		f := ending(j, store.OutcomeRetry)
		f.At, f.Error = e.clock.Now()+1_000_000, "no luck"
		if got := e.finish(f); got.State != store.Waiting || got.At != f.At {
			e.Errorf("the answer was %+v", got)
		}
		if s := e.wantState(j.ID, store.Waiting); s.Attempts != n || s.Starts != n || s.Error != "no luck" || s.At != f.At {
			e.Errorf("after failure %d: %+v", n, s)
		}
		e.wantIDs("before the retry is due", e.take(w))
		e.clock.Advance(time.Second)
		jobs := e.take(w)
		e.wantIDs("when the retry is due", jobs, j.ID)
		j = jobs[0]
	}
	e.done(j)
	if s := e.get(j.ID); s.Attempts != 3 || s.Starts != 4 || s.Error != "" {
		e.Errorf("in the end: %+v", s)
	}
}

func testFinishDead(e *env) {
	w := e.worker("w")
	j := e.started(w, unique("u"), body("kept"))
	f := ending(j, store.OutcomeDead)
	f.Reason, f.Error, f.Result = store.Rejected, "404", []byte("not here")
	if got := e.finish(f); got.State != store.Dead {
		e.Errorf("the answer was %+v", got)
	}
	if s := e.wantState(j.ID, store.Dead); s.Reason != store.Rejected || s.Error != "404" || string(s.Result) != "not here" || s.Attempts != 1 || string(s.Payload) != "kept" {
		e.Errorf("stored is %+v", s)
	}
	e.clock.Advance(time.Hour)
	e.wantIDs("afterwards", e.take(w))
	e.one(unique("u"))
}

func testFinishDeadBeforeItBegan(e *env) {
	f := ending(e.started(e.worker("w")), store.OutcomeDead)
	f.Reason, f.Started = store.Rejected, 0
	e.finish(f)
	if s := e.get(f.ID); s.Attempts != 0 {
		e.Errorf("%d attempts of a handler that never began", s.Attempts)
	}
}

func testFinishSnoozed(e *env) {
	w := e.worker("w")
	j := e.started(w)
	f := ending(j, store.OutcomeSnoozed)
	f.At = e.clock.Now() + 60_000_000
	e.finish(f)
	if s := e.wantState(j.ID, store.Waiting); s.Attempts != 0 || s.Starts != 1 || s.At != f.At {
		e.Errorf("stored is %+v", s)
	}
	e.wantNext(w)
}

func testFinishReturned(e *env) {
	e.limit("api", "2/h")
	w := e.worker("w")
	ids := e.insert(times(2, draw("api", 1))...)
	younger := e.one(draw("api", 1))
	jobs := e.take(w)
	if len(jobs) != 2 {
		e.Fatalf("%d jobs claimed, expected 2", len(jobs))
	}
	for _, j := range jobs {
		f := ending(j, store.OutcomeReturned)
		f.Started = 0
		e.finish(f)
		if s := e.wantState(j.ID, store.Waiting); s.Starts != 0 || s.Attempts != 0 || s.At != j.At {
			e.Errorf("stored is %+v", s)
		}
	}
	if used := e.state("api").Used(time.Hour, e.clock.Now()); used != 0 {
		e.Errorf("%d permits are still spent", used)
	}
	e.wantIDs("with the permits given back, in the old order", e.take(w), ids...)
	e.wantState(younger, store.Waiting)
}

func testFinishDiscarded(e *env) {
	e.limit("api", "1 in flight")
	w := e.worker("w")
	j := e.started(w, draw("api", 1), unique("u"))
	f := ending(j, store.OutcomeDiscarded)
	e.finish(f)
	if _, err := e.Job(e.ctx, j.ID); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("the job is still there: %v", err)
	}
	e.done(e.started(w, draw("api", 1), unique("u")))
}

// wrong calls fn with finishes that must be refused.
func wrong(j store.Claimed, fn func(string, store.Finish)) {
	f := ending(j, store.OutcomeDone)
	f.Token++
	fn("another token", f)
	f = ending(j, store.OutcomeRetry)
	f.Worker = "other"
	fn("another worker", f)
	f = ending(j, store.OutcomeDead)
	f.ID += 1000
	fn("no such job", f)
}

func testFinishStale(e *env) {
	e.limit("api", "1 in flight")
	e.limit("seen", "10/s")
	w := e.worker("w")
	e.worker("other")
	j := e.started(w, draw("api", 1))
	before := e.get(j.ID)
	wrong(j, func(what string, f store.Finish) {
		f.Observations = []store.Observed{{Limit: "seen", Observation: refusal(e.clock.Now(), time.Hour)}}
		got, err := e.Finish(e.ctx, []store.Finish{f})
		e.must(err)
		if !errors.Is(got[0].Err, store.ErrLeaseLost) {
			e.Errorf("%s: got %v", what, got[0].Err)
		}
	})
	after := e.get(j.ID)
	if after.State != store.Running || after.Token != before.Token || after.Attempts != 0 || e.state("api").InFlight() != 1 {
		e.Errorf("a refused finish changed the job to %+v", after)
	}
	if until, _, _ := e.state("seen").Paused(e.clock.Now()); until != 0 {
		e.Error("a refused finish paused a limit")
	}
	e.done(j)
}

func testFinishEachForItself(e *env) {
	w := e.worker("w")
	e.insert(times(3)...)
	jobs := e.take(w)
	fs := []store.Finish{ending(jobs[0], store.OutcomeDone), ending(jobs[1], store.OutcomeDone), ending(jobs[2], store.OutcomeRetry)}
	fs[1].Token++
	got, err := e.Finish(e.ctx, fs)
	e.must(err)
	if got[0].Err != nil || !errors.Is(got[1].Err, store.ErrLeaseLost) || got[2].Err != nil {
		e.Errorf("got %+v", got)
	}
	e.wantState(jobs[0].ID, store.Done)
	e.wantState(jobs[1].ID, store.Running)
	e.wantState(jobs[2].ID, store.Waiting)
}

func testFinishTwice(e *env) {
	w := e.worker("w")
	for o := store.OutcomeDone; o <= store.OutcomeDiscarded; o++ {
		if o == store.OutcomeLost {
			continue
		}
		f := ending(e.started(w), o)
		f.Reason, f.At = store.Rejected, e.clock.Now()+1e12
		e.finish(f)
		got, err := e.Finish(e.ctx, []store.Finish{f})
		e.must(err)
		if !errors.Is(got[0].Err, store.ErrLeaseLost) {
			e.Errorf("%v, the second time: %v", o, got[0].Err)
		}
		if o == store.OutcomeReturned || o == store.OutcomeThrottled {
			e.done(e.take(w)...)
		}
	}
}

func testFinishTwiceInOneCall(e *env) {
	e.limit("api", "5 in flight")
	w := e.worker("w")
	e.insert(times(2, draw("api", 1))...)
	jobs := e.take(w)
	f := ending(jobs[0], store.OutcomeDone)
	got, err := e.Finish(e.ctx, []store.Finish{f, f})
	e.must(err)
	if got[0].Err != nil || !errors.Is(got[1].Err, store.ErrLeaseLost) {
		e.Errorf("got %+v", got)
	}
	if n := e.state("api").InFlight(); n != 1 {
		e.Errorf("%d in flight, one job runs", n)
	}
}

func testFinishRefundsOnce(e *env) {
	e.limit("api", "10/h")
	w := e.worker("w")
	e.insert(times(10, draw("api", 1))...)
	jobs := e.take(w)
	f := ending(jobs[0], store.OutcomeReturned)
	e.finish(f)
	for range 5 {
		_, err := e.Finish(e.ctx, []store.Finish{f})
		e.must(err)
	}
	if used := e.state("api").Used(time.Hour, e.clock.Now()); used != 9 {
		e.Errorf("%d permits spent after one of 10 was given back", used)
	}
	e.done(jobs[1:]...)
}

// A finish that cannot be applied changes nothing at all.
func testFinishBadOutcome(e *env) {
	w := e.worker("w")
	e.insert(times(2)...)
	jobs := e.take(w)
	for _, o := range []store.Outcome{0, store.OutcomeLost, 99} {
		if _, err := e.Finish(e.ctx, []store.Finish{ending(jobs[0], store.OutcomeDone), ending(jobs[1], o)}); err == nil {
			e.Errorf("outcome %d was accepted", o)
		}
		e.wantState(jobs[0].ID, store.Running)
		e.wantState(jobs[1].ID, store.Running)
	}
	e.done(jobs...)
}

func testFinishFarRetry(e *env) {
	w := e.worker("w")
	f := ending(e.started(w), store.OutcomeRetry)
	f.At = 1<<63 - 1
	e.finish(f)
	e.wantState(f.ID, store.Waiting)
	e.clock.Advance(400 * 24 * time.Hour)
	e.wantIDs("400 days on", e.take(w))
}
