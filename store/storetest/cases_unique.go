package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/store"
)

// G1 (hibiken/asynq#492, #275, #629, #842): a dead or deleted job kept its
// unique key.
func testG1(e *env) {
	w := e.worker("w")
	dead := e.killed(w, unique("K"))
	for n := range 3 {
		id := e.one(unique("K"), body(fmt.Sprint("version ", n)), at(e.clock.Now()+1e9))
		e.cancel(id, store.Cancelled)
	}
	errs, err := e.Discard(e.ctx, []int64{dead.ID})
	e.must(err)
	e.must(errs[0])
	j := e.started(w, unique("K"), body("new"))
	if string(j.Payload) != "new" {
		e.Errorf("it runs with %q", j.Payload)
	}
	e.lose() // killed mid-run
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("K"))})
	e.must(err)
	if got[0].Verdict != store.Duplicate || got[0].ID != j.ID {
		e.Errorf("while the lost one is still to run: %+v", got[0])
	}
	e.worker(w)
	e.done(e.take(w)...)
	e.one(unique("K"))
}

// G3 (timgit/pg-boss#535, riverqueue/river#618, #619): two jobs with one key
// made the whole batch fail for ever; a scheduled unique job conflicted with itself.
func testG3(e *env) {
	w := e.worker("w")
	j := e.started(w, unique("K"), body("old"))
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("K"), replace, body("new"))})
	e.must(err)
	f := ending(j, store.OutcomeRetry)
	f.At = e.clock.Now()
	e.finish(f)
	e.insert(times(50)...)
	ks, others := 0, 0
	for range 10 {
		jobs := e.claim(w, places(10)).Jobs
		running := 0
		for _, c := range jobs {
			if c.ID == j.ID || c.ID == got[0].ID {
				running++
				ks++
				if string(c.Payload) != "new" {
					e.Errorf("an old version runs after the new one was submitted: %q", c.Payload)
				}
			} else {
				others++
			}
		}
		if running > 1 {
			e.Error("two jobs of one key run at once")
		}
		e.done(jobs...)
	}
	if ks != 1 || others != 50 {
		e.Errorf("%d of K and %d of 50 others ran", ks, others)
	}
	var jobs []store.NewJob
	for i := range 100 {
		jobs = append(jobs, job(unique(fmt.Sprint("u", i)), at(e.clock.Now()+30_000_000)))
	}
	e.insert(jobs...)
	e.clock.Advance(31 * time.Second)
	_, err = e.Heartbeat(e.ctx, w)
	e.must(err)
	if got := e.take(w); len(got) != 100 {
		e.Errorf("%d of 100 scheduled unique jobs ran", len(got))
	}
}

// G4 (inngest/inngest#827, timgit/pg-boss#353, graphile/worker#154,
// riverqueue/river#715): an update sent while the keyed job ran was merged into
// the run that had read the old data.
func testG4(e *env) {
	w := e.worker("w")
	j := e.started(w, unique("K"), body("1"))
	last := ""
	for v := 2; v <= 7; v++ {
		last = fmt.Sprint(v)
		got, err := e.Insert(e.ctx, []store.NewJob{job(unique("K"), replace, body(last))})
		e.must(err)
		if got[0].Verdict != store.Created && got[0].Verdict != store.Replaced {
			e.Errorf("version %d: %+v", v, got[0])
		}
	}
	e.done(j)
	ran := ""
	for range 3 {
		jobs := e.take(w)
		for _, c := range jobs {
			ran = string(c.Payload)
		}
		e.done(jobs...)
	}
	if ran != last {
		e.Errorf("the last version that ran is %q, submitted was %q", ran, last)
	}
	// Without Replace the caller is told.
	j = e.started(w, unique("K"))
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("K"), body("dropped"))})
	e.must(err)
	if got[0].Verdict != store.Duplicate || got[0].State != store.Running {
		e.Errorf("a dropped update was reported as %+v", got[0])
	}
	if errors.Is(err, store.ErrUniqueTaken) {
		e.Error("a duplicate is no error")
	}
	e.done(j)
}
