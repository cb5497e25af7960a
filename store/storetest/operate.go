package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

var operateTests = []test{
	{"Operate/Lines", testLines},
	{"Operate/Flow", testFlow},
	{"Operate/Unserved", testUnserved},
	{"Operate/SweepFindsAreKept", testSweepFindsKept},
	{"Operate/Newest", testNewest},
	{"Operate/Notes", testNotes},
	{"Operate/NotesAreBounded", testNotesBounded},
	{"Operate/PruneOfStates", testPruneStates},
	{"Operate/PaceGoesOnBehind", testPace},
	{"Operate/JobsEffectGoesWithIt", testJobEffectGoes},
	{"Operate/DeadWorkersAreToldApart", testDeadWorkers},
	{"Operate/PausesAndLeasesSayWhen", testSinceWhen},
}

func testLines(e *env) {
	e.limit("api", "2 in flight")
	e.limit("other", "2 in flight")
	e.insert(times(5, draw("api", 1))...)
	e.insert(times(3, draw("other", 1), draw("api", 1), group("g"))...)
	e.insert(times(4, draw("api", 1), at(Epoch+9_000_000))...)
	e.insert(times(2)...)
	e.insert(times(2, draw("api", 1), staged("load"))...)
	got, err := e.Lines(e.ctx)
	e.must(err)
	if got["api"] != 5 || got["other"] != 3 || len(got) != 2 {
		e.Errorf("in line at first: %v", got)
	}
	w := e.worker("w")
	taken := e.take(w)
	if got, err = e.Lines(e.ctx); err != nil || got["api"]+got["other"] != 6 || got["other"] != 0 {
		e.Errorf("the limits are full, and in line are %v (%v)", got, err)
	}
	e.done(taken...)
	e.must(e.Release(e.ctx, "load"))
}

func testFlow(e *env) {
	w := e.worker("w")
	e.done(e.started(w, queue("a")))
	e.clock.Advance(time.Hour)
	e.must(e.Register(e.ctx, store.Worker{ID: w, Kinds: []string{"k"}, Lease: lease}))
	since := e.clock.Now()
	e.done(e.started(w, queue("a")))
	e.clock.Advance(time.Second)
	e.killed(w, queue("a"))
	e.done(e.started(w, queue("b")))
	e.cancel(e.one(queue("b")), store.Cancelled)
	got, err := e.Flow(e.ctx, since)
	e.must(err)
	if want := (store.Flow{Ended: 2, First: since}); got["a"] != want {
		e.Errorf("queue a: %+v, expected %+v", got["a"], want)
	}
	if want := (store.Flow{Ended: 1, First: since + 1_000_000}); got["b"] != want || len(got) != 2 {
		e.Errorf("queues: %+v, expected of b %+v", got, want)
	}
}

func testUnserved(e *env) {
	want := func(what string, want ...store.Unserved) {
		e.Helper()
		got, err := e.Unserved(e.ctx)
		e.must(err)
		if !slices.Equal(got, want) {
			e.Errorf("%s: %+v, expected %+v", what, got, want)
		}
	}
	want("an empty store")
	e.insert(times(2)...)
	e.one(kind("k2"), run("r"))
	e.one(at(Epoch + 1e12))
	want("nobody there", store.Unserved{Queue: "q", Kind: "k", Due: 2}, store.Unserved{Queue: "q", Kind: "k2", Run: "r", Due: 1})
	w := e.worker("w")
	want("one who runs k", store.Unserved{Queue: "q", Kind: "k2", Run: "r", Due: 1})
	e.must(e.Register(e.ctx, store.Worker{ID: "other", Kinds: []string{"k2"}, Run: "s", Lease: lease}))
	want("one for another run", store.Unserved{Queue: "q", Kind: "k2", Run: "r", Due: 1})
	e.must(e.Register(e.ctx, store.Worker{ID: "right", Kinds: []string{"k2"}, Run: "r", Lease: lease}))
	want("all are there")
	e.must(e.Deregister(e.ctx, w))
	e.clock.Advance(time.Hour)
	want("all are dead", store.Unserved{Queue: "q", Kind: "k", Due: 2}, store.Unserved{Queue: "q", Kind: "k2", Run: "r", Due: 1})
}

// lostWakes is a store that forgets to wake lanes: what a sweep is for.
type lostWakes struct{ engine.Tx }

func (t lostWakes) SaveLane(l engine.Lane) error {
	if l.State == engine.LaneReady {
		return nil
	}
	return t.Tx.SaveLane(l)
}

func (lostWakes) AddWake(engine.Wake) error { return nil }

