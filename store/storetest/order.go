package storetest

import (
	"fmt"
	"time"

	"github.com/penstockhq/penstock/store"
)

var orderTests = []test{
	{"Order/Age", testOrderAge},
	{"Order/Priority", testOrderPriority},
	{"Order/NewcomersDoNotOvertake", testOrderNewcomers},
	{"Order/QueuePlace", testOrderQueuePlace},
	{"Order/GroupsShare", testOrderGroupsShare},
	{"Order/GroupsShareByCost", testOrderGroupsShareByCost},
	{"Order/GroupsShareOneClaim", testOrderGroupsShareOneClaim},
	{"Order/LateGroupGetsNoCredit", testOrderLateGroup},
	{"Order/RetryKeepsItsPlace", testOrderRetry},
}

// inTurn claims one job at a time and finishes it.
func (e *env) inTurn(w string, n int, asks ...ask) []int64 {
	e.Helper()
	var got []int64
	for len(got) < n {
		res := e.claim(w, append(asks, places(1))...)
		if len(res.Jobs) == 0 && res.NextAt > e.clock.Now() {
			break
		}
		got = append(got, idsOf(res.Jobs)...)
		e.done(res.Jobs...)
	}
	return got
}

func (e *env) wantOrder(got []int64, want ...int64) {
	e.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("served %v, expected %v", got, want)
	}
}

func testOrderAge(e *env) {
	late := e.one(at(Epoch + 2000))
	early := e.one(at(Epoch + 1000))
	now := e.insert(times(3)...)
	e.clock.Advance(time.Second)
	e.wantOrder(e.inTurn(e.worker("w"), 9), now[0], now[1], now[2], early, late)
}

func testOrderPriority(e *env) {
	var want []int64
	for p := 1; p <= 9; p++ {
		want = append([]int64{e.one(prio(p))}, want...)
	}
	e.wantOrder(e.inTurn(e.worker("w"), 9), want...)
}

// A job that comes while others wait for the next permit is claimed for at once. It
// must not get the permit that those of a higher priority wait for, whenever it comes.
func testOrderNewcomers(e *env) {
	e.limit("api", "10/s burst 1")
	w := e.worker("w")
	for _, horizon := range []time.Duration{0, 50 * time.Millisecond, 200 * time.Millisecond} {
		ahead := func(r *store.ClaimRequest) { r.Horizon = horizon }
		high := len(e.insert(times(20, prio(9), draw("api", 1))...))
		for n := 0; high > 0; n++ {
			e.one(prio(1), draw("api", 1), group(fmt.Sprint(horizon, n)))
			for _, j := range e.claim(w, ahead).Jobs {
				if j.Priority != 9 {
					e.Fatalf("horizon %v: job %d of priority %d got the slot %s, and %d of priority 9 wait", horizon, j.ID, j.Priority, e.when(j.Slot), high)
				}
				high--
				e.done(j)
			}
			e.clock.Advance(10 * time.Millisecond)
		}
	}
}

func testOrderQueuePlace(e *env) {
	low, high := e.one(queue("low"), prio(9)), e.one(queue("high"), prio(1))
	e.wantOrder(e.inTurn(e.worker("w"), 2, queues("high", "low")), high, low)
	a, b := e.one(queue("a"), prio(1)), e.one(queue("b"), prio(9))
	same := func(r *store.ClaimRequest) {
		r.Queues = []store.QueueAsk{{Name: "a", Max: 9}, {Name: "b", Max: 9}}
	}
	e.wantOrder(e.inTurn("w", 2, same), b, a)
}

// served counts the starts of each group among the first n.
func (e *env) served(n int, asks ...ask) map[string]int {
	e.Helper()
	counts := make(map[string]int)
	for range n {
		jobs := e.claim("w", append(asks, places(1))...).Jobs
		if len(jobs) != 1 {
			e.Fatalf("%d jobs claimed, expected 1", len(jobs))
		}
		counts[jobs[0].Group]++
		e.done(jobs...)
	}
	return counts
}

func testOrderGroupsShare(e *env) {
	e.worker("w")
	e.insert(times(200, group("big"))...)
	e.insert(times(20, group("small"))...)
	e.insert(times(20, group("tiny"))...)
	if got := e.served(30); got["big"] < 9 || got["small"] < 9 || got["tiny"] < 9 {
		e.Errorf("of 30 starts the groups got %v, expected about 10 each", got)
	}
}

func testOrderGroupsShareByCost(e *env) {
	e.worker("w")
	e.limit("api", "1000/s burst 1000")
	e.insert(times(60, group("dear"), draw("api", 4))...)
	e.insert(times(60, group("cheap"), draw("api", 1))...)
	if got := e.served(50); got["dear"] < 8 || got["dear"] > 12 {
		e.Errorf("of 50 starts the groups got %v, expected about 10 at cost 4 and 40 at cost 1", got)
	}
}

// One claim for many places is as fair as many for one.
func testOrderGroupsShareOneClaim(e *env) {
	w := e.worker("w")
	e.limit("api", "1000/s burst 1000")
	e.insert(times(100, group("a"), draw("api", 4))...)
	e.insert(times(100, group("b"), draw("api", 1))...)
	e.insert(times(100, group("c"), draw("api", 1))...)
	counts := map[string]int{}
	for _, j := range e.claim(w, places(90)).Jobs {
		counts[j.Group]++
	}
	if counts["a"] < 8 || counts["a"] > 12 || counts["b"] < 36 || counts["c"] < 36 {
		e.Errorf("of 90 starts the groups got %v, expected about 10 at cost 4 and 40 each at cost 1", counts)
	}
}

func testOrderLateGroup(e *env) {
	e.worker("w")
	e.insert(times(60, group("old"))...)
	e.served(40)
	e.insert(times(40, group("new"))...)
	if got := e.served(20); got["old"] < 9 || got["new"] < 9 {
		e.Errorf("of the 20 starts after a group came the groups got %v, expected about 10 each", got)
	}
}

func testOrderRetry(e *env) {
	w := e.worker("w")
	first := e.one()
	j := e.claim(w).Jobs[0]
	e.clock.Advance(time.Second)
	f := ending(j, store.OutcomeRetry)
	f.At = e.clock.Now() + 1000
	second := e.insert(job(), job(at(e.clock.Now()+2000)))
	e.finish(f)
	e.clock.Advance(time.Second)
	e.wantOrder(e.inTurn(w, 3), second[0], first, second[1])
}
