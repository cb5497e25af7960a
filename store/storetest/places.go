package storetest

import (
	"github.com/penstockhq/penstock/store"
)

var placesTests = []test{
	{"Places/Bound", testPlacesBound},
	{"Places/Prefetch", testPlacesPrefetch},
	{"Places/QueueMax", testPlacesQueueMax},
	{"Places/NoneFree", testPlacesNoneFree},
	{"Places/OneSuspectAtATime", testPlacesSuspects},
	{"Places/PausedQueue", testPlacesPausedQueue},
}

func testPlacesBound(e *env) {
	e.insert(times(20)...)
	w := e.worker("w")
	for i, want := range []int{7, 7, 6, 0} {
		if got := e.claim(w, places(7)).Jobs; len(got) != want {
			e.Errorf("claim %d got %d jobs, expected %d", i, len(got), want)
		}
	}
}

// Jobs without limits may be taken ahead; a job with limits needs a place.
func testPlacesPrefetch(e *env) {
	e.limit("api", "1000/s burst 1000")
	e.insert(times(20, draw("api", 1))...)
	w := e.worker("w")
	ahead := func(r *store.ClaimRequest) { r.Places, r.Prefetch = 3, 10 }
	if got := e.claim(w, ahead).Jobs; len(got) != 3 {
		e.Errorf("%d jobs with limits for 3 places", len(got))
	}
	e.insert(times(30, prio(9))...)
	if got := e.claim(w, ahead).Jobs; len(got) != 13 {
		e.Errorf("%d jobs without limits for 3 places and 10 ahead", len(got))
	}
	limited := 0
	for _, j := range e.claim(w, func(r *store.ClaimRequest) { r.Places, r.Prefetch = 0, 10 }).Jobs {
		if len(j.Draws) > 0 {
			limited++
		}
	}
	if limited > 0 {
		e.Errorf("%d jobs with limits for no places", limited)
	}
}

func testPlacesQueueMax(e *env) {
	e.insert(times(10, queue("a"))...)
	e.insert(times(10, queue("b"))...)
	w := e.worker("w")
	res := e.claim(w, places(9), func(r *store.ClaimRequest) {
		r.Queues = []store.QueueAsk{{Name: "a", Place: 0, Max: 2}, {Name: "b", Place: 1, Max: 100}}
	})
	counts := map[string]int{}
	for _, j := range res.Jobs {
		counts[j.Queue]++
	}
	if counts["a"] != 2 || counts["b"] != 7 {
		e.Errorf("got %v, expected 2 of a and 7 of b", counts)
	}
	none := e.claim(w, func(r *store.ClaimRequest) { r.Queues = []store.QueueAsk{{Name: "a", Max: 0}} })
	if len(none.Jobs) != 0 {
		e.Errorf("%d jobs of a queue without room", len(none.Jobs))
	}
}

func testPlacesNoneFree(e *env) {
	e.limit("api", "10/s")
	e.insert(job(), job(draw("api", 1)))
	w := e.worker("w")
	for range 3 {
		if got := e.claim(w, places(0)).Jobs; len(got) != 0 {
			e.Errorf("%d jobs for no places", len(got))
		}
	}
	if got := e.take(w); len(got) != 2 {
		e.Errorf("%d jobs afterwards, expected both", len(got))
	}
}

func testPlacesSuspects(e *env) {
	ids := e.insert(times(3)...)
	lost := e.worker("lost")
	e.claim(lost)
	e.must(e.Deregister(e.ctx, lost))
	innocent := e.one(prio(1))
	w := e.worker("w")
	busy := func(r *store.ClaimRequest) { r.SuspectFree = false }
	e.wantIDs("while it runs a suspect", e.take(w, busy), innocent)
	for range ids {
		res := e.claim(w)
		if len(res.Jobs) != 1 || !res.Jobs[0].Suspect {
			e.Fatalf("got %v, expected one suspect", idsOf(res.Jobs))
		}
		e.done(res.Jobs...)
	}
	for _, id := range ids {
		e.wantState(id, store.Done)
	}
}

func testPlacesPausedQueue(e *env) {
	e.insert(times(5, queue("a"))...)
	b := e.one(queue("b"))
	w := e.worker("w")
	e.must(e.PauseQueue(e.ctx, "a", "repairs"))
	e.wantIDs("while a is paused", e.take(w), b)
	e.wantIDs("asking for a", e.take(w, queues("a")))
	e.must(e.ResumeQueue(e.ctx, "a"))
	if got := e.take(w); len(got) != 5 {
		e.Errorf("%d jobs after the pause, expected 5", len(got))
	}
}
