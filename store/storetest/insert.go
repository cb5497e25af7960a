package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var insertTests = []test{
	{"Insert/RoundTrip", testInsertRoundTrip},
	{"Insert/PastMeansNow", testInsertPastMeansNow},
	{"Insert/Nothing", testInsertNothing},
	{"Insert/AllOrNothing", testInsertAllOrNothing},
	{"Insert/UnknownLimit", testInsertUnknownLimit},
	{"Insert/ImpossibleCost", testInsertImpossibleCost},
	{"Insert/BadJobs", testInsertBadJobs},
	{"Insert/Unique", testInsertUnique},
	{"Insert/UniqueWithinOneCall", testInsertUniqueWithinOneCall},
	{"Insert/ReplaceWaiting", testInsertReplaceWaiting},
	{"Insert/ReplaceRunning", testInsertReplaceRunning},
	{"Insert/Ref", testInsertRef},
	{"Insert/RefWithinOneCall", testInsertRefWithinOneCall},
}

func testInsertRoundTrip(e *env) {
	e.limit("api", "10/s")
	e.limit("tokens/*", "1000/m")
	n := job(queue("mail"), kind("k"), prio(7), group("shop-1"), draw("api", 2), draw("tokens/shop-1", 800),
		at(Epoch+5_000_000), expires(Epoch+9_000_000), unique("u"), ref("nightly", "line-1", "h", 1), body("hello"))
	n.Options = store.Options{MaxAttempts: 3, Timeout: 7, ThrottleBudget: 9, IdempotencyKey: "key", AtMostOnce: true}
	id := e.insert(n)[0]
	j := e.get(id)
	switch {
	case j.Queue != "mail" || j.Kind != "k" || j.Priority != 7 || j.Group != "shop-1" || j.Run != "nightly" || j.Suspect:
		e.Errorf("the lane's parts came back as %+v", j.LaneKey)
	case !slices.Equal(j.Draws, n.Draws):
		e.Errorf("draws came back as %v", j.Draws)
	case j.At != n.At || j.ExpiresAt != n.ExpiresAt || j.EnqueuedAt != Epoch:
		e.Errorf("times came back as %d, %d, %d", j.At, j.ExpiresAt, j.EnqueuedAt)
	case j.Options != n.Options || j.Unique != "u" || j.Ref != "line-1" || string(j.Payload) != "hello":
		e.Errorf("came back as %+v", j)
	case j.State != store.Waiting || j.Attempts+j.Starts+j.Throttles+j.Losses != 0:
		e.Errorf("a new job is %v with counts %+v", j.State, j)
	}
}

func testInsertPastMeansNow(e *env) {
	for _, when := range []int64{0, 1, Epoch - 1} {
		if j := e.get(e.one(at(when))); j.At != Epoch {
			e.Errorf("a job due at %d is due at %s, expected now", when, e.when(j.At))
		}
	}
}

func testInsertNothing(e *env) {
	if got, err := e.Insert(e.ctx, nil); err != nil || len(got) != 0 {
		e.Errorf("got %v, %v", got, err)
	}
}

// refused inserts jobs of which the one at index must be refused, and checks
// that none was written.
func (e *env) refused(index int, jobs ...store.NewJob) error {
	e.Helper()
	before := len(all(e.T, e.Store, store.Filter{}))
	_, err := e.Insert(e.ctx, jobs)
	var ie *store.InsertError
	if !errors.As(err, &ie) || ie.Index != index {
		e.Errorf("got %v, expected an InsertError for job %d", err, index)
		return errors.New("none")
	}
	if n := len(all(e.T, e.Store, store.Filter{})) - before; n != 0 {
		e.Errorf("%d jobs of a refused call were written", n)
	}
	return ie.Err
}

