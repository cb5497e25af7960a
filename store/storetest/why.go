package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var whyTests = []test{
	{"Why/EachReason", testWhyReasons},
	{"Why/RunningAndEnded", testWhyNone},
}

// why returns the causes and checks that each is told to people, too.
func (e *env) why(id int64) ([]dispatch.Cause, []dispatch.Wait) {
	e.Helper()
	ws, err := e.Why(e.ctx, id)
	e.must(err)
	var causes []dispatch.Cause
	for _, w := range ws {
		if w.Text == "" {
			e.Errorf("cause %s has no text", w.Cause)
		}
		causes = append(causes, w.Cause)
	}
	return causes, ws
}

func (e *env) wantWhy(id int64, want ...dispatch.Cause) []dispatch.Wait {
	e.Helper()
	causes, ws := e.why(id)
	slices.Sort(causes)
	slices.Sort(want)
	if !slices.Equal(causes, want) {
		e.Errorf("job %d waits because of %v, expected %v", id, causes, want)
	}
	return ws
}

func testWhyReasons(e *env) {
	e.limit("api", "100/h")
	id := e.one()
	e.wantWhy(id, dispatch.CauseNoWorker)
	w := e.worker("w")
	e.wantWhy(id, dispatch.CauseReady)

	e.must(e.PauseQueue(e.ctx, "q", "repairs"))
	e.wantWhy(id, dispatch.CauseQueue)
	e.must(e.ResumeQueue(e.ctx, "q"))

	later := e.one(at(Epoch + 5_000_000))
	if ws := e.wantWhy(later, dispatch.CauseScheduled, dispatch.CausePlace); ws[0].Until != Epoch+5_000_000 {
		e.Errorf("until %s", e.when(ws[0].Until))
	}
	behind := e.one()
	ws := e.wantWhy(behind, dispatch.CausePlace)
	if ws[0].Ahead != 1 {
		e.Errorf("%d jobs are ahead, expected 1", ws[0].Ahead)
	}

	staged := e.insert(job(staged("l"), group("staged")))[0]
	e.wantWhy(staged, dispatch.CauseStaged)
	e.must(e.Release(e.ctx, "l"))
	e.wantWhy(staged, dispatch.CauseReady)

	limited := e.one(draw("api", 1))
	e.must(e.PauseLimit(e.ctx, "api", e.clock.Now()+60_000_000, "tea"))
	ws = e.wantWhy(limited, dispatch.CauseLimit)
	if ws[0].Limit != "api" || ws[0].Why != limit.PausedByPerson || ws[0].Until != e.clock.Now()+60_000_000 {
		e.Errorf("the limit's reason is %+v", ws[0])
	}
	e.must(e.ResumeLimit(e.ctx, "api"))

	e.take(w)
	e.must(e.Deregister(e.ctx, w))
	e.worker("w2")
	if causes, _ := e.why(behind); !slices.Contains(causes, dispatch.CauseSuspect) {
		e.Errorf("a job whose process was lost waits because of %v", causes)
	}
}

func testWhyNone(e *env) {
	w := e.worker("w")
	j := e.started(w)
	e.wantWhy(j.ID)
	e.clock.Advance(time.Second)
	e.done(j)
	e.wantWhy(j.ID)
	if _, err := e.Why(e.ctx, 4711); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("an unknown job: %v", err)
	}
}
