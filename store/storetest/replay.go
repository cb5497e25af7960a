package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstockhq/penstock/store"
)

var replayTests = []test{
	{"Replay/FreshAttempts", testReplayFresh},
	{"Replay/UnderItsLimits", testReplayLimits},
	{"Replay/At", testReplayAt},
	{"Replay/NewKey", testReplayNewKey},
	{"Replay/InDoubt", testReplayInDoubt},
	{"Replay/OnlyDeadAndCancelled", testReplayOnly},
	{"Replay/UniqueTaken", testReplayUnique},
	{"Replay/Twice", testReplayTwice},
	{"Replay/Expired", testReplayExpired},
	{"Replay/Suspect", testReplaySuspect},
	{"Discard/Ended", testDiscard},
	{"Discard/FreesTheRef", testDiscardRef},
	{"Prune/DoneAndCancelled", testPrune},
	{"Prune/KeepsCallIDs", testPruneKeepsCalls},
	{"Prune/FreesCallIDsIfAsked", testPruneCalls},
}

// killed returns a job that failed once and then died.
func (e *env) killed(w string, opts ...opt) store.Job {
	e.Helper()
	j := e.started(w, opts...)
	f := ending(j, store.OutcomeRetry)
	f.At, f.Error = e.clock.Now(), "first"
	e.finish(f)
	j = e.take(w)[0]
	f = ending(j, store.OutcomeDead)
	f.Reason, f.Error, f.Result = store.Exhausted, "second", []byte("answer")
	e.finish(f)
	return e.wantState(j.ID, store.Dead)
}

func (e *env) replay(ids ...int64) []error {
	e.Helper()
	errs, err := e.Replay(e.ctx, ids, nil, nil)
	e.must(err)
	if len(errs) != len(ids) {
		e.Fatalf("%d answers for %d jobs", len(errs), len(ids))
	}
	return errs
}

// H3: a replayed job gets a fresh budget and is otherwise what it was.
func testReplayFresh(e *env) {
	w := e.worker("w")
	n := job(body("kept\x00"), group("g"), prio(7), ref("r", "a", "h", 3))
	n.Options = store.Options{MaxAttempts: 2, IdempotencyKey: "key"}
	e.insert(n)
	j := e.take(w)[0]
	f := ending(j, store.OutcomeDead)
	f.Reason, f.Error = store.Rejected, "404"
	e.finish(f)
	before := e.get(j.ID)
	history, err := e.Events(e.ctx, j.ID)
	e.must(err)
	e.clock.Advance(time.Hour)
	e.must(e.replay(j.ID)[0])
	s := e.wantState(j.ID, store.Waiting)
	switch {
	case s.Attempts != 0 || s.Reason != "" || s.FinishedAt != 0 || s.Losses != 0:
		e.Errorf("it goes on with %+v", s)
	case string(s.Payload) != "kept\x00" || s.Options != before.Options || s.Group != "g" || s.Priority != 7 || s.Ref != "a" || s.Run != "r":
		e.Errorf("it became %+v", s)
	}
	kept, err := e.Events(e.ctx, j.ID)
	e.must(err)
	if len(kept) < len(history) || len(history) == 0 || kept[0].Error != history[0].Error {
		e.Errorf("the history was %v and is %v", history, kept)
	}
	again := e.take(w)
	e.wantIDs("replayed", again, j.ID)
	e.done(again...)
	if s := e.get(j.ID); s.Attempts != 0 || s.Error != "" {
		e.Errorf("in the end: %+v", s)
	}
}

func testReplayLimits(e *env) {
	e.limit("api", "1/m")
	w := e.worker("w")
	j := e.started(w, draw("api", 1))
	f := ending(j, store.OutcomeDead)
	f.Reason = store.Rejected
	e.finish(f)
	e.must(e.replay(j.ID)[0])
	if got := e.wantNext(w); got[0].ID != j.ID {
		e.Errorf("claimed job %d", got[0].ID)
	}
}

func testReplayAt(e *env) {
	w := e.worker("w")
	j := e.killed(w)
	other := e.killed(w)
	later := e.clock.Now() + 90_000_000
	errs, err := e.Replay(e.ctx, []int64{j.ID, other.ID}, []int64{later + 1_000_000, later}, nil)
	e.must(err)
	e.must(errs[0])
	e.must(errs[1])
	for i, want := range []int64{other.ID, j.ID} {
		at := later + int64(i)*1_000_000
		if got := e.wantNext(w); got[0].ID != want || e.clock.Now() != at {
			e.Errorf("job %d was replayed, not job %d at %s", got[0].ID, want, e.when(at))
		}
	}
	if _, err := e.Replay(e.ctx, []int64{j.ID, other.ID}, []int64{later}, nil); err == nil {
		e.Error("one instant for two jobs was taken")
	}
}

