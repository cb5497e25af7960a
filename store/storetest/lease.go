package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/penstockhq/penstock/store"
)

var leaseTests = []test{
	{"Lease/Register", testLeaseRegister},
	{"Lease/HeartbeatTellsWhatIsHeld", testLeaseHeartbeat},
	{"Lease/HeartbeatOfAStranger", testLeaseStranger},
	{"Lease/Deregister", testLeaseDeregister},
	{"Lease/TakenBackInSteps", testLeaseTakenBack},
	{"Lease/ManyHeld", testLeaseMany},
}

func testLeaseRegister(e *env) {
	e.must(e.Register(e.ctx, store.Worker{ID: "w", Host: "box", PID: 7, Kinds: []string{"a", "b"}, Run: "r", Lease: lease}))
	e.clock.Advance(time.Second)
	_, err := e.Heartbeat(e.ctx, "w")
	e.must(err)
	ws, err := e.Workers(e.ctx)
	e.must(err)
	if len(ws) != 1 {
		e.Fatalf("%d workers, expected 1", len(ws))
	}
	if w := ws[0]; w.ID != "w" || w.Host != "box" || w.PID != 7 || !slices.Equal(w.Kinds, []string{"a", "b"}) || w.Run != "r" || w.Lease != lease || w.SeenAt != e.clock.Now() {
		e.Errorf("the worker came back as %+v", w)
	}
	if err := e.Register(e.ctx, store.Worker{Lease: lease}); err == nil {
		e.Error("a worker without an id was registered")
	}
	if err := e.Register(e.ctx, store.Worker{ID: "x"}); err == nil {
		e.Error("a worker without a lease was registered")
	}
}

func testLeaseHeartbeat(e *env) {
	w := e.worker("w")
	if held, err := e.Heartbeat(e.ctx, w); err != nil || len(held) != 0 {
		e.Errorf("before a claim: %v, %v", held, err)
	}
	e.insert(times(3)...)
	jobs := e.claim(w, places(2)).Jobs
	since := e.clock.Now()
	e.clock.Advance(time.Second)
	jobs = append(jobs, e.claim(w).Jobs...)
	held, err := e.Heartbeat(e.ctx, w)
	e.must(err)
	want := []store.Lease{{ID: jobs[0].ID, Token: jobs[0].Token, Since: since}, {ID: jobs[1].ID, Token: jobs[1].Token, Since: since},
		{ID: jobs[2].ID, Token: jobs[2].Token, Since: since + 1_000_000}}
	if !slices.Equal(held, want) {
		e.Errorf("held are %+v, expected %+v", held, want)
	}
	e.done(jobs...)
	if held, err := e.Heartbeat(e.ctx, w); err != nil || len(held) != 0 {
		e.Errorf("after the ends: %v, %v", held, err)
	}
}

func testLeaseStranger(e *env) {
	if _, err := e.Heartbeat(e.ctx, "nobody"); !errors.Is(err, store.ErrUnknownWorker) {
		e.Errorf("got %v", err)
	}
}

func testLeaseDeregister(e *env) {
	e.limit("api", "5 in flight")
	w := e.worker("w")
	j := e.started(w, draw("api", 1))
	e.must(e.Deregister(e.ctx, w))
	if s := e.wantState(j.ID, store.Waiting); !s.Suspect || s.Attempts != 0 {
		e.Errorf("what it held became %+v", s)
	}
	if n := e.state("api").InFlight(); n != 0 {
		e.Errorf("%d in flight", n)
	}
	if _, err := e.Heartbeat(e.ctx, w); !errors.Is(err, store.ErrUnknownWorker) {
		e.Errorf("a heartbeat afterwards: %v", err)
	}
	e.must(e.Deregister(e.ctx, w))
	e.must(e.Deregister(e.ctx, "never registered"))
}

// What a worker holds is taken back in several commits. If it lives after all, it
// must not be given between them what was taken from it: it still runs that.
func testLeaseTakenBack(e *env) {
	for _, how := range []struct {
		name string
		take func(w string) error
	}{
		{"deregistered", func(w string) error { return e.Deregister(e.ctx, w) }},
		{"rescued", func(string) error {
			e.clock.Advance(time.Hour)
			_, err := e.Rescue(e.ctx, 3)
			return err
		}},
	} {
		w := e.worker(how.name)
		e.started(w)
		asked := 0
		e.hooks.Committed = func() error {
			if asked++; asked > 1 {
				return nil
			}
			if res, err := e.Claim(e.ctx, e.request(w)); !errors.Is(err, store.ErrUnknownWorker) {
				e.Errorf("%s: between two steps it claimed %d jobs, error %v", how.name, len(res.Jobs), err)
			}
			if _, err := e.Heartbeat(e.ctx, w); !errors.Is(err, store.ErrUnknownWorker) {
				e.Errorf("%s: a heartbeat between two steps: %v", how.name, err)
			}
			return nil
		}
		e.must(how.take(w))
		e.hooks.Committed = nil
		if asked == 0 {
			e.Errorf("%s: nothing was committed", how.name)
		}
		again := e.worker(how.name + " again")
		e.done(e.take(again)...)
		e.must(e.Deregister(e.ctx, again))
	}
}

func testLeaseMany(e *env) {
	w := e.worker("w")
	e.insert(times(700)...)
	if got := e.take(w, places(300)); len(got) != 700 {
		e.Fatalf("claimed %d of 700", len(got))
	}
	held, err := e.Heartbeat(e.ctx, w)
	e.must(err)
	if len(held) != 700 {
		e.Errorf("the heartbeat tells of %d of 700", len(held))
	}
	e.clock.Advance(time.Hour)
	lost, err := e.Rescue(e.ctx, 3)
	e.must(err)
	if len(lost) != 700 {
		e.Errorf("%d of 700 were rescued", len(lost))
	}
}
