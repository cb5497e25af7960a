package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var claimTests = []test{
	{"Claim/Complete", testClaimComplete},
	{"Claim/OnlyOnce", testClaimOnlyOnce},
	{"Claim/Kinds", testClaimKinds},
	{"Claim/Queues", testClaimQueues},
	{"Claim/Run", testClaimRun},
	{"Claim/Empty", testClaimEmpty},
	{"Claim/UnknownWorker", testClaimUnknownWorker},
	{"Claim/Repeat", testClaimRepeat},
	{"Claim/RepeatOfNothing", testClaimRepeatOfNothing},
}

func testClaimComplete(e *env) {
	e.limit("api", "10/s")
	n := job(draw("api", 3), body("hello"), group("g"), unique("u"))
	n.Options.IdempotencyKey = "key"
	id := e.insert(n)[0]
	e.clock.Advance(time.Second)
	res := e.claim(e.worker("w"))
	if len(res.Jobs) != 1 || res.Now != e.clock.Now() {
		e.Fatalf("got %+v", res)
	}
	j := res.Jobs[0]
	switch {
	case j.ID != id || j.State != store.Running || j.Worker != "w" || j.Token == 0 || j.Starts != 1:
		e.Errorf("the lease is %+v", j)
	case string(j.Payload) != "hello" || j.Options.IdempotencyKey != "key" || j.Group != "g" || j.Unique != "u":
		e.Errorf("the job is %+v", j)
	case len(j.Charges) != 1 || j.Charges[0].Limit != "api" || j.Charges[0].Cost != 3 || j.Charges[0].Slot != j.Slot:
		e.Errorf("the charges are %v, the slot %d", j.Charges, j.Slot)
	case j.Slot != e.clock.Now():
		e.Errorf("the slot is %s", e.when(j.Slot))
	}
	stored := e.wantState(id, store.Running)
	if stored.Worker != "w" || stored.Token != j.Token || stored.Slot != j.Slot {
		e.Errorf("stored is %+v", stored)
	}
}

func testClaimOnlyOnce(e *env) {
	ids := e.insert(times(20)...)
	a, b := e.worker("a"), e.worker("b")
	var got []int64
	for range 10 {
		got = append(got, idsOf(e.claim(a, places(1)).Jobs)...)
		got = append(got, idsOf(e.claim(b, places(1)).Jobs)...)
	}
	if !slices.Equal(sorted(got), ids) {
		e.Errorf("claimed %v, expected each of %v once", got, ids)
	}
	if more := e.claim(a); len(more.Jobs) != 0 || more.NextAt != limit.Never {
		e.Errorf("then %v, next %s", idsOf(more.Jobs), e.when(more.NextAt))
	}
}

func testClaimKinds(e *env) {
	old := e.insert(times(50, kind("k2"))...)
	mine := e.one(kind("k"))
	w := e.worker("w")
	only := func(kinds ...string) ask { return func(r *store.ClaimRequest) { r.Kinds = kinds } }
	e.wantIDs("kind k", e.take(w, only("k")), mine)
	e.wantIDs("no kind", e.take(w, only()))
	e.wantIDs("an unknown kind", e.take(w, only("unheard of")))
	e.wantIDs("kind k2", e.take(w, only("unheard of", "k2")), old...)
}

func testClaimQueues(e *env) {
	a, b := e.one(queue("a")), e.one(queue("b"))
	w := e.worker("w")
	e.wantIDs("queue none", e.take(w, queues("none")))
	e.wantIDs("queue b", e.take(w, queues("none", "b")), b)
	e.wantIDs("every queue", e.take(w), a)
}

func testClaimRun(e *env) {
	other, mine, plain := e.one(run("r1")), e.one(run("r2")), e.one()
	w := e.worker("w")
	e.wantIDs("run r2", e.take(w, func(r *store.ClaimRequest) { r.Run = "r2" }), mine)
	e.wantIDs("run r3", e.take(w, func(r *store.ClaimRequest) { r.Run = "r3" }))
	if got := e.take(w); !slices.Equal(sorted(idsOf(got)), []int64{other, plain}) {
		e.Errorf("all runs: got %v", idsOf(got))
	}
}

func testClaimEmpty(e *env) {
	res := e.claim(e.worker("w"))
	if len(res.Jobs) != 0 || res.NextAt != limit.Never || res.Now != e.clock.Now() {
		e.Errorf("got %+v", res)
	}
}

func testClaimUnknownWorker(e *env) {
	id := e.one()
	if _, err := e.Claim(e.ctx, e.request("nobody")); !errors.Is(err, store.ErrUnknownWorker) {
		e.Errorf("got %v", err)
	}
	e.wantState(id, store.Waiting)
}

func testClaimRepeat(e *env) {
	e.limit("api", "1000/s burst 1000")
	e.insert(times(300, draw("api", 1), body("b"))...)
	w := e.worker("w")
	r := e.request(w, places(280))
	first, err := e.Claim(e.ctx, r)
	e.must(err)
	e.claim(w, places(5)) // another claim meanwhile
	r.Repeat = true
	again, err := e.Claim(e.ctx, r)
	e.must(err)
	if !slices.Equal(sorted(idsOf(first.Jobs)), sorted(idsOf(again.Jobs))) {
		e.Fatalf("the repeated claim returned %d jobs, the first one %d", len(again.Jobs), len(first.Jobs))
	}
	for _, j := range again.Jobs {
		if len(j.Charges) != 1 || string(j.Payload) != "b" || j.Token != r.Token || j.Starts != 1 {
			e.Fatalf("a repeated job is incomplete: %+v", j)
		}
	}
}

// A repeated claim whose first call never arrived is a claim like any other.
func testClaimRepeatOfNothing(e *env) {
	id := e.one()
	res := e.claim(e.worker("w"), func(r *store.ClaimRequest) { r.Repeat = true })
	e.wantIDs("a repeat of nothing", res.Jobs, id)
}
