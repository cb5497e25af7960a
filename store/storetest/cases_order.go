package storetest

import (
	"fmt"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

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
