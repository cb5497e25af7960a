package storetest

import (
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var throttleTests = []test{
	{"Throttle/PausesForEverybody", testThrottlePauses},
	{"Throttle/CountsNoAttempt", testThrottleCounts},
	{"Throttle/BudgetSpentIsNoAttempt", testThrottleDead},
	{"Throttle/NotBegunAreReturned", testThrottleReturned},
	{"Throttle/JobOfItsOwn", testThrottleOwnTime},
	{"Throttle/ObserveWithoutJob", testThrottleObserve},
	{"Throttle/ResumeIsNoBurst", testThrottleNoBurst},
}

// refusal is what a 429 with a Retry-After tells.
func refusal(now int64, wait time.Duration) limit.Observation {
	return limit.Observation{At: now, Slot: now, Refused: true, RetryAt: now + wait.Microseconds(), Reason: "429"}
}

func (e *env) throttled(j store.Claimed, name string, wait time.Duration) {
	e.Helper()
	f := ending(j, store.OutcomeThrottled)
	f.Pause = wait
	f.Observations = []store.Observed{{Limit: name, Observation: refusal(e.clock.Now(), wait)}}
	e.finish(f)
}

func testThrottlePauses(e *env) {
	e.limit("api", "100/s burst 100")
	ids := e.insert(times(5, draw("api", 1))...)
	free := e.insert(times(2)...)
	a, b := e.worker("a"), e.worker("b")
	j := e.claim(a, places(1)).Jobs[0]
	e.throttled(j, "api", 30*time.Second)
	if until, byPerson, reason := e.state("api").Paused(e.clock.Now()); until != e.clock.Now()+30_000_000 || byPerson || reason != "429" {
		e.Errorf("paused until %s, by a person: %v, %q", e.when(until), byPerson, reason)
	}
	e.wantIDs("during the pause", e.take(b), free...)
	got := e.wantNext(b)
	if e.clock.Now() != Epoch+30_000_000 || got[0].ID != ids[0] {
		e.Errorf("first came job %d at %s after the pause, expected job %d at its end", got[0].ID, e.when(Epoch+30_000_000), ids[0])
	}
}

func testThrottleCounts(e *env) {
	e.limit("api", "100/s burst 100")
	w := e.worker("w")
	j := e.started(w, draw("api", 1))
	begun := e.clock.Now()
	for n := 1; n <= 3; n++ {
		e.throttled(j, "api", 10*time.Second)
		s := e.wantState(j.ID, store.Waiting)
		if s.Attempts != 0 || s.Throttles != n || s.RefusedRun != n || s.RefusedAt != e.clock.Now() || s.ThrottledAt != begun ||
			s.ThrottleSum != int64(n)*10_000_000 || s.At != j.At {
			e.Errorf("after refusal %d: %+v", n, s)
		}
		j = e.wantNext(w)[0]
	}
	f := ending(j, store.OutcomeRetry)
	f.At = e.clock.Now()
	e.finish(f)
	if s := e.get(j.ID); s.RefusedRun != 0 || s.ThrottledAt != 0 || s.ThrottleSum != 0 || s.Throttles != 3 || s.Attempts != 1 {
		e.Errorf("after another outcome: %+v", s)
	}
}

// A job that dies of refusals made no attempt: no call of it was let in.
func testThrottleDead(e *env) {
	f := ending(e.started(e.worker("w")), store.OutcomeDead)
	f.Reason = store.Throttled
	e.finish(f)
	if s := e.wantState(f.ID, store.Dead); s.Attempts != 0 || s.Reason != store.Throttled {
		e.Errorf("the dead letter is %+v", s)
	}
}

// Starts that were granted for slots ahead and have not begun go back.
func testThrottleReturned(e *env) {
	e.limit("api", "20/s burst 1")
	e.insert(times(10, draw("api", 1))...)
	w := e.worker("w")
	jobs := e.claim(w, func(r *store.ClaimRequest) { r.Horizon = 200 * time.Millisecond }).Jobs
	if len(jobs) < 3 {
		e.Fatalf("%d jobs within the horizon", len(jobs))
	}
	e.throttled(jobs[0], "api", 5*time.Second)
	for _, j := range jobs[1:] {
		f := ending(j, store.OutcomeReturned)
		f.Started = 0
		e.finish(f)
	}
	if used := e.state("api").Used(time.Second, e.clock.Now()); used != 1 {
		e.Errorf("%d permits are spent, one call was made", used)
	}
	if got := e.wantNext(w); got[0].ID != jobs[0].ID {
		e.Errorf("first after the pause came job %d, expected %d", got[0].ID, jobs[0].ID)
	}
}

// A job that is refused while others pass waits by itself.
func testThrottleOwnTime(e *env) {
	e.limit("api", "100/s burst 100")
	w := e.worker("w")
	j := e.started(w, draw("api", 1))
	f := ending(j, store.OutcomeThrottled)
	f.At = e.clock.Now() + 8_000_000
	e.finish(f)
	other := e.one(draw("api", 1))
	e.wantIDs("the others go on", e.take(w), other)
	if got := e.wantNext(w); got[0].ID != j.ID || e.clock.Now() != f.At {
		e.Errorf("job %d came at %s, expected job %d", got[0].ID, e.when(f.At), j.ID)
	}
}

func testThrottleObserve(e *env) {
	e.limit("api", "100/s burst 100")
	e.must(e.Observe(e.ctx, []store.Observed{{Limit: "api", Observation: refusal(e.clock.Now(), 4*time.Second)}}))
	e.one(draw("api", 1))
	w := e.worker("w")
	e.wantNext(w)
	if now := e.clock.Now(); now != Epoch+4_000_000 {
		e.Errorf("claimed %s after the pause began", e.when(Epoch))
	}
	if err := e.Observe(e.ctx, []store.Observed{{Limit: "nope"}}); err == nil {
		e.Error("an observation of an unknown limit was accepted")
	}
}

func testThrottleNoBurst(e *env) {
	e.limit("api", "100/s burst 10")
	e.insert(times(50, draw("api", 1))...)
	w := e.worker("w")
	e.throttled(e.claim(w, places(1)).Jobs[0], "api", 10*time.Second)
	e.clock.Advance(10 * time.Second)
	if got := e.take(w); len(got) > 2 {
		e.Errorf("%d jobs burst out at the end of the pause", len(got))
	}
}
