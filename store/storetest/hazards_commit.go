package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var errLost = errors.New("the reply was lost")

// loseReply makes the next commit succeed without anybody hearing of it.
func (e *env) loseReply(fn func() error) {
	e.Helper()
	h := *e.hooks
	e.hooks.Committed = func() error { return errLost }
	err := fn()
	*e.hooks = h
	if !errors.Is(err, errLost) {
		e.Fatalf("got %v, expected the lost reply", err)
	}
}

func testHazard05(e *env) {
	e.limit("api", "3 in flight")
	ids := e.insert(times(5, draw("api", 1))...)
	w := e.worker("w")
	r := e.request(w)
	e.loseReply(func() error { _, err := e.Claim(e.ctx, r); return err })
	held, err := e.Heartbeat(e.ctx, w)
	e.must(err)
	if len(held) != 3 || held[0].Token != r.Token {
		e.Errorf("the heartbeat tells of %v, expected the 3 jobs of the lost claim", held)
	}
	for range 3 { // repeated as often as need be
		r.Repeat = true
		res, err := e.Claim(e.ctx, r)
		e.must(err)
		if !slices.Equal(sorted(idsOf(res.Jobs)), ids[:3]) {
			e.Fatalf("the repeated claim returned %v, expected %v", idsOf(res.Jobs), ids[:3])
		}
		if n := e.state("api").InFlight(); n != 3 {
			e.Fatalf("%d in flight", n)
		}
		if len(res.Jobs[0].Charges) != 1 {
			e.Errorf("the permits are missing: %+v", res.Jobs[0])
		}
	}
	res, err := e.Claim(e.ctx, r)
	e.must(err)
	e.done(res.Jobs...)
	e.done(e.take(w)...)
}

func testHazard05Finish(e *env) {
	e.limit("api", "2 in flight")
	w := e.worker("w")
	for o := store.OutcomeDone; o <= store.OutcomeDiscarded; o++ {
		if o == store.OutcomeLost {
			continue
		}
		j := e.started(w, draw("api", 1), prio(9))
		f := ending(j, o)
		f.Reason, f.At = store.Rejected, e.clock.Now()+1e12
		e.loseReply(func() error { _, err := e.Finish(e.ctx, []store.Finish{f}); return err })
		before := dump(e.T, e.Store, number)
		got, err := e.Finish(e.ctx, []store.Finish{f})
		e.must(err)
		if !errors.Is(got[0].Err, store.ErrLeaseLost) {
			e.Errorf("%v repeated: %v", o, got[0].Err)
		}
		if d := diff(before, dump(e.T, e.Store, number)); d != "" {
			e.Errorf("%v repeated changed something:%s", o, d)
		}
		if n := e.state("api").InFlight(); n != 0 {
			e.Errorf("%v repeated: %d in flight", o, n)
		}
		e.done(e.take(w)...)
	}
	e.noDrain = true // of the ledger's view a returned job's permit is still spent
}

func testHazard05Insert(e *env) {
	jobs := []store.NewJob{job(ref("r", "a", "h", 1)), job(ref("r", "b", "h", 2)), job(unique("u"))}
	e.loseReply(func() error { _, err := e.Insert(e.ctx, jobs); return err })
	got, err := e.Insert(e.ctx, jobs)
	e.must(err)
	for i, g := range got {
		if g.Verdict != store.Duplicate {
			e.Errorf("job %d repeated: %+v", i, g)
		}
	}
	if n := len(all(e.T, e.Store, store.Filter{})); n != 3 {
		e.Errorf("%d jobs, expected 3", n)
	}
}

// While somebody is stopped in the middle of an update, others can give up
// waiting, and nothing of theirs has happened.
func testHazard04(e *env) {
	stopped, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e.hooks.Commit = func() error {
		once.Do(func() { close(stopped); <-goOn })
		return nil
	}
	inserted := make(chan error)
	go func() {
		_, err := e.Insert(e.ctx, times(1))
		inserted <- err
	}()
	<-stopped
	ctx, cancel := context.WithCancel(e.ctx)
	waiting := make(chan error)
	go func() {
		_, err := e.Insert(ctx, times(50))
		waiting <- err
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		e.Errorf("the one that gave up got %v", err)
	}
	close(goOn)
	e.must(<-inserted)
	if n := len(all(e.T, e.Store, store.Filter{})); n != 1 {
		e.Errorf("%d jobs, expected the one of the stopped update", n)
	}
}

