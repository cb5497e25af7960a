package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var caseTests = []test{
	{"TestA6_AtTheLimitNothingIsLost", testA6},
	{"TestB1_LongDelayShortLease", testB1},
	{"TestB4_OrphansAreSeen", testB4},
	{"TestC4_CountsSurviveKills", testC4},
	{"TestC9_SeveralLimitsAllOrNone", testC9},
	{"TestC12_KeysDoNotCollide", testC12},
	{"TestE2_FarDelays", testE2},
	{"TestF1_PriorityAfterADelay", testF1},
	{"TestF3_LowPriorityUnderALimit", testF3},
	{"TestG1_DeadFreesTheKey", testG1},
	{"TestG3_UniqueDoesNotBreakClaims", testG3},
	{"TestG4_UpdateWhileRunning", testG4},
}

// A6 (OptimalBits/bull#1148, #2082, #1946): jobs that arrived at the limit were
// taken off one list and put on no other.
func testA6(e *env) {
	e.limit("api", "2/10m")
	e.insert(times(100, draw("api", 1))...)
	workers := []string{e.worker("w0"), e.worker("w1"), e.worker("w2"), e.worker("w3")}
	count := func() (n int64) {
		q := e.queue("q")
		return q.Due + q.Scheduled + q.Running + q.Done
	}
	next := limit.Never
	for window := range 4 {
		started := 0
		for range 3 {
			for _, w := range workers {
				e.must(e.Register(e.ctx, store.Worker{ID: w, Lease: lease}))
				res := e.claim(w)
				started += len(res.Jobs)
				if n := count(); n != 100 {
					e.Fatalf("%d of 100 jobs are listed", n)
				}
				e.done(res.Jobs...)
				if res.NextAt > e.clock.Now() {
					next = res.NextAt
				}
			}
		}
		if started != 2 {
			e.Errorf("window %d: %d jobs started, expected 2", window, started)
		}
		e.clock.To(next)
	}
}

// B1 (celery/kombu#337, celery/celery#4766, celery/celery#2481): a delay longer
// than the redelivery timeout had the job handed out again on every timeout.
func testB1(e *env) {
	e.insert(times(10, at(Epoch+300_000_000))...)
	starts := 0
	for e.clock.Now() < Epoch+400_000_000 {
		for i := range 4 {
			w := e.worker(fmt.Sprint("w", i))
			jobs := e.take(w)
			starts += len(jobs)
			if len(jobs) > 0 && e.clock.Now() < Epoch+300_000_000 {
				e.Fatalf("started %s early", e.when(Epoch+300_000_000))
			}
			e.done(jobs...)
		}
		e.rescue()
		e.clock.Advance(5 * time.Second)
	}
	if starts != 10 {
		e.Errorf("%d starts of 10 jobs", starts)
	}
}

// B4 (hibiken/asynq#1144, oban-bg/oban#862): orphans that the sweeper could not
// see: the record of the worker had gone, or the new process had the dead one's name.
func testB4(e *env) {
	w := e.worker("w")
	j := e.started(w)
	e.must(e.Deregister(e.ctx, w)) // its record goes, and takes nothing with it
	w2 := e.worker("w2")
	e.wantIDs("after the record went", e.take(w2), j.ID)
	// The dead one's name is used again: heartbeats of the newcomer tell it of a
	// lease it knows nothing of, and it can give the job back.
	again := e.worker("w2")
	held, err := e.Heartbeat(e.ctx, again)
	e.must(err)
	if len(held) != 1 || held[0].ID != j.ID {
		e.Fatalf("the newcomer is told of %v", held)
	}
	e.finish(store.Finish{ID: held[0].ID, Worker: again, Token: held[0].Token, Outcome: store.OutcomeReturned})
	e.wantIDs("given back", e.take(again), j.ID)
}

// C4 (gocraft/work#192, rails/solid_queue#546, kestra-io/kestra#14356): killed
// processes left the count of calls in flight too high, or lowered it twice.
func testC4(e *env) {
	e.limit("shop/*", "2 in flight")
	const keys = 20
	var jobs []store.NewJob
	for i := range keys * 8 {
		jobs = append(jobs, job(draw(fmt.Sprint("shop/", i%keys), 1)))
	}
	e.insert(jobs...)
	check := func() {
		e.Helper()
		running := map[string]int64{}
		for _, j := range all(e.T, e.Store, store.Filter{States: []store.State{store.Running}}) {
			running[j.Draws[0].Limit]++
		}
		for i := range keys {
			name := fmt.Sprint("shop/", i)
			if n := e.state(name).InFlight(); n != running[name] || n > 2 {
				e.Fatalf("%s: %d in flight, %d run, allowed are 2", name, n, running[name])
			}
		}
	}
	for n := range 20 {
		w := e.worker(fmt.Sprint("w", n))
		got := e.take(w)
		check()
		for i, j := range got {
			if i%3 == 0 {
				e.done(j)
			}
		}
		check()
		e.must(e.Deregister(e.ctx, w))
		check()
		for _, j := range got { // the dead speak once more
			_, err := e.Finish(e.ctx, []store.Finish{ending(j, store.OutcomeDone)})
			e.must(err)
		}
		check()
	}
}

