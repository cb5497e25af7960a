package storetest

import (
	"fmt"
	"time"

	"github.com/penstockhq/penstock/store"
)

// J1 (riverqueue/river#785, graphile/worker#274): claims slowed down with rows
// that were not ready. Rows are counted here, not time.
var flatTests = []test{
	{"TestJ1_BlockedLanesOfOneLimit", flat(func(e *env, n int) {
		e.limit("slow", "1/h")
		var jobs []store.NewJob
		for i := range n {
			jobs = append(jobs, job(group(fmt.Sprint(i)), draw("slow", 1)))
		}
		e.insert(jobs...)
	})},
	{"TestJ1_BlockedKeys", flat(func(e *env, n int) {
		e.limit("shop/*", "1/h")
		var jobs []store.NewJob
		for i := range n {
			jobs = append(jobs, times(2, draw(fmt.Sprint("shop/", i), 1))...)
		}
		e.insert(jobs...)
	})},
	{"TestJ1_ScheduledAhead", flat(func(e *env, n int) {
		var jobs []store.NewJob
		for i := range n {
			jobs = append(jobs, job(group(fmt.Sprint(i)), at(Epoch+int64(1e12)+int64(i))))
		}
		e.insert(jobs...)
	})},
	{"TestJ1_BlockedJobsOfOneLane", flat(func(e *env, n int) {
		e.limit("slow", "1/h")
		e.insert(times(n, draw("slow", 1))...)
	})},
	{"TestJ1_EndedJobs", flat(func(e *env, n int) {
		e.insert(times(n, group("over"))...)
		e.done(e.take("w")...)
	})},
	{"TestHazard12_UnknownKindsAtTheHead", flat(func(e *env, n int) {
		var jobs []store.NewJob
		for i := range n {
			jobs = append(jobs, job(kind("new"), group(fmt.Sprint(i)), prio(9)))
		}
		e.insert(jobs...)
	})},
}

// flat compares the rows touched by work that is not blocked, with few and with
// many blocked things beside it.
func flat(block func(*env, int)) func(*env) {
	return func(e *env) {
		few, many := e.rowsBeside(10, block), 0
		other := newEnv(e.T, e.factory)
		many = other.rowsBeside(1000, block)
		e.Logf("rows touched beside 10: %d, beside 1,000: %d", few, many)
		if many > few+few/5+5 {
			e.Errorf("the same work touches %d rows beside 10 blocked ones and %d beside 1,000", few, many)
		}
	}
}

func (e *env) rowsBeside(n int, block func(*env, int)) int {
	e.noDrain = true
	w := e.worker("w")
	block(e, n)
	e.take(w) // what can run does, what cannot finds its gate
	for range 3 {
		e.clock.Advance(time.Millisecond)
		e.take(w)
	}
	var c Counter
	e.hooks.Tx = c.Tx
	for range 10 {
		e.one(group("free"))
		e.claim(w) // and what it finds when there is nothing
		e.claim(w)
	}
	e.hooks.Tx = nil
	return c.Total()
}