func testReplayNewKey(e *env) {
	w := e.worker("w")
	n := job(body("b"))
	n.Options = store.Options{IdempotencyKey: "old", MaxAttempts: 7}
	id := e.insert(n)[0]
	e.cancel(id, store.Cancelled)
	errs, err := e.Replay(e.ctx, []int64{id}, nil, func() string { return "new" })
	e.must(err)
	e.must(errs[0])
	if j := e.take(w)[0]; j.Options.IdempotencyKey != "new" || j.Options.MaxAttempts != 7 || string(j.Payload) != "b" {
		e.Errorf("replayed as %+v", j)
	}
}

// Whoever replays a job that died in doubt wants the effect to happen.
func testReplayInDoubt(e *env) {
	w := e.worker("w")
	j, other := e.started(w), e.started(w)
	e.begin("sure", j, false, store.EffectNew)
	e.must(e.FinishEffect(e.ctx, "sure", j.ID, j.Token, nil))
	e.begin("charge", j, false, store.EffectNew)
	e.begin("theirs", other, false, store.EffectNew)
	for _, s := range []store.Claimed{j, other} {
		f := ending(s, store.OutcomeDead)
		f.Reason = store.InDoubt
		e.finish(f)
	}
	e.must(e.replay(j.ID)[0])
	again := e.take(w)[0]
	e.begin("sure", again, false, store.EffectDone)
	e.begin("charge", again, false, store.EffectNew)
	e.begin("theirs", again, false, store.EffectInDoubt)
}

func testReplayOnly(e *env) {
	w := e.worker("w")
	running := e.started(w).ID
	done := e.started(w)
	e.done(done)
	dead := e.killed(w).ID
	cancelled, waiting := e.one(), e.one()
	e.cancel(cancelled, store.Cancelled)
	errs := e.replay(waiting, running, done.ID, dead, cancelled, 99999)
	for i, refused := range []bool{true, true, true, false, false, true} {
		if (errs[i] != nil) != refused {
			e.Errorf("job %d of the list: %v", i, errs[i])
		}
	}
	if !errors.Is(errs[5], store.ErrNotFound) {
		e.Errorf("an unknown job: %v", errs[5])
	}
	e.wantState(running, store.Running)
	e.wantState(done.ID, store.Done)
	if got := e.take(w); len(got) != 3 {
		e.Errorf("claimed %v, expected the waiting one and the two replayed", idsOf(got))
	}
}

func testReplayUnique(e *env) {
	w := e.worker("w")
	dead := e.killed(w, unique("u"))
	holder := e.one(unique("u"))
	if errs := e.replay(dead.ID); !errors.Is(errs[0], store.ErrUniqueTaken) {
		e.Errorf("got %v", errs[0])
	}
	e.wantState(dead.ID, store.Dead)
	e.cancel(holder, store.Cancelled)
	if errs := e.replay(dead.ID, holder); errs[0] != nil || !errors.Is(errs[1], store.ErrUniqueTaken) {
		e.Errorf("two at once: %v", errs)
	}
}

func testReplayTwice(e *env) {
	w := e.worker("w")
	id := e.killed(w).ID
	_ = e.replay(id, id)
	_ = e.replay(id)
	e.wantIDs("replayed three times", e.take(w), id)
}

func testReplayExpired(e *env) {
	w := e.worker("w")
	id := e.one(expires(Epoch + 1_000_000))
	e.clock.Advance(time.Minute)
	e.wantIDs("after the expiry", e.take(w))
	e.must(e.replay(id)[0])
	e.wantIDs("replayed", e.take(w), id)
}

func testReplaySuspect(e *env) {
	id := e.one()
	for range 4 {
		e.worker("w")
		e.take("w")
		e.lose()
	}
	e.wantState(id, store.Dead)
	e.must(e.replay(id)[0])
	if j := e.get(id); j.Suspect || j.Losses != 0 {
		e.Errorf("replayed as %+v", j)
	}
	w := e.worker("w")
	e.wantIDs("replayed", e.take(w), id)
}

func testDiscard(e *env) {
	w := e.worker("w")
	dead := e.killed(w)
	done := e.started(w)
	e.done(done)
	waiting, running := e.one(prio(1)), e.started(w, prio(9))
	errs, err := e.Discard(e.ctx, []int64{dead.ID, waiting, done.ID, running.ID, 99999})
	e.must(err)
	for i, refused := range []bool{false, true, false, true, true} {
		if (errs[i] != nil) != refused {
			e.Errorf("job %d of the list: %v", i, errs[i])
		}
	}
	for _, id := range []int64{dead.ID, done.ID} {
		if _, err := e.Job(e.ctx, id); !errors.Is(err, store.ErrNotFound) {
			e.Errorf("job %d is still there: %v", id, err)
		}
		if evs, err := e.Events(e.ctx, id); err != nil || len(evs) != 0 {
			e.Errorf("job %d left events: %v, %v", id, evs, err)
		}
	}
	e.wantState(waiting, store.Waiting)
	e.wantState(running.ID, store.Running)
	if next := e.one(); next <= running.ID {
		e.Errorf("id %d was given again", next)
	}
}