// C9 (BaseIntelligence/bounty-challenge#4191): the first limit was charged
// before the second refused, and nothing was given back.
func testC9(e *env) {
	e.limit("minute", "100/m burst 100")
	e.limit("day", "5/day@UTC")
	w := e.worker("w")
	e.insert(times(300, draw("minute", 1), draw("day", 1))...)
	got := e.take(w)
	e.done(got...)
	if len(got) != 5 {
		e.Fatalf("%d jobs on the first day, expected 5", len(got))
	}
	for range 300 {
		e.take(w)
		e.clock.Advance(time.Minute)
		_, err := e.Heartbeat(e.ctx, w)
		e.must(err)
	}
	if used := e.state("minute").Used(time.Minute, e.clock.Now()); used != 0 {
		e.Errorf("the minute's limit was charged %d times while the day was spent", used)
	}
	e.wantNext(w)
	e.insert(times(95, draw("minute", 1), prio(9))...)
	e.clock.Advance(5 * time.Minute)
	if got := e.take(w, places(1000)); len(got) < 95 {
		e.Errorf("%d jobs at the next day, the minute's limit was not full", len(got))
	}
}

// C12 (ashita-ai/tessera#185, grafana/loki#22435): keys were joined or folded
// until they collided.
func testC12(e *env) {
	e.limit("api/*", "1 in flight")
	keys := []string{"sk_live_12345", "sk_live_12346", "a:b/c", "a/b:c", "tenant1:user", "tenant2:user", "Key", "key", "key ",
		"e\u0301", "é", "a|1|b", "a", "*"}
	want := 0
	for _, k := range keys {
		n := "api/" + k
		if k == "*" {
			continue // this is the pattern itself
		}
		e.insert(times(3, draw(n, 1))...)
		want++
	}
	got := e.take(e.worker("w"))
	if len(got) != want {
		e.Errorf("%d calls at once over %d keys of 1 each", len(got), want)
	}
	// Lanes, too: a group that looks like a limit's text.
	e.limit("x", "1000/s burst 1000")
	a := e.one(group("1|x|1"), queue("lanes"))
	b := e.one(group("1"), draw("x", 1), queue("lanes"))
	if ga, gb := e.get(a), e.get(b); len(ga.Draws) != 0 || len(gb.Draws) != 1 {
		e.Errorf("two lanes became one: %+v, %+v", ga.LaneKey, gb.LaneKey)
	}
}

// E2 (OptimalBits/bull#244, sindresorhus/delay#57): delays beyond 24.8 days
// overflowed a timer and the job ran at once.
func testE2(e *env) {
	day := int64(24 * time.Hour / time.Microsecond)
	w := e.worker("w")
	var want []int64
	for _, days := range []int64{24, 25, 60, 400, 300 * 365} {
		want = append(want, e.one(at(Epoch+days*day)))
	}
	for i, days := range []int64{24, 25, 60, 400, 300 * 365} {
		e.clock.To(Epoch + days*day - 1)
		e.worker(w)
		e.wantIDs(fmt.Sprint(days, " days, a microsecond early"), e.take(w))
		if next := e.claim(w).NextAt; next != Epoch+days*day {
			e.Errorf("%d days: next at %s, expected in a microsecond", days, e.when(next))
		}
		e.clock.To(Epoch + days*day)
		jobs := e.take(w)
		e.wantIDs(fmt.Sprint(days, " days"), jobs, want[i])
		e.done(jobs...)
	}
	_ = e.refused(0, job(at(limit.Never)))
	_ = e.refused(0, job(at(limit.Never-1)))
	_ = e.refused(0, job(at(300_000*365*day)))
}

// F1 (OptimalBits/bull#881, #1755, #1505, #1205): priority counted only at the
// first enqueue.
func testF1(e *env) {
	e.limit("api", "10/s burst 1")
	e.worker("w")
	retried := e.started("w", draw("api", 1), prio(9))
	f := ending(retried, store.OutcomeRetry)
	f.At = e.clock.Now() + 5_000_000
	e.finish(f)
	delayed := e.one(draw("api", 1), prio(9), at(e.clock.Now()+5_000_000))
	dead := e.killed("w", prio(9), queue("other"))
	e.insert(times(300, draw("api", 1), prio(1))...)
	due := f.At
	for e.clock.Now() < due {
		e.insert(times(2, draw("api", 1), prio(5))...) // newcomers in between
		res := e.claim("w", places(1), queues("q"))
		e.done(res.Jobs...)
		e.clock.To(min(due, max(res.NextAt, e.clock.Now()+1)))
	}
	e.must(e.replay(dead.ID)[0])
	wanted := map[int64]bool{retried.ID: true, delayed: true, dead.ID: true}
	for range 3 {
		var jobs []store.Claimed
		for range 20 {
			res := e.claim("w", places(1))
			if jobs = res.Jobs; len(jobs) > 0 {
				break
			}
			e.clock.To(max(res.NextAt, e.clock.Now()+1))
		}
		if len(jobs) != 1 || !wanted[jobs[0].ID] {
			e.Fatalf("next came %v, expected one of %v", idsOf(jobs), wanted)
		}
		delete(wanted, jobs[0].ID)
		e.done(jobs...)
	}
	e.noDrain = true // 10/s over a thousand jobs says nothing new
}

