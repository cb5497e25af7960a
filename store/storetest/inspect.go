package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/penstockhq/penstock/store"
)

var inspectTests = []test{
	{"Inspect/Filters", testInspectFilters},
	{"Inspect/Pages", testInspectPages},
	{"Inspect/BodiesOnlyIfAsked", testInspectBodies},
	{"Inspect/Unknown", testInspectUnknown},
	{"Inspect/CountRun", testInspectCountRun},
	{"Store/NowAndPing", testStoreNow},
	{"Store/WatchTellsOfWork", testStoreWatch},
	{"Store/WatchEndsWithItsContext", testStoreWatchEnds},
	{"Store/CancelledContext", testStoreContext},
	{"Store/Closed", testStoreClosed},
}

func testInspectFilters(e *env) {
	e.limit("api", "100/s burst 100")
	e.limit("api/*", "100/s burst 100")
	w := e.worker("w")
	dead := e.killed(w, queue("a"), run("r1"))
	e.clock.Advance(time.Minute)
	ids := e.insert(
		job(queue("a"), draw("api", 1)), job(queue("b"), kind("k2")),
		job(ref("r1", "x", "h", 1), queue("b"), draw("api/x", 1)), job(ref("r1", "y", "h", 2), queue("b"), at(Epoch+1e12)))
	running := e.claim(w, queues("a")).Jobs
	e.wantIDs("queue a", running, ids[0])
	for what, c := range map[string]struct {
		f    store.Filter
		want []int64
	}{
		"everything":       {store.Filter{}, append([]int64{dead.ID}, ids...)},
		"ids":              {store.Filter{IDs: []int64{ids[1], dead.ID, 999}}, []int64{dead.ID, ids[1]}},
		"waiting":          {store.Filter{States: []store.State{store.Waiting}}, ids[1:]},
		"dead and running": {store.Filter{States: []store.State{store.Dead, store.Running}}, []int64{dead.ID, ids[0]}},
		"queue":            {store.Filter{Queue: "a"}, []int64{dead.ID, ids[0]}},
		"kind":             {store.Filter{Kind: "k2"}, ids[1:2]},
		"limit":            {store.Filter{Limit: "api"}, ids[:1]},
		"key of a limit":   {store.Filter{Limit: "api/x"}, ids[2:3]},
		"keys of a limit":  {store.Filter{Limit: "api/*"}, ids[2:3]},
		"run":              {store.Filter{Run: "r1"}, []int64{dead.ID, ids[2], ids[3]}},
		"refs":             {store.Filter{Run: "r1", Refs: []string{"y", "x", "z"}}, ids[2:]},
		"reason":           {store.Filter{Reason: store.Exhausted}, []int64{dead.ID}},
		"text":             {store.Filter{Text: "econ"}, []int64{dead.ID}},
		"text not there":   {store.Filter{Text: "100%"}, nil},
		"before":           {store.Filter{Before: Epoch + 1}, []int64{dead.ID}},
		"after":            {store.Filter{After: Epoch + 60_000_000}, ids},
		"behind an id":     {store.Filter{AfterID: ids[1]}, ids[2:]},
		"above an id":      {store.Filter{BeforeID: ids[1]}, []int64{dead.ID, ids[0]}},
		"between ids":      {store.Filter{AfterID: dead.ID, BeforeID: ids[2]}, ids[:2]},
		"newest first":     {store.Filter{Newest: true}, []int64{ids[3], ids[2], ids[1], ids[0], dead.ID}},
		"newest two":       {store.Filter{Newest: true, N: 2}, []int64{ids[3], ids[2]}},
		"next newest two":  {store.Filter{Newest: true, N: 2, BeforeID: ids[2]}, []int64{ids[1], ids[0]}},
		"newest of one":    {store.Filter{Newest: true, States: []store.State{store.Waiting}, Run: "r1", N: 1}, ids[3:]},
		"newest ended":     {store.Filter{Newest: true, States: []store.State{store.Dead, store.Running}}, []int64{ids[0], dead.ID}},
		"two":              {store.Filter{N: 2}, []int64{dead.ID, ids[0]}},
		"several":          {store.Filter{Run: "r1", States: []store.State{store.Waiting}, Queue: "b"}, ids[2:]},
	} {
		jobs, err := e.Jobs(e.ctx, c.f)
		e.must(err)
		var got []int64
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, c.want) {
			e.Errorf("%s: got %v, expected %v", what, got, c.want)
		}
	}
}