func testDiscardRef(e *env) {
	w := e.worker("w")
	e.insert(job(ref("r", "a", "h", 1)))
	j := e.take(w)[0]
	e.done(j)
	errs, err := e.Discard(e.ctx, []int64{j.ID})
	e.must(err)
	e.must(errs[0])
	e.insert(job(ref("r", "a", "h2", 1)))
}

// pruned is a done, a cancelled and a dead call of a run, removed.
func pruned(e *env, prune func(context.Context, []store.State, int64, int) (int, error)) (ids []int64) {
	w := e.worker("w")
	ids = append(ids, e.insert(job(ref("r", "done", "h", 1)))...)
	e.done(e.take(w)...)
	ids = append(ids, e.insert(job(ref("r", "cancelled", "h", 2)))...)
	e.cancel(ids[1], store.Cancelled)
	ids = append(ids, e.killed(w, ref("r", "dead", "h", 3)).ID)
	n, err := prune(e.ctx, []store.State{store.Done, store.Cancelled, store.Dead}, e.clock.Now()+1, 10)
	e.must(err)
	if n != 3 {
		e.Fatalf("pruned %d, expected 3", n)
	}
	return ids
}

// What ran once does not run again since its job was pruned.
func testPruneKeepsCalls(e *env) {
	ids := pruned(e, e.Prune)
	out, err := e.Insert(e.ctx, []store.NewJob{job(ref("r", "done", "h", 1)), job(ref("r", "cancelled", "h", 2)), job(ref("r", "dead", "h", 3)),
		job(ref("r", "done", "other", 9)), job(ref("r2", "done", "h", 1))})
	e.must(err)
	want := []store.Inserted{{ID: ids[0], Verdict: store.Duplicate, Line: 1}, {ID: ids[1], Verdict: store.Duplicate, Line: 2},
		{ID: ids[2], Verdict: store.Duplicate, Line: 3}, {ID: ids[0], Verdict: store.Conflict, Line: 1}, {ID: out[4].ID, State: store.Waiting, Verdict: store.Created}}
	if !slices.Equal(out, want) {
		e.Errorf("inserted again: %+v, expected %+v", out, want)
	}
	calls, err := e.CallIDs(e.ctx, "r", []string{"done", "dead", "none"})
	if e.must(err); len(calls) != 2 || calls["done"] != ids[0] || calls["dead"] != ids[2] {
		e.Errorf("the calls are %v", calls)
	}
	if counts, err := e.CountRun(e.ctx, "r"); err != nil || len(counts) != 0 {
		e.Errorf("the run counts %v, %v", counts, err)
	}
	if jobs, err := e.Jobs(e.ctx, store.Filter{Run: "r", Refs: []string{"done", "dead"}}); err != nil || len(jobs) != 0 {
		e.Errorf("found %v, %v", jobs, err)
	}
	e.tidy()
	e.wantIDs("the other run's", e.take("w"), out[4].ID)
}

func testPruneCalls(e *env) {
	_ = pruned(e, e.PruneCalls)
	if calls, err := e.CallIDs(e.ctx, "r", []string{"done", "cancelled", "dead"}); err != nil || len(calls) != 0 {
		e.Errorf("the calls are %v, %v", calls, err)
	}
	e.insert(job(ref("r", "done", "h2", 1)), job(ref("r", "cancelled", "h", 2)), job(ref("r", "dead", "h", 3)))
	if got := e.take("w"); len(got) != 3 {
		e.Errorf("%d of 3 new calls were claimed", len(got))
	}
}

func testPrune(e *env) {
	w := e.worker("w")
	e.insert(times(5)...)
	old := e.take(w)
	e.done(old...)
	dead := e.killed(w)
	cancelled := e.one()
	e.cancel(cancelled, store.Cancelled)
	cut := e.clock.Now() + 1
	e.clock.Advance(time.Hour)
	young := e.started(w)
	e.done(young)
	waiting := e.one()
	prunable := []store.State{store.Done, store.Cancelled}
	if n, err := e.Prune(e.ctx, prunable, cut, 4); err != nil || n != 4 {
		e.Errorf("pruned %d, %v; expected 4", n, err)
	}
	if n, err := e.Prune(e.ctx, prunable, cut, 100); err != nil || n != 2 {
		e.Errorf("then pruned %d, %v; expected 2", n, err)
	}
	if n, err := e.Prune(e.ctx, prunable, cut, 100); err != nil || n != 0 {
		e.Errorf("then pruned %d, %v; expected none", n, err)
	}
	e.wantState(dead.ID, store.Dead)
	e.wantState(young.ID, store.Done)
	e.wantState(waiting, store.Waiting)
}