func testInsertAllOrNothing(e *env) {
	jobs := times(100)
	jobs[57] = job(draw("nope", 1))
	jobs[3].Unique, jobs[4].Run, jobs[4].Ref = "u", "r", "1"
	_ = e.refused(57, jobs...)
	e.one(unique("u"))
	e.insert(job(ref("r", "1", "h", 1)))
	if got := e.take(e.worker("w")); len(got) != 2 {
		e.Errorf("%d jobs were claimed, only the two inserted later exist", len(got))
	}
}

func testInsertUnknownLimit(e *env) {
	e.limit("stripe", "10/s")
	e.limit("github", "10/s")
	var unknown *store.UnknownLimitError
	if err := e.refused(1, job(), job(draw("strpe", 1))); !errors.As(err, &unknown) {
		e.Fatalf("got %v", err)
	}
	if unknown.Name != "strpe" || len(unknown.Nearest) == 0 || unknown.Nearest[0] != "stripe" {
		e.Errorf("got %q with nearest %q, expected stripe", unknown.Name, unknown.Nearest)
	}
	if err := e.refused(0, job(draw("stripe/shop-1", 1))); !errors.As(err, &unknown) {
		e.Errorf("a key without a pattern: got %v", err)
	}
}

func testInsertImpossibleCost(e *env) {
	e.limit("api", "10/s")
	e.limit("shop/*", "5/s")
	for _, n := range []store.NewJob{job(draw("api", 11)), job(draw("api", 0)), job(draw("api", -1)), job(draw("shop/a", 6))} {
		var cost *limit.CostError
		if err := e.refused(0, n); !errors.As(err, &cost) {
			e.Errorf("draws %v: got %v, expected a CostError", n.Draws, err)
		}
	}
	e.one(draw("api", 10))
	e.one(draw("shop/a", 5))
}

func testInsertBadJobs(e *env) {
	e.limit("api", "10/s")
	long := string(make([]byte, 5000))
	for what, n := range map[string]store.NewJob{
		"no kind":              job(kind("")),
		"no queue":             job(queue("")),
		"priority 0":           job(prio(0)),
		"priority 10":          job(prio(10)),
		"a NUL in a name":      job(queue("a\x00b")),
		"invalid UTF-8":        job(group("a\xff")),
		"an endless name":      job(queue(long)),
		"a negative time":      job(at(-1)),
		"a time beyond 9999":   job(at(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())),
		"an expiry at the end": job(expires(limit.Never)),
		"a pattern as limit":   job(draw("api/*", 1)),
		"a limit named twice":  job(draw("api", 1), draw("api", 1)),
		"a ref without a run":  job(ref("", "1", "h", 1)),
	} {
		e.Run(what, func(t *testing.T) {
			sub := *e
			sub.T = t
			_ = sub.refused(1, job(), n)
		})
	}
}

func testInsertUnique(e *env) {
	w := e.worker("w")
	id := e.one(unique("u"), body("first"))
	again := func() store.Inserted {
		e.Helper()
		got, err := e.Insert(e.ctx, []store.NewJob{job(unique("u"), body("second"), queue("other"))})
		e.must(err)
		return got[0]
	}
	if got := again(); got.Verdict != store.Duplicate || got.ID != id || got.State != store.Waiting {
		e.Errorf("while it waits: %+v", got)
	}
	j := e.claim(w).Jobs[0]
	if got := again(); got.Verdict != store.Duplicate || got.ID != id || got.State != store.Running {
		e.Errorf("while it runs: %+v", got)
	}
	f := ending(j, store.OutcomeRetry)
	f.At = e.clock.Now() + 1_000_000
	e.finish(f)
	if got := again(); got.Verdict != store.Duplicate {
		e.Errorf("while it waits for its retry: %+v", got)
	}
	e.clock.Advance(time.Second)
	e.done(e.claim(w).Jobs...)
	if got := again(); got.Verdict != store.Created || got.ID == id {
		e.Errorf("after it is done: %+v", got)
	}
	if p := string(e.get(id).Payload); p != "first" {
		e.Errorf("a duplicate changed the payload to %q", p)
	}
}

