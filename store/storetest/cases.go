package storetest

import (
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
