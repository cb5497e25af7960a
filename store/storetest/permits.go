package storetest

import (
	"fmt"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

var permitTests = []test{
	{"Permits/LimitsLearnOfSuccess", testPermitsPassed},
	{"Permits/QuietRelease", testQuietRelease},
	{"Permits/Rate", testPermitsRate},
	{"Permits/TwoLimitsAllOrNone", testPermitsAllOrNone},
	{"Permits/InFlight", testPermitsInFlight},
	{"Permits/InFlightFreedByEveryOutcome", testPermitsFreed},
	{"Permits/Keys", testPermitsKeys},
	{"Permits/SharedAcrossLanes", testPermitsShared},
	{"Permits/BlockedBlockNobodyElse", testPermitsBlockedAside},
	{"Permits/Horizon", testPermitsHorizon},
	{"Permits/BySpecPaused", testPermitsSpecPaused},
}

// play runs the clock for a while, claiming and finishing at each NextAt, and
// returns how many were done.
func (e *env) play(w string, d time.Duration, asks ...ask) (done int) {
	e.Helper()
	end := e.clock.Now() + d.Microseconds()
	for {
		res := e.claim(w, asks...)
		e.done(res.Jobs...)
		done += len(res.Jobs)
		if len(res.Jobs) > 0 {
			continue
		}
		if res.NextAt >= end {
			e.clock.To(end)
			return done
		}
		e.clock.To(res.NextAt)
	}
}

func testPermitsRate(e *env) {
	e.limit("api", "10/s")
	e.insert(times(100, draw("api", 1))...)
	// 10/s spaced for its guard of 5 %: 95 in ten seconds, and the burst.
	if n := e.play(e.worker("w"), 10*time.Second); n < 93 || n > 100 {
		e.Errorf("%d jobs in 10 s under 10/s", n)
	}
}

func testPermitsAllOrNone(e *env) {
	e.limit("minute", "100/m burst 100")
	e.limit("hour", "5/h")
	e.insert(times(20, draw("minute", 1), draw("hour", 1))...)
	w := e.worker("w")
	e.done(e.take(w)...)
	if n, err := e.CountRun(e.ctx, ""); err == nil && n[store.Done] != 0 && n[store.Done] != 5 {
		e.Errorf("%d done, expected 5", n[store.Done])
	}
	for range 50 {
		e.take(w)
		e.clock.Advance(time.Millisecond)
	}
	if used := e.state("minute").Used(time.Minute, e.clock.Now()); used != 5 {
		e.Errorf("the minute's limit was charged %d times, 5 calls went out", used)
	}
	other := e.insert(times(60, draw("minute", 1))...)
	if got := e.take(w); len(got) != len(other) {
		e.Errorf("%d of 60 other jobs, which the minute's limit has room for", len(got))
	}
}

func testPermitsInFlight(e *env) {
	e.limit("api", "3 in flight")
	e.insert(times(10, draw("api", 1))...)
	w, other := e.worker("w"), e.worker("other")
	running := e.take(w)
	if len(running) != 3 {
		e.Fatalf("%d jobs run, allowed are 3", len(running))
	}
	if res := e.claim(other); len(res.Jobs) != 0 || res.NextAt != limit.Never {
		e.Fatalf("a fourth: %v, next %s", idsOf(res.Jobs), e.when(res.NextAt))
	}
	for range 7 {
		e.done(running[0])
		next := e.take(other)
		if len(next) != 1 {
			e.Fatalf("%d jobs started when one ended", len(next))
		}
		running = append(running[1:], next...)
	}
	e.done(running...)
	if n := e.state("api").InFlight(); n != 0 {
		e.Errorf("%d in flight at the end", n)
	}
}

func testPermitsFreed(e *env) {
	w := e.worker("w")
	for o := store.OutcomeDone; o <= store.OutcomeDiscarded; o++ {
		if o == store.OutcomeLost {
			continue // only a store says so
		}
		name := fmt.Sprint("api/", o)
		e.limit(name, "1 in flight")
		e.insert(times(2, draw(name, 1))...)
		jobs := e.take(w)
		if len(jobs) != 1 {
			e.Fatalf("%v: %d jobs run, allowed is 1", o, len(jobs))
		}
		f := ending(jobs[0], o)
		f.At = e.clock.Now() + 1e9
		f.Reason = store.Rejected
		e.finish(f)
		if n := e.state(name).InFlight(); n != 0 {
			e.Errorf("%v: %d in flight after the end", o, n)
		}
		next := e.take(w)
		if len(next) != 1 {
			e.Errorf("%v: %d jobs started after the end, expected 1", o, len(next))
		}
		e.done(next...)
		if o == store.OutcomeReturned { // it is in line again
			e.done(e.take(w)...)
		}
	}
}

func testPermitsKeys(e *env) {
	e.limit("shop/*", "1 in flight")
	var jobs []store.NewJob
	for i := range 40 {
		jobs = append(jobs, job(draw(fmt.Sprint("shop/", i%20), 1)))
	}
	e.insert(jobs...)
	got := e.take(e.worker("w"))
	if len(got) != 20 {
		e.Errorf("%d jobs run, allowed is one of each of 20 keys", len(got))
	}
}

func testPermitsShared(e *env) {
	e.limit("api", "5 in flight")
	for i := range 30 {
		e.one(draw("api", 1), queue(fmt.Sprint("q", i%2)), kind([]string{"k", "k2"}[i%2]), prio(1+i%9), group(fmt.Sprint(i%4)))
	}
	if got := e.take(e.worker("w")); len(got) != 5 {
		e.Errorf("%d jobs run, allowed are 5", len(got))
	}
}

func testPermitsBlockedAside(e *env) {
	e.limit("slow", "1/h")
	e.insert(times(500, draw("slow", 1))...)
	w := e.worker("w")
	e.done(e.take(w)...)
	ids := e.insert(times(50)...)
	if got := e.take(w); len(got) != len(ids) {
		e.Errorf("%d of 50 free jobs behind 499 blocked ones", len(got))
	}
}

func testPermitsHorizon(e *env) {
	e.limit("api", "10/s burst 1")
	e.insert(times(20, draw("api", 1))...)
	w := e.worker("w")
	got := e.claim(w, func(r *store.ClaimRequest) { r.Horizon = 500 * time.Millisecond }).Jobs
	if len(got) < 4 || len(got) > 6 {
		e.Errorf("%d jobs with slots within 500 ms, expected about 5", len(got))
	}
	for _, j := range got {
		if j.Slot > e.clock.Now()+500_000 {
			e.Errorf("a slot at %s, the horizon is 500 ms", e.when(j.Slot))
		}
	}
	more := e.claim(w, func(r *store.ClaimRequest) { r.Horizon = 500 * time.Millisecond })
	if len(more.Jobs) != 0 {
		e.Errorf("and %d more", len(more.Jobs))
	}
	// The next slot is a step of 105 ms behind the last one, and the next look comes
	// a quarter of the horizon before it, for several starts at a time.
	next := got[len(got)-1].Slot + 105_000 - 125_000
	if d := more.NextAt - next; d < -5_000 || d > 5_000 {
		e.Errorf("next at %s, expected about %s", e.when(more.NextAt), e.when(next))
	}
	staggered := e.claim(w, func(r *store.ClaimRequest) { r.Horizon, r.Stagger = 500*time.Millisecond, 40*time.Millisecond })
	if d := staggered.NextAt - more.NextAt; d != 40_000 {
		e.Errorf("staggered by 40 ms, the next look is %d µs later", d)
	}
	e.clock.To(more.NextAt)
	if got = e.claim(w, func(r *store.ClaimRequest) { r.Horizon = 500 * time.Millisecond }).Jobs; len(got) < 3 || len(got) > 4 {
		e.Errorf("%d jobs then, expected 3 or 4", len(got))
	}
}

// A job's other limit pushes its slot ahead; the next grant must not fall back
// behind it (hazard 7).
func testPermitsSlots(e *env) {
	e.limit("a", "50/s burst 5")
	e.limit("b", "7/s burst 1")
	for i := range 200 {
		if i%4 == 0 {
			e.one(draw("a", 1), draw("b", 1))
		} else {
			e.one(draw("a", 1))
		}
	}
	w := e.worker("w")
	last := map[string]int64{}
	ahead := func(r *store.ClaimRequest) { r.Horizon, r.Places = 100*time.Millisecond, 10 }
	for range 2000 {
		res := e.claim(w, ahead)
		for _, j := range res.Jobs {
			for _, c := range j.Charges {
				if c.Slot < last[c.Limit] {
					e.Fatalf("limit %s: slot %s after %s", c.Limit, e.when(c.Slot), e.when(last[c.Limit]))
				}
				if c.Slot != j.Slot {
					e.Fatalf("the job starts at %s, its permit of %s is for %s", e.when(j.Slot), c.Limit, e.when(c.Slot))
				}
				last[c.Limit] = c.Slot
			}
		}
		e.done(res.Jobs...)
		if res.NextAt == limit.Never {
			return
		}
		e.clock.To(max(res.NextAt, e.clock.Now()+1))
	}
	e.Error("200 jobs were not done in 2,000 claims")
}

// A costly job at the head gets its turn beside a stream of small ones (hazard 9).
func testPermitsCostly(e *env) {
	e.limit("api", "10/10s")
	w := e.worker("w")
	id := e.one(draw("api", 8), group("costly"))
	for range 120 {
		e.insert(times(2, draw("api", 1), group("small"))...)
		e.play(w, time.Second)
		if j := e.get(id); j.State == store.Done {
			return
		}
	}
	e.Error("the costly job did not start within 120 s")
}

func testPermitsSpecPaused(e *env) {
	e.limit("api", "paused")
	e.insert(times(3, draw("api", 1))...)
	w := e.worker("w")
	if res := e.claim(w); len(res.Jobs) != 0 || res.NextAt != limit.Never {
		e.Errorf("got %v, next %s", idsOf(res.Jobs), e.when(res.NextAt))
	}
	e.limit("api", "100/s burst 100")
	if got := e.take(w); len(got) != 3 {
		e.Errorf("%d jobs after the spec changed, expected 3", len(got))
	}
}

// The end of a start that nobody seems to wait for may be announced only, and is
// then seen by whoever looks at the limit, and in time by those who claim.
func testQuietRelease(e *env) {
	e.limit("api", "2 in flight")
	e.insert(times(4, draw("api", 1))...)
	w := e.worker("w")
	var fs []store.Finish
	for _, j := range e.take(w) {
		f := ending(j, store.OutcomeDone)
		f.Scarce = false
		fs = append(fs, f)
	}
	got, err := e.Finish(e.ctx, fs)
	e.must(err)
	for i, g := range got {
		if g.Err != nil || g.State != store.Done {
			e.Errorf("finish %d: %+v", i, g)
		}
	}
	e.clock.Advance(engine.QuietFor + time.Millisecond)
	if n := len(e.take(w)); n != 2 {
		e.Errorf("%d jobs were claimed after the limit was free again, expected 2", n)
	}
	if n := e.state("api").InFlight(); n != 2 {
		e.Errorf("%d in flight, expected 2", n)
	}
}

// Limits with rates learn that calls were let through, however the start ended and
// by whichever way it is stored.
func testPermitsPassed(e *env) {
	w := e.worker("w")
	for i, change := range []func(*store.Finish){
		func(f *store.Finish) {},
		func(f *store.Finish) { f.Scarce = false },
		func(f *store.Finish) { f.Result = []byte("1") },
		func(f *store.Finish) { f.Outcome, f.At = store.OutcomeSnoozed, limit.Never/2 },
	} {
		name := fmt.Sprint("api", i)
		e.limit(name, "10/s")
		e.limit(name+"/cap", "2 in flight")
		e.one(draw(name, 1), draw(name+"/cap", 1))
		jobs := e.take(w)
		e.clock.Advance(time.Second)
		f := ending(jobs[0], store.OutcomeDone)
		f.Passed = e.clock.Now()
		change(&f)
		e.finish(f)
		if at := e.state(name).LastSuccess(); at != f.Passed {
			e.Errorf("%s: the last success was at %d, expected %d", name, at, f.Passed)
		}
		if at := e.state(name + "/cap").LastSuccess(); at != 0 {
			e.Errorf("%s: a mere cap learned", name)
		}
		if n := e.state(name).InFlight(); n != 0 {
			e.Errorf("%s: %d in flight", name, n)
		}
	}
}
