package storetest

import (
	"fmt"
	"time"

	"github.com/penstockhq/penstock/store"
)

var tidyTests = []test{
	{"Tidy/RemovesWhatNoJobNeeds", testTidy},
	{"Tidy/KeepsWhatJobsReferTo", testTidyKeeps},
	{"Tidy/BesideWork", testTidyBeside},
	{"Tidy/TwoAtOnce", testTidyTwice},
}

func (e *env) tidy() store.Tidied {
	e.Helper()
	got, err := e.Tidy(e.ctx)
	e.must(err)
	return got
}

func testTidy(e *env) {
	e.limit("shop/*", "10/s burst 10")
	const shops = 700 // more than one commit takes
	w := e.worker("w")
	for i := range shops {
		e.one(draw(fmt.Sprintf("shop/%d", i), 1), group(fmt.Sprint(i%3)))
	}
	e.done(e.take(w)...)
	e.insert(times(2, run("r"))...)
	e.done(e.take(w)...)
	e.clock.Advance(24 * time.Hour)
	if got := e.tidy(); got.Lanes != 0 || got.Bands != 0 {
		e.Errorf("%+v went although all jobs are kept", got)
	}
	n, err := e.Prune(e.ctx, []store.State{store.Done}, e.clock.Now(), 10_000)
	e.must(err)
	if n != shops+2 {
		e.Fatalf("pruned %d jobs", n)
	}
	got := e.tidy()
	if got.Lanes != shops+1 || got.Gates != shops+1 || got.Bands != 2 {
		e.Errorf("%+v went, expected %d lanes and gates and 2 bands", got, shops+1)
	}
	if got := e.tidy(); got != (store.Tidied{}) {
		e.Errorf("the second time went %+v", got)
	}
	// All goes on as in a fresh store.
	e.worker(w)
	id := e.one(draw("shop/1", 1))
	e.wantIDs("after tidying", e.take(w), id)
}

func testTidyKeeps(e *env) {
	w := e.worker("w")
	dead := e.killed(w, group("dead"))
	done := e.started(w, group("done"))
	e.done(done)
	running := e.started(w, group("running"))
	holder := e.started(w, unique("u"), group("holder"))
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("u"), replace, group("successor"), body("new"))})
	e.must(err)
	successor := got[0].ID
	scheduled := e.one(group("scheduled"), at(e.clock.Now()+60_000_000))
	stagedIDs := e.insert(job(group("staged"), staged("load")))
	for range 2 {
		if got := e.tidy(); got.Lanes != 0 {
			e.Errorf("%+v went", got)
		}
	}
	for id, want := range map[int64]store.State{dead.ID: store.Dead, done.ID: store.Done, running.ID: store.Running,
		holder.ID: store.Running, successor: store.Waiting, scheduled: store.Waiting} {
		e.wantState(id, want)
	}
	f := ending(running, store.OutcomeRetry)
	f.At = e.clock.Now()
	e.finish(f)
	e.done(holder)
	errs, err := e.Replay(e.ctx, []int64{dead.ID}, nil, nil)
	e.must(err)
	e.must(errs[0])
	e.must(e.Release(e.ctx, "load"))
	e.clock.Advance(time.Hour)
	e.worker(w)
	want := sorted(append([]int64{dead.ID, running.ID, successor, scheduled}, stagedIDs...))
	taken := e.take(w)
	if got := sorted(idsOf(taken)); fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("after tidying jobs %v came, expected %v", got, want)
	}
}

// Between any two commits of a Tidy jobs come, run and end in the lanes it is
// about to remove.
func testTidyBeside(e *env) {
	w := e.worker("w")
	var ids []int64
	var held []store.Claimed
	next := int64(0)
	work := func() {
		for _, o := range [][]opt{{group("a")}, {group("b"), run("r")}} {
			j := e.started(w, o...)
			e.done(j)
			ids = append(ids, j.ID)
		}
		// A job that waits for another one's end comes to a lane without waking it.
		holder := e.started(w, group("holder"), unique("u"))
		got, err := e.Insert(e.ctx, []store.NewJob{job(group("c"), unique("u"), replace)})
		e.must(err)
		held, next = append(held, holder), got[0].ID
	}
	finish := func() {
		e.done(held...)
		held = nil
		if next != 0 {
			jobs := e.take(w)
			e.wantIDs("the successor", jobs, next)
			e.done(jobs...)
			next = 0
		}
	}
	work()
	finish()
	if _, err := e.Prune(e.ctx, []store.State{store.Done}, e.clock.Now()+1, 100); err != nil {
		e.Fatal(err)
	}
	ids = nil
	step, busy := 0, false
	for stop := range 8 { // work happens before the commit of this number
		step = 0
		e.hooks.Begin = func() {
			if busy {
				return
			}
			if step++; step == stop {
				busy = true
				work()
				busy = false
			}
		}
		e.tidy()
		e.hooks.Begin = nil
		for _, id := range ids {
			e.wantState(id, store.Done)
		}
		finish()
		if _, err := e.Prune(e.ctx, []store.State{store.Done}, e.clock.Now()+1, 100); err != nil {
			e.Fatal(err)
		}
		ids = nil
	}
	if got := e.tidy(); got.Lanes > 4 {
		e.Errorf("%+v was left", got)
	}
}

// A second Tidy marks anew what the first one listed: the first gives up.
func testTidyTwice(e *env) {
	w := e.worker("w")
	for i := range 3 {
		e.done(e.started(w, group(fmt.Sprint(i))))
	}
	if _, err := e.Prune(e.ctx, []store.State{store.Done}, e.clock.Now()+1, 100); err != nil {
		e.Fatal(err)
	}
	var id int64
	step, busy := 0, false
	e.hooks.Begin = func() {
		if busy {
			return
		}
		if step++; step == 3 { // turn, retire, and now the first removal
			busy = true
			j := e.started(w, group("1"))
			e.done(j)
			id = j.ID
			if got := e.tidy(); got.Lanes != 2 {
				e.Errorf("the second one removed %+v, expected 2 lanes", got)
			}
			busy = false
		}
	}
	if got := e.tidy(); got.Lanes != 0 {
		e.Errorf("the first one removed %+v, expected nothing", got)
	}
	e.hooks.Begin = nil
	if id == 0 {
		e.Fatal("the second one did not run")
	}
	e.wantState(id, store.Done)
}