// Every verb, failing just before its commit, changes nothing; done again, it
// works.
func testHazard19(e *env) {
	e.limit("api", "10/s burst 5, 5 in flight")
	w := e.worker("w")
	running := e.started(w, draw("api", 1))
	ended := e.started(w, draw("api", 1))
	dead := e.killed(w)
	cancelled := e.one(at(Epoch + 1e9))
	waiting := e.insert(job(draw("api", 1)), job(unique("u")), job(at(Epoch+1e9)))
	e.insert(job(staged("load"), run("r")))
	e.worker("gone")
	no := errors.New("disk full")
	now := e.clock.Now()
	for _, v := range []struct {
		name string
		do   func() error
	}{
		{"Insert", func() error {
			return second(e.Insert(e.ctx, []store.NewJob{job(ref("r", "x", "h", 1)), job(unique("u"), replace, body("new"))}))
		}},
		{"Claim", func() error { return second(e.Claim(e.ctx, e.request(w))) }},
		{"Finish", func() error {
			f := ending(running, store.OutcomeThrottled)
			f.Observations = []store.Observed{{Limit: "api", Observation: refusal(now, time.Minute)}}
			return second(e.Finish(e.ctx, []store.Finish{f, ending(ended, store.OutcomeDone)}))
		}},
		{"Register", func() error { return e.Register(e.ctx, store.Worker{ID: "new", Lease: lease}) }},
		{"Heartbeat", func() error { return second(e.Heartbeat(e.ctx, w)) }},
		{"Deregister", func() error { return e.Deregister(e.ctx, "gone") }},
		{"Cancel", func() error { return second(e.Cancel(e.ctx, cancelled)) }},
		{"Replay", func() error { return second(e.Replay(e.ctx, []int64{dead.ID}, nil, func() string { return "k" })) }},
		{"Discard", func() error { return second(e.Discard(e.ctx, []int64{ended.ID})) }},
		{"PauseQueue", func() error { return e.PauseQueue(e.ctx, "q", "") }},
		{"ResumeQueue", func() error { return e.ResumeQueue(e.ctx, "q") }},
		{"DeclareLimit", func() error { return e.DeclareLimit(e.ctx, "api", parse(e.T, "20/s")) }},
		{"SetLimit", func() error { return e.SetLimit(e.ctx, "api", parse(e.T, "5/s")) }},
		{"ResetLimit", func() error { return e.ResetLimit(e.ctx, "api") }},
		{"PauseLimit", func() error { return e.PauseLimit(e.ctx, "api", limit.Never, "") }},
		{"ResumeLimit", func() error { return e.ResumeLimit(e.ctx, "api") }},
		{"Release", func() error { return e.Release(e.ctx, "load") }},
		{"Prune", func() error { return second(e.Prune(e.ctx, []store.State{store.Done, store.Dead}, now+1e9, 100)) }},
		{"Rescue", func() error { return second(e.Rescue(e.ctx, 3)) }},
	} {
		if v.name == "Rescue" {
			e.clock.Advance(time.Hour) // now they are all dead
		}
		before := dump(e.T, e.Store, number)
		e.hooks.Commit = func() error { return no }
		if err := v.do(); !errors.Is(err, no) {
			e.Errorf("%s: got %v, expected the failed commit", v.name, err)
		}
		e.hooks.Commit = nil
		if d := diff(before, dump(e.T, e.Store, number)); d != "" {
			e.Errorf("%s failed and changed something:%s", v.name, d)
		}
		if err := v.do(); err != nil {
			e.Errorf("%s, the second time: %v", v.name, err)
		}
	}
	e.wantState(waiting[2], store.Waiting)
}