func testSweepFindsKept(e *env) {
	w := e.worker("w")
	for want := range int64(3) {
		c, err := e.Checkup(e.ctx)
		e.must(err)
		if c.SweepFinds != want || want > 0 && c.LastFind != e.clock.Now() {
			e.Errorf("%+v, expected %d finds", c, want)
		}
		e.clock.Advance(time.Second)
		e.hooks.Tx = func(tx engine.Tx) engine.Tx { return lostWakes{tx} }
		id := e.one()
		e.hooks.Tx = nil
		e.wantIDs("a lane whose wake was lost", e.take(w))
		if n, err := e.Sweep(e.ctx); err != nil || n != 1 {
			e.Fatalf("the sweep found %d, %v; expected 1", n, err)
		}
		jobs := e.take(w)
		e.wantIDs("after the sweep", jobs, id)
		e.done(jobs...)
	}
}

func testNewest(e *env) {
	newest := func(want int64) {
		e.Helper()
		if c, err := e.Checkup(e.ctx); err != nil || c.Newest != want || c.Now != e.clock.Now() {
			e.Errorf("%+v, %v; expected the newest to be %d", c, err, want)
		}
	}
	newest(0)
	w := e.worker("w")
	j := e.started(w)
	newest(Epoch)
	e.clock.Advance(time.Second)
	e.done(j)
	newest(Epoch + 1_000_000)
	e.clock.Advance(time.Second)
	e.one()
	newest(Epoch + 2_000_000)
}

func testNotes(e *env) {
	want := func(subject string, want ...string) {
		e.Helper()
		got, err := e.Notes(e.ctx, subject, 10)
		e.must(err)
		var texts []string
		for _, n := range got {
			texts = append(texts, n.Subject+": "+n.Text)
			if n.At != e.clock.Now() {
				e.Errorf("note %q is of %d", n.Text, n.At)
			}
		}
		if !slices.Equal(texts, want) {
			e.Errorf("notes on %q:\n%s\nexpected\n%s", subject, strings.Join(texts, "\n"), strings.Join(want, "\n"))
		}
	}
	e.limit("api", "5/s")
	e.limit("api", "5/s")
	want("") // a first declaration, and one that changes nothing, are no news
	e.limit("api", "6/s")
	e.must(e.SetLimit(e.ctx, "api", parse(e.T, "1/s")))
	e.must(e.SetLimit(e.ctx, "api", parse(e.T, "1/s")))
	e.must(e.SetLimit(e.ctx, "api", parse(e.T, "2/s")))
	e.must(e.ResetLimit(e.ctx, "api"))
	e.must(e.ResetLimit(e.ctx, "api"))
	e.must(e.PauseLimit(e.ctx, "api", Epoch+60_000_000, "deploy"))
	e.must(e.ResumeLimit(e.ctx, "api"))
	e.must(e.ResumeLimit(e.ctx, "api"))
	e.must(e.ResumeQueue(e.ctx, "q"))
	e.must(e.PauseQueue(e.ctx, "q", "repairs"))
	e.must(e.ResumeQueue(e.ctx, "q"))
	want("limit api", "limit api: resumed", "limit api: paused until 2026-01-15T12:01:00Z: deploy",
		"limit api: reset from 2/s to what is declared, 6/s", "limit api: set to 2/s, was set to 1/s", "limit api: set to 1/s, declared is 6/s",
		"limit api: declared as 6/s, was 5/s")
	want("queue q", "queue q: resumed", "queue q: paused: repairs")
	if all, err := e.Notes(e.ctx, "", 3); err != nil || len(all) != 3 || all[0].ID <= all[1].ID {
		e.Errorf("the newest three: %+v, %v", all, err)
	}
}

func testNotesBounded(e *env) {
	for i := range 1100 {
		e.must(e.PauseQueue(e.ctx, "q", fmt.Sprint(i)))
	}
	e.must(e.ResumeQueue(e.ctx, "q"))
	all, err := e.Notes(e.ctx, "", 5000)
	e.must(err)
	if len(all) != 1000 || all[0].Text != "resumed" {
		e.Errorf("%d notes, the newest is %+v", len(all), all[0])
	}
}

