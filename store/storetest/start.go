package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var startTests = []test{
	{"StartAtOnce/AsByAClaim", testStartAsByAClaim},
	{"StartAtOnce/NothingElseIsThere", testStartLeavesNothing},
	{"StartAtOnce/NotPlain", testStartNotPlain},
	{"StartAtOnce/PausedQueue", testStartPausedQueue},
	{"StartAtOnce/UnknownWorker", testStartUnknownWorker},
	{"StartAtOnce/DeadWorker", testStartDeadWorker},
	{"StartAtOnce/WhileRescued", testStartWhileRescued},
	{"StartAtOnce/Line", testStartLine},
	{"StartAtOnce/Ends", testStartEnds},
	{"StartAtOnce/Cancelled", testStartCancelled},
	{"StartAtOnce/Rescued", testStartRescued},
	{"StartAtOnce/TidiedLane", testStartTidiedLane},
}

// startBy wishes that the worker starts the job at once.
func startBy(worker string, token int64) opt {
	return func(n *store.NewJob) { n.Start = &store.Starter{Worker: worker, Token: token} }
}

// wish inserts a job with the wish that the worker starts it.
func (e *env) wish(worker string, opts ...opt) store.Inserted {
	e.Helper()
	e.tokens++
	got, err := e.Insert(e.ctx, []store.NewJob{job(append(opts, startBy(worker, e.tokens))...)})
	e.must(err)
	return got[0]
}

// startNow inserts a job that must be started at once.
func (e *env) startNow(worker string, opts ...opt) store.Claimed {
	e.Helper()
	got := e.wish(worker, opts...)
	if got.Started == nil || got.State != store.Running || got.Verdict != store.Created || got.ID != got.Started.ID {
		e.Fatalf("got %+v, expected the job to be started", got)
	}
	return *got.Started
}

// refusedStart inserts a job whose wish must not be granted, and returns its id.
func (e *env) refusedStart(why, worker string, opts ...opt) int64 {
	e.Helper()
	got := e.wish(worker, opts...)
	if got.Started != nil || got.State != store.Waiting || got.Verdict != store.Created {
		e.Fatalf("%s: got %+v, expected an ordinary insert", why, got)
	}
	e.wantState(got.ID, store.Waiting)
	return got.ID
}

// lookOf writes a job without what tells it from another one of its kind.
func lookOf(j store.Job) string {
	j.ID, j.Token = 0, 0
	return fmt.Sprintf("%+v", j)
}

// What a start at once returns and leaves is what an insert and a claim do.
func testStartAsByAClaim(e *env) {
	e.own()
	w := e.worker("w")
	n := job(group("g"), prio(7), expires(Epoch+9_000_000), body("hello"))
	n.Options = store.Options{MaxAttempts: 3, Timeout: 7, IdempotencyKey: "key"}
	with := func(o *store.NewJob) {
		*o = store.NewJob{LaneKey: n.LaneKey, ExpiresAt: n.ExpiresAt, Payload: n.Payload, Options: n.Options}
	}
	e.insert(n)
	claimed := e.claim(w).Jobs[0]
	got := e.startNow(w, with)
	if a, b := lookOf(claimed.Job), lookOf(got.Job); a != b || len(got.Charges) != 0 {
		e.Errorf("a claim returned\n%s\nthe insert\n%s", a, b)
	}
	if got.Token == 0 || got.Token != e.get(got.ID).Token {
		e.Errorf("the token is %d, stored is %d", got.Token, e.get(got.ID).Token)
	}
	same := func(when string) {
		e.Helper()
		if a, b := lookOf(e.get(claimed.ID)), lookOf(e.get(got.ID)); a != b {
			e.Errorf("%s a claimed job is\n%s\none started at once\n%s", when, a, b)
		}
	}
	same("while it runs")
	leases, err := e.Heartbeat(e.ctx, w)
	e.must(err)
	if len(leases) != 2 || leases[1] != (store.Lease{ID: got.ID, Token: got.Token, Since: Epoch}) {
		e.Errorf("the leases are %+v", leases)
	}
	again := claimed
	for _, j := range []store.Claimed{again, got} {
		f := ending(j, store.OutcomeRetry)
		f.At, f.Error = Epoch+1_000_000, "oh"
		e.finish(f)
	}
	same("after a failure")
	a, err := e.Events(e.ctx, claimed.ID)
	e.must(err)
	b, err := e.Events(e.ctx, got.ID)
	e.must(err)
	if len(a) != 1 || len(b) != 1 || strings.Replace(fmt.Sprint(b), fmt.Sprint(got.ID), fmt.Sprint(claimed.ID), 1) != fmt.Sprint(a) {
		e.Errorf("the history of a claimed job is %+v, of one started at once %+v", a, b)
	}
	e.clock.Advance(time.Second)
	e.done(e.take(w)...)
	same("at its end")
}

