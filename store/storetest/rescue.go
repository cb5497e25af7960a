package storetest

import (
	"errors"
	"time"

	"github.com/penstockhq/penstock/store"
)

var rescueTests = []test{
	{"Rescue/AfterLeaseAndMargin", testRescueMargin},
	{"Rescue/HeartbeatsKeepAlive", testRescueAlive},
	{"Rescue/FirstHand", testRescueFirstHand},
	{"Rescue/LateFinishIsRefused", testRescueLateFinish},
	{"Rescue/KeepsItsPlace", testRescuePlace},
	{"Rescue/NoRefund", testRescueNoRefund},
	{"Rescue/LostTooOften", testRescueLostMax},
	{"Rescue/InnocentsDoNotDie", testRescueInnocents},
	{"Rescue/SuspectClearedByAnEnd", testRescueCleared},
	{"Rescue/Cancelled", testRescueCancelled},
}

func (e *env) rescue() []store.Job {
	e.Helper()
	jobs, err := e.Rescue(e.ctx, 3)
	e.must(err)
	return jobs
}

func testRescueMargin(e *env) {
	e.limit("api", "1 in flight")
	w := e.worker("w")
	j := e.started(w, draw("api", 1))
	e.clock.Advance(lease) // its handlers are being stopped just now
	if got := e.rescue(); len(got) != 0 {
		e.Fatal("rescued at the lease, without a margin")
	}
	e.clock.Advance(lease)
	got := e.rescue()
	if len(got) != 1 || got[0].ID != j.ID || got[0].State != store.Waiting || !got[0].Suspect {
		e.Fatalf("rescued %+v", got)
	}
	if n := e.state("api").InFlight(); n != 0 {
		e.Errorf("%d in flight", n)
	}
	if again := e.rescue(); len(again) != 0 {
		e.Errorf("rescued again: %v", again)
	}
	if _, err := e.Heartbeat(e.ctx, w); !errors.Is(err, store.ErrUnknownWorker) {
		e.Errorf("a heartbeat of the dead: %v", err)
	}
	e.wantIDs("by another", e.take(e.worker("w2")), j.ID)
}

func testRescueAlive(e *env) {
	w := e.worker("w")
	j := e.started(w)
	for range 20 {
		e.clock.Advance(lease / 2)
		_, err := e.Heartbeat(e.ctx, w)
		e.must(err)
		if got := e.rescue(); len(got) != 0 {
			e.Fatal("a living worker's job was rescued")
		}
	}
	e.done(j)
}

func testRescueFirstHand(e *env) {
	if e.handle.Kill == nil {
		e.Skip("the store knows no process at first hand")
	}
	if !e.SeesDeaths() {
		e.Error("the store says that it sees no deaths")
	}
	gone, alive := e.worker("gone"), e.worker("alive")
	lost, kept := e.started(gone), e.started(alive)
	e.handle.Kill(gone)
	got := e.rescue()
	if len(got) != 1 || got[0].ID != lost.ID {
		e.Errorf("rescued %v, expected job %d at once", got, lost.ID)
	}
	e.wantState(kept.ID, store.Running)
}

func testRescueLateFinish(e *env) {
	e.limit("api", "1 in flight")
	w := e.worker("w")
	j := e.started(w, draw("api", 1))
	e.clock.Advance(3 * lease)
	e.rescue()
	w2 := e.worker("w2")
	second := e.take(w2)
	e.wantIDs("rescued", second, j.ID)
	for o := store.OutcomeDone; o <= store.OutcomeDiscarded; o++ {
		got, err := e.Finish(e.ctx, []store.Finish{ending(j, o)})
		e.must(err)
		if !errors.Is(got[0].Err, store.ErrLeaseLost) {
			e.Errorf("%v by the old holder: %v", o, got[0].Err)
		}
	}
	if n := e.state("api").InFlight(); n != 1 {
		e.Errorf("%d in flight, one job runs", n)
	}
	e.done(second...)
}

func testRescuePlace(e *env) {
	w := e.worker("w")
	j := e.started(w, prio(9))
	later := e.insert(times(2)...)
	e.must(e.Deregister(e.ctx, w))
	e.wantOrder(e.inTurn(e.worker("w2"), 3), j.ID, later[0], later[1])
}

func testRescueNoRefund(e *env) {
	e.limit("api", "1/h")
	w := e.worker("w")
	e.started(w, draw("api", 1))
	e.must(e.Deregister(e.ctx, w))
	if used := e.state("api").Used(time.Hour, e.clock.Now()); used != 1 {
		e.Errorf("%d permits spent: nobody knows whether the call was made", used)
	}
	e.wantIDs("within the hour", e.take(e.worker("w2")))
}

// lose kills the process of whoever runs jobs, as rescue sees it.
func (e *env) lose() []store.Job {
	e.Helper()
	e.clock.Advance(3 * lease)
	return e.rescue()
}

func testRescueLostMax(e *env) {
	id := e.one()
	for n := range 4 { // the first loss makes it a suspect, three more kill it
		e.worker("w")
		e.wantIDs("the killer", e.take("w"), id)
		got := e.lose()
		if len(got) != 1 {
			e.Fatalf("loss %d: rescued %v", n, got)
		}
		if want := n; got[0].Losses != want {
			e.Errorf("loss %d: %d losses as a suspect, expected %d", n, got[0].Losses, want)
		}
	}
	j := e.wantState(id, store.Dead)
	if j.Reason != store.Lost || j.Attempts != 0 || j.Starts != 4 || j.Error == "" {
		e.Errorf("the dead letter is %+v", j)
	}
}

func testRescueInnocents(e *env) {
	killer := e.one()
	ids := e.insert(times(10)...)
	for range 10 {
		e.worker("w")
		jobs := e.claim("w", places(100)).Jobs
		if len(jobs) == 0 {
			break
		}
		kills := false
		for _, j := range jobs {
			kills = kills || j.ID == killer
		}
		if !kills {
			e.done(jobs...)
			continue
		}
		e.lose()
	}
	for range ids {
		e.worker("w")
		e.done(e.claim("w").Jobs...)
	}
	e.wantState(killer, store.Dead)
	for _, id := range ids {
		e.wantState(id, store.Done)
	}
}

func testRescueCleared(e *env) {
	w := e.worker("w")
	j := e.started(w)
	e.lose()
	e.worker(w)
	second := e.take(w)
	f := ending(second[0], store.OutcomeRetry)
	f.At = e.clock.Now()
	e.finish(f)
	if s := e.get(j.ID); s.Suspect {
		e.Errorf("it came to an end of its own accord and is still a suspect: %+v", s)
	}
	e.wantIDs("beside another suspect", e.take(w, func(r *store.ClaimRequest) { r.SuspectFree = false }), j.ID)
}

func testRescueCancelled(e *env) {
	w := e.worker("w")
	j := e.started(w)
	if s, err := e.Cancel(e.ctx, j.ID); err != nil || s != store.Running {
		e.Errorf("cancel of a running job: %v, %v", s, err)
	}
	e.lose()
	e.wantState(j.ID, store.Cancelled)
}
