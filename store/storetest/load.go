package storetest

import (
	"fmt"

	"github.com/penstockhq/penstock/store"
)

var loadTests = []test{
	{"Load/StagedIsInvisible", testLoadInvisible},
	{"Load/ReleaseAll", testLoadRelease},
	{"Load/ReleaseBesideVisible", testLoadReleaseBesideVisible},
	{"Load/ReleasedScheduled", testLoadReleasedScheduled},
	{"Load/Drop", testLoadDrop},
	{"Load/DropMany", testLoadDropMany},
}

func testLoadInvisible(e *env) {
	id := e.insert(job(staged("l1"), ref("r", "a", "h", 1), unique("u")))[0]
	if jobs := all(e.T, e.Store, store.Filter{}); len(jobs) != 0 {
		e.Errorf("a staged job is listed: %v", jobs)
	}
	if qs, err := e.Queues(e.ctx); err != nil || len(qs) != 0 {
		e.Errorf("a staged job is counted: %v, %v", qs, err)
	}
	if n, err := e.CountRun(e.ctx, "r"); err != nil || n[store.Waiting] != 0 {
		e.Errorf("a staged job is counted in its run: %v, %v", n, err)
	}
	if got := e.take(e.worker("w")); len(got) != 0 {
		e.Errorf("a staged job was claimed")
	}
	got, err := e.Insert(e.ctx, []store.NewJob{job(ref("r", "a", "h", 2))})
	e.must(err)
	if got[0].Verdict != store.Duplicate || got[0].ID != id {
		e.Errorf("its call id is not taken: %+v", got[0])
	}
	e.must(e.Release(e.ctx, "l1"))
}

func testLoadRelease(e *env) {
	e.limit("api", "1000/s burst 1000")
	want := 0
	for i := range 20 {
		e.insert(job(staged("l1"), run("r"), group(fmt.Sprint(i%3)), prio(1+i%9), queue(fmt.Sprint("q", i%2)), draw("api", 1)),
			job(staged("l2"), run("r")))
		want++
	}
	e.must(e.Release(e.ctx, "l1"))
	w := e.worker("w")
	if got := e.take(w); len(got) != want {
		e.Errorf("%d jobs were claimed after the release, expected %d", len(got), want)
	}
	if n, err := e.CountRun(e.ctx, "r"); err != nil || n[store.Running] != int64(want) {
		e.Errorf("run counts %v, %v", n, err)
	}
	e.must(e.Release(e.ctx, "l2"))
	e.must(e.Release(e.ctx, "never staged"))
	if got := e.take(w); len(got) != want {
		e.Errorf("%d jobs were claimed after the second release, expected %d", len(got), want)
	}
}

// A band that exists already gets released jobs beside its own.
func testLoadReleaseBesideVisible(e *env) {
	w := e.worker("w")
	e.insert(times(3, run("r"), group("g"))...)
	for i := range 3 {
		load := fmt.Sprint("l", i)
		e.insert(times(2, run("r"), group("g"), staged(load))...)
		e.must(e.Release(e.ctx, load))
		e.insert(times(1, run("r"), group("g"))...)
	}
	if got := e.take(w); len(got) != 3+3*3 {
		e.Errorf("%d jobs were claimed, expected 12", len(got))
	}
}

func testLoadReleasedScheduled(e *env) {
	e.limit("api", "10/s")
	e.insert(job(staged("l"), at(Epoch+5_000_000), draw("api", 1)))
	w := e.worker("w")
	e.clock.To(Epoch + 6_000_000) // due while it is staged
	if got := e.take(w); len(got) != 0 {
		e.Fatal("a staged job was claimed when it came due")
	}
	e.must(e.Release(e.ctx, "l"))
	if got := e.take(w); len(got) != 1 {
		e.Errorf("%d jobs were claimed after the release, expected 1", len(got))
	}
}

func testLoadDrop(e *env) {
	e.insert(job(staged("l1"), ref("r", "a", "h", 1), unique("u")), job(staged("l2"), ref("r", "b", "h", 2), at(Epoch+1e9)))
	keep := e.insert(job(staged("l3"), ref("other", "a", "h", 1)), job(ref("r", "c", "h", 3)))
	n, err := e.DropLoads(e.ctx, "r")
	if err != nil || n != 2 {
		e.Errorf("dropped %d, %v; expected 2", n, err)
	}
	e.must(e.Release(e.ctx, "l1"))
	e.must(e.Release(e.ctx, "l3"))
	got := e.take(e.worker("w"))
	if len(got) != 2 || sorted(idsOf(got))[0] != keep[0] {
		e.Errorf("claimed %v, expected %v", idsOf(got), keep)
	}
	e.insert(job(ref("r", "a", "other content", 1)), job(unique("u"))) // nothing of the dropped ones is left
	if n, err := e.DropLoads(e.ctx, "r"); err != nil || n != 0 {
		e.Errorf("the second time: dropped %d, %v", n, err)
	}
}

func testLoadDropMany(e *env) {
	var jobs []store.NewJob
	for i := range 2500 {
		jobs = append(jobs, job(staged("l"), ref("r", fmt.Sprint(i), "h", int64(i)), group(fmt.Sprint(i%7))))
	}
	e.insert(jobs...)
	if n, err := e.DropLoads(e.ctx, "r"); err != nil || n != 2500 {
		e.Errorf("dropped %d, %v; expected 2500", n, err)
	}
	jobs[0].Hash = "other"
	e.insert(jobs[:1]...)
	e.must(e.Release(e.ctx, "l"))
	if got := e.take(e.worker("w")); len(got) != 1 {
		e.Errorf("%d jobs can be claimed, expected the one inserted later", len(got))
	}
}