// A job that was started at once is in nobody's way: no claim finds it, and none is told
// to come.
func testStartLeavesNothing(e *env) {
	e.own()
	w := e.worker("w")
	j := e.startNow(w)
	if res := e.claim(w); len(res.Jobs) != 0 || res.NextAt != limit.Never {
		e.Errorf("a claim found %v, next %s", idsOf(res.Jobs), e.when(res.NextAt))
	}
	q, err := e.Queues(e.ctx)
	e.must(err)
	if len(q) != 1 || q[0].Running != 1 || q[0].Due != 0 {
		e.Errorf("the queues are %+v", q)
	}
	e.done(j) // by one statement, where the store has such
	e.wantState(j.ID, store.Done)
	e.done(e.startNow(w))
}

func testStartNotPlain(e *env) {
	e.own()
	e.limit("api", "10/s")
	w := e.worker("w")
	for why, o := range map[string]opt{
		"a limit":          draw("api", 1),
		"a delay":          at(Epoch + 1),
		"an expiry now":    expires(Epoch),
		"a load":           staged("l"),
		"a run":            run("r"),
		"a call":           ref("r", "1", "h", 1),
		"a unique key":     unique("u"),
		"a replacement":    func(n *store.NewJob) { n.Unique, n.Replace = "r", true },
		"nobody":           func(n *store.NewJob) { n.Queue = "q2" },
		"a lease of no id": func(n *store.NewJob) { n.Queue = "q3" },
	} {
		by, token := w, int64(77)
		switch why {
		case "nobody":
			by = ""
		case "a lease of no id":
			token = 0
		}
		got, err := e.Insert(e.ctx, []store.NewJob{job(prio(3), o, startBy(by, token))})
		e.must(err)
		if got[0].Started != nil || got[0].State != store.Waiting {
			e.Errorf("%s: got %+v, expected an ordinary insert", why, got[0])
		}
	}
	taken, err := e.Insert(e.ctx, []store.NewJob{job(unique("u"), startBy(w, 78))})
	e.must(err)
	if taken[0].Verdict != store.Duplicate || taken[0].Started != nil {
		e.Errorf("a unique key that is taken: got %+v", taken[0])
	}
	two, err := e.Insert(e.ctx, []store.NewJob{job(prio(9), startBy(w, 79)), job(prio(8), startBy(w, 80))})
	e.must(err)
	for _, got := range two {
		if got.Started != nil || got.State != store.Waiting {
			e.Errorf("two jobs: got %+v, expected ordinary inserts", got)
		}
	}
	if err := e.Release(e.ctx, "l"); err != nil {
		e.Error(err)
	}
}

func testStartPausedQueue(e *env) {
	e.own()
	w := e.worker("w")
	e.must(e.PauseQueue(e.ctx, "q", "tea"))
	id := e.refusedStart("paused", w)
	other := e.startNow(w, queue("other"))
	e.must(e.ResumeQueue(e.ctx, "q"))
	e.refusedStart("one waits since the pause", w)
	e.done(other)
	jobs := e.take(w)
	if len(jobs) != 2 || jobs[0].ID != id {
		e.Errorf("claimed %v after the pause", idsOf(jobs))
	}
	e.done(jobs...)
	e.done(e.startNow(w))
}

func testStartUnknownWorker(e *env) {
	e.own()
	e.refusedStart("never registered", "nobody")
	w := e.worker("w")
	e.must(e.Deregister(e.ctx, w))
	e.refusedStart("deregistered", w, queue("other"))
}

// A worker that was silent for too long may still start jobs, until somebody has said that
// it is dead.
func testStartDeadWorker(e *env) {
	e.own()
	w := e.worker("w")
	var held []store.Claimed
	for range 2 {
		held = append(held, e.startNow(w))
	}
	e.clock.Advance(2 * lease) // silent, but nobody has said that it is dead
	late := e.startNow(w)
	jobs, err := e.Rescue(e.ctx, 3)
	e.must(err)
	if len(jobs) != len(held)+1 {
		e.Errorf("%d jobs were taken back, expected %d", len(jobs), len(held)+1)
	}
	e.refusedStart("declared dead", w, queue("other"))
	if got, err := e.Finish(e.ctx, []store.Finish{ending(late, store.OutcomeDone)}); err != nil || got[0].Err == nil {
		e.Errorf("a start that was taken back ended: %+v, %v", got, err)
	}
}