func testInspectPages(e *env) {
	ids := e.insert(times(250)...)
	first, err := e.Jobs(e.ctx, store.Filter{})
	e.must(err)
	if len(first) != 100 {
		e.Errorf("%d jobs without a bound, expected 100", len(first))
	}
	w := e.worker("w")
	e.done(e.claim(w, places(60)).Jobs...) // hot and ended ones lie side by side
	var got []int64
	for _, j := range all(e.T, e.Store, store.Filter{}) {
		got = append(got, j.ID)
	}
	if !slices.Equal(got, ids) {
		e.Errorf("paging gave %d jobs, expected 250 in order", len(got))
	}
	got = nil
	for f := (store.Filter{Newest: true, N: 33}); ; f.BeforeID = got[len(got)-1] {
		page, err := e.Jobs(e.ctx, f)
		e.must(err)
		for _, j := range page {
			got = append(got, j.ID)
		}
		if len(page) < f.N {
			break
		}
	}
	if slices.Reverse(got); !slices.Equal(got, ids) {
		e.Errorf("paging from the newest gave %d jobs, expected 250 in order", len(got))
	}
}

func testInspectBodies(e *env) {
	j := e.started(e.worker("w"), body("payload"))
	f := ending(j, store.OutcomeDone)
	f.Result = []byte("result")
	e.finish(f)
	for _, bodies := range []bool{false, true} {
		jobs, err := e.Jobs(e.ctx, store.Filter{Bodies: bodies})
		e.must(err)
		if has := len(jobs[0].Payload) > 0 && len(jobs[0].Result) > 0; has != bodies {
			e.Errorf("bodies asked for: %v, got %q and %q", bodies, jobs[0].Payload, jobs[0].Result)
		}
	}
}

func testInspectUnknown(e *env) {
	if _, err := e.Job(e.ctx, 4711); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("got %v", err)
	}
	if evs, err := e.Events(e.ctx, 4711); err != nil && !errors.Is(err, store.ErrNotFound) || len(evs) != 0 {
		e.Errorf("events: %v, %v", evs, err)
	}
}

func testInspectCountRun(e *env) {
	w := e.worker("w")
	e.insert(times(5, run("r"))...)
	e.insert(times(3, run("other"))...)
	jobs := e.take(w, places(2), func(r *store.ClaimRequest) { r.Run = "r" })
	e.done(jobs[:4]...)
	n, err := e.CountRun(e.ctx, "r")
	e.must(err)
	if n[store.Done] != 4 || n[store.Running] != 1 || n[store.Waiting] != 0 {
		e.Errorf("run r: %v", n)
	}
	if n, err := e.CountRun(e.ctx, "none"); err != nil || n[store.Waiting]+n[store.Done] != 0 {
		e.Errorf("an unknown run: %v, %v", n, err)
	}
}

func testStoreNow(e *env) {
	e.clock.Advance(time.Hour)
	if now, err := e.Now(e.ctx); err != nil || now != e.clock.Now() {
		e.Errorf("Now: %d, %v; expected %d", now, err, e.clock.Now())
	}
	e.must(e.Ping(e.ctx))
}

// signalled waits for a value of the watch; a missed one fails by the deadline.
func (e *env) signalled(ch <-chan struct{}, what string) {
	e.Helper()
	select {
	case <-ch:
	case <-time.After(10 * time.Second):
		e.Errorf("%s woke nobody", what)
	}
}

// settled takes values of the watch until a marker of our own has come back.
func drainWatch(ch <-chan struct{}) {
	for {
		select {
		case <-ch:
		default:
			return
		}
	}
}

func testStoreWatch(e *env) {
	e.limit("api", "1 in flight")
	w := e.worker("w")
	ch := e.Watch(e.ctx)
	for _, c := range []struct {
		what string
		do   func()
	}{
		{"an insert", func() { e.insert(times(2, draw("api", 1))...) }},
		{"an end that frees a place", func() { e.done(e.take(w)...) }},
		{"a pause of a queue lifted", func() { e.must(e.PauseQueue(e.ctx, "q", "")); e.must(e.ResumeQueue(e.ctx, "q")) }},
		{"a limit set", func() { e.must(e.SetLimit(e.ctx, "api", parse(e.T, "5 in flight"))) }},
		{"a release", func() { e.insert(job(staged("l"))); drainWatch(ch); e.must(e.Release(e.ctx, "l")) }},
	} {
		drainWatch(ch)
		c.do()
		e.signalled(ch, c.what)
	}
}

func testStoreWatchEnds(e *env) {
	ctx, stop := context.WithCancel(e.ctx)
	for range 100 {
		e.Watch(ctx)
	}
	e.one()
	stop()
	e.one()
}

func testStoreContext(e *env) {
	ctx, stop := context.WithCancel(e.ctx)
	stop()
	if _, err := e.Insert(ctx, times(1)); !errors.Is(err, context.Canceled) {
		e.Errorf("an insert under a cancelled context: %v", err)
	}
	if jobs := all(e.T, e.Store, store.Filter{}); len(jobs) != 0 {
		e.Errorf("%d jobs were written", len(jobs))
	}
}

func testStoreClosed(e *env) {
	e.noAudit = true
	e.must(e.Close())
	if _, err := e.Insert(e.ctx, times(1)); !errors.Is(err, store.ErrClosed) {
		e.Errorf("an insert: %v", err)
	}
	if _, err := e.Job(e.ctx, 1); !errors.Is(err, store.ErrClosed) {
		e.Errorf("a look: %v", err)
	}
	e.must(e.Close())
}