// F3 (mergestat/mergestat#318, ecosyste-ms/packages#1803): strict priority
// starved the low ones whenever the high ones met the limit. Priority is strict
// here by choice; a group's share within one priority is not.
func testF3(e *env) {
	e.limit("api", "10/s burst 1")
	w := e.worker("w")
	low := e.insert(times(20, draw("api", 1), group("low"))...)
	for range 60 {
		e.insert(times(12, draw("api", 1), group("high"))...)
		e.play(w, time.Second)
	}
	for _, id := range low {
		e.wantState(id, store.Done)
	}
	e.noDrain = true
}

// G1 (hibiken/asynq#492, #275, #629, #842): a dead or deleted job kept its
// unique key.
func testG1(e *env) {
	w := e.worker("w")
	dead := e.killed(w, unique("K"))
	for n := range 3 {
		id := e.one(unique("K"), body(fmt.Sprint("version ", n)), at(e.clock.Now()+1e9))
		e.cancel(id, store.Cancelled)
	}
	errs, err := e.Discard(e.ctx, []int64{dead.ID})
	e.must(err)
	e.must(errs[0])
	j := e.started(w, unique("K"), body("new"))
	if string(j.Payload) != "new" {
		e.Errorf("it runs with %q", j.Payload)
	}
	e.lose() // killed mid-run
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("K"))})
	e.must(err)
	if got[0].Verdict != store.Duplicate || got[0].ID != j.ID {
		e.Errorf("while the lost one is still to run: %+v", got[0])
	}
	e.worker(w)
	e.done(e.take(w)...)
	e.one(unique("K"))
}

// G3 (timgit/pg-boss#535, riverqueue/river#618, #619): two jobs with one key
// made the whole batch fail for ever; a scheduled unique job conflicted with itself.
func testG3(e *env) {
	w := e.worker("w")
	j := e.started(w, unique("K"), body("old"))
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("K"), replace, body("new"))})
	e.must(err)
	f := ending(j, store.OutcomeRetry)
	f.At = e.clock.Now()
	e.finish(f)
	e.insert(times(50)...)
	ks, others := 0, 0
	for range 10 {
		jobs := e.claim(w, places(10)).Jobs
		running := 0
		for _, c := range jobs {
			if c.ID == j.ID || c.ID == got[0].ID {
				running++
				ks++
				if string(c.Payload) != "new" {
					e.Errorf("an old version runs after the new one was submitted: %q", c.Payload)
				}
			} else {
				others++
			}
		}
		if running > 1 {
			e.Error("two jobs of one key run at once")
		}
		e.done(jobs...)
	}
	if ks != 1 || others != 50 {
		e.Errorf("%d of K and %d of 50 others ran", ks, others)
	}
	var jobs []store.NewJob
	for i := range 100 {
		jobs = append(jobs, job(unique(fmt.Sprint("u", i)), at(e.clock.Now()+30_000_000)))
	}
	e.insert(jobs...)
	e.clock.Advance(31 * time.Second)
	_, err = e.Heartbeat(e.ctx, w)
	e.must(err)
	if got := e.take(w); len(got) != 100 {
		e.Errorf("%d of 100 scheduled unique jobs ran", len(got))
	}
}

// G4 (inngest/inngest#827, timgit/pg-boss#353, graphile/worker#154,
// riverqueue/river#715): an update sent while the keyed job ran was merged into
// the run that had read the old data.
func testG4(e *env) {
	w := e.worker("w")
	j := e.started(w, unique("K"), body("1"))
	last := ""
	for v := 2; v <= 7; v++ {
		last = fmt.Sprint(v)
		got, err := e.Insert(e.ctx, []store.NewJob{job(unique("K"), replace, body(last))})
		e.must(err)
		if got[0].Verdict != store.Created && got[0].Verdict != store.Replaced {
			e.Errorf("version %d: %+v", v, got[0])
		}
	}
	e.done(j)
	ran := ""
	for range 3 {
		jobs := e.take(w)
		for _, c := range jobs {
			ran = string(c.Payload)
		}
		e.done(jobs...)
	}
	if ran != last {
		e.Errorf("the last version that ran is %q, submitted was %q", ran, last)
	}
	// Without Replace the caller is told.
	j = e.started(w, unique("K"))
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("K"), body("dropped"))})
	e.must(err)
	if got[0].Verdict != store.Duplicate || got[0].State != store.Running {
		e.Errorf("a dropped update was reported as %+v", got[0])
	}
	if errors.Is(err, store.ErrUniqueTaken) {
		e.Error("a duplicate is no error")
	}
	e.done(j)
}