func testInsertUniqueWithinOneCall(e *env) {
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("u"), body("a")), job(), job(unique("u"), body("b")), job(unique("v"))})
	e.must(err)
	if got[0].Verdict != store.Created || got[2].Verdict != store.Duplicate || got[2].ID != got[0].ID || got[3].Verdict != store.Created {
		e.Errorf("got %+v", got)
	}
}

func testInsertReplaceWaiting(e *env) {
	id := e.one(unique("u"), body("one"))
	n := job(unique("u"), body("two"), replace)
	n.Options.MaxAttempts = 9
	got, err := e.Insert(e.ctx, []store.NewJob{n, job(unique("u"), body("three"), replace)})
	e.must(err)
	for i := range got {
		if got[i].Verdict != store.Replaced || got[i].ID != id {
			e.Errorf("replacement %d: %+v", i, got[i])
		}
	}
	jobs := e.take(e.worker("w"))
	if len(jobs) != 1 || string(jobs[0].Payload) != "three" {
		e.Errorf("claimed %v, expected one job with the last payload", jobs)
	}
	e.done(jobs...)
}

func testInsertReplaceRunning(e *env) {
	w := e.worker("w")
	first := e.one(unique("u"), body("one"))
	j := e.claim(w).Jobs[0]
	got, err := e.Insert(e.ctx, []store.NewJob{job(unique("u"), body("two"), replace)})
	e.must(err)
	next := got[0].ID
	if got[0].Verdict != store.Created || next == first {
		e.Fatalf("got %+v, expected a successor", got[0])
	}
	got, err = e.Insert(e.ctx, []store.NewJob{job(unique("u"), body("three"), replace)})
	e.must(err)
	if got[0].Verdict != store.Replaced || got[0].ID != next {
		e.Errorf("a second update: got %+v, expected the successor to be replaced", got[0])
	}
	if early := e.take(w); len(early) != 0 {
		e.Fatalf("the successor ran beside its predecessor: %v", idsOf(early))
	}
	e.done(j)
	jobs := e.take(w)
	if len(jobs) != 1 || jobs[0].ID != next || string(jobs[0].Payload) != "three" {
		e.Fatalf("after the end: claimed %+v, expected job %d with the last payload", jobs, next)
	}
	e.done(jobs...)
	e.one(unique("u"))
}

func testInsertRef(e *env) {
	w := e.worker("w")
	id := e.insert(job(ref("r", "a", "h1", 7)))[0]
	check := func(hash string, want store.Verdict, state store.State) {
		e.Helper()
		got, err := e.Insert(e.ctx, []store.NewJob{job(ref("r", "a", hash, 9))})
		e.must(err)
		if g := got[0]; g.Verdict != want || g.ID != id || g.Line != 7 || g.State != state {
			e.Errorf("hash %s: got %+v, expected verdict %d of job %d at line 7, %v", hash, g, want, id, state)
		}
	}
	check("h1", store.Duplicate, store.Waiting)
	check("h2", store.Conflict, store.Waiting)
	e.done(e.claim(w).Jobs...)
	check("h1", store.Duplicate, store.Done) // for ever, other than a unique key
	check("h2", store.Conflict, store.Done)
	e.insert(job(ref("other", "a", "h2", 1)))
}

func testInsertRefWithinOneCall(e *env) {
	got, err := e.Insert(e.ctx, []store.NewJob{
		job(ref("r", "a", "h1", 1)), job(ref("r", "b", "h1", 2)), job(ref("r", "a", "h1", 3)), job(ref("r", "a", "h2", 4))})
	e.must(err)
	want := []store.Verdict{store.Created, store.Created, store.Duplicate, store.Conflict}
	for i, g := range got {
		if g.Verdict != want[i] {
			e.Errorf("job %d: verdict %d, expected %d", i, g.Verdict, want[i])
		}
	}
	if got[3].Line != 1 || got[3].ID != got[0].ID {
		e.Errorf("the conflict names job %d at line %d, expected job %d at line 1", got[3].ID, got[3].Line, got[0].ID)
	}
}
