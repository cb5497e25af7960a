package storetest

import (
	"fmt"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var nextTests = []test{
	{"Next/DueTime", testNextDueTime},
	{"Next/Rate", testNextRate},
	{"Next/TwoLimits", testNextTwoLimits},
	{"Next/Pause", testNextPause},
	{"Next/Retry", testNextRetry},
	{"Next/CalendarQuota", testNextCalendar},
	{"Next/EarliestOfAll", testNextEarliest},
	{"Next/ManyLanes", testNextManyLanes},
}

// exactly claims at NextAt, which must be the instant that the limits' own states
// name, neither before nor after.
func (e *env) exactly(w string, limits []string, asks ...ask) []store.Claimed {
	e.Helper()
	want := e.clock.Now()
	for before := int64(0); before != want; {
		before = want
		for _, name := range limits {
			l := e.info(name)
			at, _ := l.State.Earliest(l.Spec, limit.Ask{Cost: 1, Priority: 9}, want)
			want = max(want, at)
		}
	}
	got := e.wantNext(w, asks...)
	if e.clock.Now() != want {
		e.Errorf("limits %q: claimed %s off the instant their states name", limits, e.when(want))
	}
	return got
}

func testNextDueTime(e *env) {
	id := e.one(at(Epoch + 1_234_567))
	if got := e.wantNext(e.worker("w")); got[0].ID != id || e.clock.Now() != Epoch+1_234_567 {
		e.Errorf("claimed job %d at %s", got[0].ID, e.when(Epoch+1_234_567))
	}
}

func testNextRate(e *env) {
	for _, spec := range []string{"10/s", "3/s burst 1", "0.5/m", "40/10s burst 8", "10/h", "7/s, 20/m, 2 in flight"} {
		name := "api " + spec
		e.limit(name, spec)
		e.insert(times(80, draw(name, 1), queue(spec))...)
		w := "worker " + spec
		e.worker(w)
		for range 5 {
			e.done(e.take(w, queues(spec))...)
			e.must(e.Register(e.ctx, store.Worker{ID: w, Lease: lease}))
			e.done(e.exactly(w, []string{name}, queues(spec))...)
		}
	}

}

func testNextTwoLimits(e *env) {
	e.limit("a", "5/s burst 1")
	e.limit("b", "2/s burst 1")
	e.insert(times(10, draw("a", 1), draw("b", 1))...)
	w := e.worker("w")
	for range 4 {
		e.done(e.take(w)...)
		e.done(e.exactly(w, []string{"a", "b"})...)
	}
}

func testNextPause(e *env) {
	e.limit("api", "100/s burst 100")
	e.insert(times(3, draw("api", 1))...)
	e.must(e.PauseLimit(e.ctx, "api", e.clock.Now()+7_000_001, "tea"))
	e.wantNext(e.worker("w"))
	if now := e.clock.Now(); now != Epoch+7_000_001 {
		e.Errorf("the pause ended at %s", e.when(now))
	}
}

func testNextRetry(e *env) {
	w := e.worker("w")
	e.one()
	f := ending(e.claim(w).Jobs[0], store.OutcomeRetry)
	f.At = e.clock.Now() + 3_000_003
	if got := e.finish(f); got.State != store.Waiting || got.At != f.At {
		e.Errorf("the answer was %+v", got)
	}
	e.wantNext(w)
	if e.clock.Now() != f.At {
		e.Errorf("retried %s late", e.when(f.At))
	}
}

func testNextCalendar(e *env) {
	e.limit("api", "3/day@America/New_York")
	e.insert(times(5, draw("api", 1))...)
	w := e.worker("w")
	got := e.take(w)
	e.done(got...)
	if len(got) != 3 {
		e.Fatalf("%d jobs on the first day, expected 3", len(got))
	}
	e.wantNext(w)
	zone, err := time.LoadLocation("America/New_York")
	e.must(err)
	midnight := time.Date(2026, 1, 16, 0, 0, 0, 0, zone)
	if late := time.UnixMicro(e.clock.Now()).Sub(midnight); late < 0 || late > 5*time.Second {
		e.Errorf("the quota reset %v after midnight in New York", late)
	}
}

func testNextEarliest(e *env) {
	e.limit("slow", "1/m")
	e.limit("fast", "1/s burst 1")
	e.insert(times(3, draw("slow", 1))...)
	fast := e.insert(times(3, draw("fast", 1), queue("other"))...)
	e.one(at(Epoch + 30_000_000))
	w := e.worker("w")
	e.done(e.take(w)...)
	if got := e.wantNext(w); got[0].ID != fast[1] {
		e.Errorf("first came job %d, expected %d", got[0].ID, fast[1])
	}
	if next := e.claim(w, queues("q")).NextAt; next > Epoch+30_000_000 {
		e.Errorf("queue q: next at %s", e.when(next))
	}
}

// Far more blocked and sleeping lanes than a claim looks at.
func testNextManyLanes(e *env) {
	e.limit("shop/*", "1 in flight")
	var jobs []store.NewJob
	for i := range 200 {
		jobs = append(jobs, job(draw(fmt.Sprint("shop/", i), 1)), job(draw(fmt.Sprint("shop/", i), 1)),
			job(group(fmt.Sprint(i)), at(Epoch+int64(1_000_000+i))))
	}
	e.insert(jobs...)
	w := e.worker("w")
	if got := e.take(w); len(got) != 200 {
		e.Fatalf("%d jobs of 200 keys", len(got))
	}
	if next := e.claim(w).NextAt; next != Epoch+1_000_000 {
		e.Errorf("next at %s, expected in a second", e.when(next))
	}
	e.clock.Advance(2 * time.Second)
	if got := e.take(w); len(got) != 200 {
		e.Errorf("%d of 200 sleeping lanes woke", len(got))
	}
	if next := e.claim(w).NextAt; next != limit.Never {
		e.Errorf("next at %s, expected never", e.when(next))
	}
}
