package storetest

import (
	"time"

	"github.com/penstockhq/penstock/store"
)

var expiryTests = []test{
	{"Expiry/DeadInsteadOfStarted", testExpiryDead},
	{"Expiry/TakesNoPermit", testExpiryTakesNoPermit},
	{"Expiry/Exact", testExpiryExact},
	{"Expiry/StartedInTime", testExpiryStartedInTime},
}

func testExpiryDead(e *env) {
	w := e.worker("w")
	id, later := e.one(expires(Epoch+1_000_000), body("b"), unique("u")), e.one()
	e.clock.Advance(2 * time.Second)
	res := e.claim(w)
	e.wantIDs("after the expiry", res.Jobs, later)
	if len(res.ExpiredJobs) != 1 || res.ExpiredJobs[0].ID != id || string(res.ExpiredJobs[0].Payload) != "b" {
		e.Errorf("expired jobs reported: %+v", res.ExpiredJobs)
	}
	if j := e.wantState(id, store.Dead); j.Reason != store.Expired || j.FinishedAt != e.clock.Now() || j.Starts != 0 {
		e.Errorf("the dead letter is %+v", j)
	}
	e.one(unique("u"))
}

func testExpiryTakesNoPermit(e *env) {
	e.limit("api", "1/m")
	w := e.worker("w")
	var dead []store.NewJob
	for range 30 {
		dead = append(dead, job(draw("api", 1), expires(Epoch+1_000_000)))
	}
	e.insert(dead...)
	id := e.one(draw("api", 1))
	e.clock.Advance(2 * time.Second)
	e.wantIDs("behind 30 expired jobs", e.take(w), id)
}

func testExpiryExact(e *env) {
	w := e.worker("w")
	id, dead := e.one(queue("a"), expires(Epoch+1001)), e.one(queue("b"), expires(Epoch+1000))
	e.clock.To(Epoch + 1000)
	e.wantIDs("at the instant", e.take(w), id)
	e.wantState(dead, store.Dead)
}

// A start under way is not touched by the expiry; a retry after it is.
func testExpiryStartedInTime(e *env) {
	w := e.worker("w")
	id := e.one(expires(Epoch + 1_000_000))
	j := e.claim(w).Jobs[0]
	e.clock.Advance(2 * time.Second)
	f := ending(j, store.OutcomeRetry)
	f.At = e.clock.Now()
	e.finish(f)
	e.wantIDs("the retry", e.take(w))
	if j := e.wantState(id, store.Dead); j.Reason != store.Expired || j.Starts != 1 {
		e.Errorf("the dead letter is %+v", j)
	}
}