// Who takes a line goes on behind those before, and behind nobody whose time is over.
func testPace(e *env) {
	take := func(length int64, lines ...string) (from []int64) {
		e.Helper()
		e.must(e.Pace(e.ctx, lines, func(now int64, taken []int64) {
			from = nil
			if now != e.clock.Now() {
				e.Errorf("it is %s, not %s", e.when(e.clock.Now()), e.when(now))
			}
			for i := range taken {
				from = append(from, taken[i]-now)
				taken[i] += length
			}
		}))
		return from
	}
	for i, step := range []struct {
		length int64
		lines  []string
		from   []int64
	}{
		{10_000_000, []string{"a"}, []int64{0}},
		{5_000_000, []string{"b", "a"}, []int64{0, 10_000_000}},
		{0, []string{"a", "b", "it's \" c"}, []int64{15_000_000, 5_000_000, 0}},
	} {
		if got := take(step.length, step.lines...); !slices.Equal(got, step.from) {
			e.Errorf("step %d: %q are taken for %v, expected %v", i, step.lines, got, step.from)
		}
	}
	e.clock.Advance(6 * time.Second)
	e.tidy()
	if got := take(1, "a", "b"); !slices.Equal(got, []int64{9_000_000, 0}) {
		e.Errorf("later: taken for %v", got)
	}
}

func testPruneStates(e *env) {
	w := e.worker("w")
	j := e.started(w)
	e.done(j)
	dead := e.killed(w)
	later := e.clock.Now() + 1
	if _, err := e.Prune(e.ctx, []store.State{store.Waiting}, later, 10); err == nil {
		e.Error("waiting jobs were pruned")
	}
	if n, err := e.Prune(e.ctx, nil, later, 10); err != nil || n != 0 {
		e.Errorf("of no state: %d, %v", n, err)
	}
	if n, err := e.Prune(e.ctx, []store.State{store.Dead}, later, 10); err != nil || n != 1 {
		e.Errorf("dead: %d, %v", n, err)
	}
	e.wantState(j.ID, store.Done)
	if _, err := e.Job(e.ctx, dead.ID); err == nil {
		e.Error("the dead job is still there")
	}
}

func testJobEffectGoes(e *env) {
	w := e.worker("w")
	begin := func(key string) store.EffectState {
		e.Helper()
		j := e.started(w)
		got, err := e.BeginEffect(e.ctx, key, j.ID, j.Token, true)
		e.must(err)
		if got.State == store.EffectNew {
			e.must(e.FinishEffect(e.ctx, key, j.ID, j.Token, nil))
		}
		e.done(j)
		return got.State
	}
	jobs, err := e.Jobs(e.ctx, store.Filter{})
	e.must(err)
	if len(jobs) > 0 {
		e.Fatal("the store is not empty")
	}
	own := store.JobEffect(1) // the first job's
	for _, key := range []string{own, "charge/17"} {
		if got := begin(key); got != store.EffectNew {
			e.Errorf("%s at first: %v", key, got)
		}
		if got := begin(key); got != store.EffectDone {
			e.Errorf("%s again: %v", key, got)
		}
	}
	_, err = e.Prune(e.ctx, []store.State{store.Done}, e.clock.Now()+1, 100)
	e.must(err)
	if got := begin(own); got != store.EffectNew {
		e.Errorf("%s outlives its job: %v", own, got)
	}
	if got := begin("charge/17"); got != store.EffectDone {
		e.Errorf("an effect that is no job's own went with it: %v", got)
	}
}

func testDeadWorkers(e *env) {
	e.noDrain = true
	e.worker("w")
	dead := func() bool {
		ws, err := e.Workers(e.ctx)
		e.must(err)
		return ws[0].Dead
	}
	if dead() {
		e.Error("one that just came is dead")
	}
	e.clock.Advance(2 * lease)
	if !dead() {
		e.Error("one that was silent for two leases lives")
	}
	_, err := e.Heartbeat(e.ctx, "w")
	e.must(err)
	if dead() {
		e.Error("one that was heard again is dead")
	}
}

func testSinceWhen(e *env) {
	e.limit("api", "5/s")
	e.clock.Advance(time.Second)
	now := e.clock.Now()
	e.must(e.PauseQueue(e.ctx, "other", ""))
	w := e.worker("w")
	j := e.started(w, draw("api", 1))
	f := ending(j, store.OutcomeThrottled)
	f.Observations = []store.Observed{{Limit: "api", Observation: refusal(now, time.Minute)}}
	if got := e.get(j.ID).LeasedAt; got != now || j.LeasedAt != now {
		e.Errorf("leased at %d and %d, expected %d", got, j.LeasedAt, now)
	}
	e.finish(f)
	if got := e.get(j.ID).LeasedAt; got != 0 {
		e.Errorf("a waiting job is leased since %d", got)
	}
	if q := e.queue("other"); q.PausedAt != now {
		e.Errorf("queue paused since %d, expected %d", q.PausedAt, now)
	}
	if c, ok := e.state("api").Cause(); !ok || c.Job != j.ID || c.At != now {
		e.Errorf("the pause was caused by %+v, expected job %d", c, j.ID)
	}
}