// Of a worker that was declared dead, not all jobs are taken back at once: it gets none
// in between.
func testStartWhileRescued(e *env) {
	e.own()
	w := e.worker("w")
	e.insert(times(300, group("held"))...)
	if held := e.claim(w, places(300)).Jobs; len(held) != 300 {
		e.Fatalf("claimed %d jobs", len(held))
	}
	e.clock.Advance(2 * lease)
	e.hooks.Committed = func() error { return errors.New("the reply is lost") }
	if _, err := e.Rescue(e.ctx, 3); err == nil {
		e.Error("the rescue went on behind a reply that was lost")
	}
	e.hooks.Committed = nil
	if ws, err := e.Workers(e.ctx); err != nil || len(ws) != 1 || ws[0].Holds == 0 || ws[0].Holds == 300 {
		e.Fatalf("the workers are %+v (%v), expected one that was taken a part of its jobs", ws, err)
	}
	e.refusedStart("declared dead", w)
	_, err := e.Rescue(e.ctx, 3)
	e.must(err)
}

// A due job of the same lane comes first; those of other lanes, and those to come, do not.
func testStartLine(e *env) {
	e.own()
	w := e.worker("w")
	first := e.one()
	e.refusedStart("one of the lane waits", w)
	other := e.startNow(w, group("another lane"))
	e.one(group("later"), at(Epoch+1_000_000))
	soon := e.startNow(w, group("later"))
	jobs := e.take(w)
	if len(jobs) != 2 || jobs[0].ID != first {
		e.Errorf("claimed %v, expected job %d and another one", idsOf(jobs), first)
	}
	e.startNow(w)
	e.clock.Advance(time.Second)
	e.refusedStart("the time of one of the lane has come", w, group("later"))
	e.done(other, soon)
}

func testStartEnds(e *env) {
	e.own()
	w := e.worker("w")
	for _, o := range []store.Outcome{store.OutcomeDone, store.OutcomeRetry, store.OutcomeDead, store.OutcomeSnoozed, store.OutcomeReturned, store.OutcomeDiscarded} {
		j := e.startNow(w, group(o.String()))
		f := ending(j, o)
		if o == store.OutcomeDead {
			f.Reason = store.Rejected
		}
		got := e.finish(f)
		want := map[store.Outcome]store.State{store.OutcomeDone: store.Done, store.OutcomeDead: store.Dead}[o]
		switch {
		case o == store.OutcomeDiscarded:
			if _, err := e.Job(e.ctx, j.ID); err == nil {
				e.Error("a discarded job is still there")
			}
			continue
		case want == 0:
			want = store.Waiting
		}
		if got.State != want {
			e.Errorf("%v: the job is %v, expected %v", o, got.State, want)
		}
		if s := e.get(j.ID); o == store.OutcomeReturned && s.Starts != 0 {
			e.Errorf("a job that was given back has %d starts", s.Starts)
		}
	}
	jobs := e.take(w)
	if len(jobs) != 3 {
		e.Errorf("claimed %v, expected those that were put back in line", idsOf(jobs))
	}
	e.done(jobs...)
}

func testStartCancelled(e *env) {
	e.own()
	w := e.worker("w")
	j := e.startNow(w)
	state, err := e.Cancel(e.ctx, j.ID)
	e.must(err)
	ids, err := e.Cancels(e.ctx, w)
	e.must(err)
	if state != store.Running || len(ids) != 1 || ids[0] != j.ID {
		e.Errorf("cancelled is %v, the worker is told of %v", state, ids)
	}
	e.finish(ending(j, store.OutcomeCancelled))
	e.wantState(j.ID, store.Cancelled)
}

func testStartRescued(e *env) {
	e.own()
	w := e.worker("w")
	j := e.startNow(w)
	e.must(e.Deregister(e.ctx, w))
	if s := e.wantState(j.ID, store.Waiting); !s.Suspect || s.Starts != 1 {
		e.Errorf("taken back, the job is %+v", s)
	}
	jobs := e.take(e.worker("v"))
	if len(jobs) != 1 || jobs[0].ID != j.ID || jobs[0].Starts != 2 {
		e.Errorf("claimed %+v, expected job %d for the second time", jobs, j.ID)
	}
	e.done(jobs...)
}

// A lane that a Tidy took, or would take, is there while a job that was started refers
// to it.
func testStartTidiedLane(e *env) {
	e.own()
	w := e.worker("w")
	for _, discard := range []bool{true, false} { // whether nothing refers to the lane
		j := e.startNow(w)
		e.done(j)
		if discard {
			_, err := e.Discard(e.ctx, []int64{j.ID})
			e.must(err)
		}
		_, err := e.Tidy(e.ctx)
		e.must(err)
		j = e.startNow(w)
		_, err = e.Tidy(e.ctx)
		e.must(err)
		if got := e.get(j.ID); got.Queue != "q" || got.Kind != "k" || got.Priority != 5 {
			e.Errorf("the job came back as %+v", got)
		}
		f := ending(j, store.OutcomeRetry)
		f.At = e.clock.Now()
		e.finish(f)
		e.wantIDs("then", e.take(w), j.ID)
		e.done(store.Claimed{Job: e.get(j.ID)})
	}
}
