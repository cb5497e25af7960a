package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var processTests = []test{
	{"Processes/ShareEverything", processes(testProcessesShare)},
	{"Processes/OneLimit", processes(testProcessesLimit)},
	{"Processes/WakeEachOther", processes(testProcessesWake)},
	{"Processes/EachJobOnce", processes(testProcessesOnce)},
}

// processes runs a test with a second handle on the data, which another process
// would have; stores that have no others leave it out.
func processes(fn func(e *env, other store.Store)) func(*env) {
	return func(e *env) {
		if e.handle.Another == nil {
			e.Skip("the store belongs to one process")
		}
		fn(e, e.handle.Another(e.T))
	}
}

func testProcessesShare(e *env, other store.Store) {
	e.limit("api", "5 in flight")
	w := e.worker("w")
	id := e.one(draw("api", 1), body("b"))
	if j, err := other.Job(e.ctx, id); err != nil || string(j.Payload) != "b" {
		e.Errorf("the other process sees %+v, %v", j, err)
	}
	e.must(other.Register(e.ctx, store.Worker{ID: "o", Lease: lease}))
	res, err := other.Claim(e.ctx, e.request("o"))
	e.must(err)
	e.wantIDs("claimed by the other", res.Jobs, id)
	e.wantIDs("and by us", e.take(w))
	got, err := e.Finish(e.ctx, []store.Finish{ending(res.Jobs[0], store.OutcomeDone)})
	e.must(err)
	if got[0].Err != nil {
		e.Errorf("any process may bring the reply, with the token: %v", got[0].Err)
	}
	e.must(other.PauseQueue(e.ctx, "q", ""))
	e.one()
	e.wantIDs("while the other has the queue paused", e.take(w))
	if got, err := other.Finish(e.ctx, []store.Finish{ending(res.Jobs[0], store.OutcomeDone)}); err != nil || !errors.Is(got[0].Err, store.ErrLeaseLost) {
		e.Errorf("finished twice: %v, %v", got, err)
	}
}

func testProcessesLimit(e *env, other store.Store) {
	e.limit("api", "10/s burst 2")
	e.insert(times(60, draw("api", 1))...)
	w, o := e.worker("w"), e.worker("o")
	seen := newLedger(other)
	seen.specs["api"] = parse(e.T, "10/s burst 2")
	seen.charges = e.ledger.charges // both write into one ledger
	for range 200 {
		a := e.claim(w, places(1))
		e.done(a.Jobs...)
		b, err := seen.Claim(e.ctx, e.request(o, places(1)))
		e.must(err)
		e.done(b.Jobs...)
		if len(a.Jobs)+len(b.Jobs) == 0 {
			if b.NextAt == limit.Never {
				return
			}
			e.clock.To(min(a.NextAt, b.NextAt))
		}
	}
	e.Error("60 jobs were not done in 200 rounds")
}

func testProcessesWake(e *env, other store.Store) {
	ch := other.Watch(e.ctx)
	w := e.worker("w")
	for range 5 {
		drainWatch(ch)
		e.one()
		e.signalled(ch, "an insert in another process")
		e.done(e.take(w)...) // a lane that is ready already is no news
	}
}

func testProcessesOnce(e *env, other store.Store) {
	ids := e.insert(times(300)...)
	var mu sync.Mutex
	var got []int64
	var wg sync.WaitGroup
	for i, s := range []store.Store{e.Store, other} {
		w := e.worker([]string{"a", "b"}[i])
		wg.Go(func() {
			for n := int64(1); ; n++ {
				res, err := s.Claim(e.ctx, store.ClaimRequest{Worker: w, Token: int64(i+1)<<32 + n, Kinds: []string{"k"}, Places: 7})
				if err != nil {
					e.Error(err)
					return
				}
				mu.Lock()
				got = append(got, idsOf(res.Jobs)...)
				mu.Unlock()
				if len(res.Jobs) == 0 && res.NextAt > e.clock.Now() {
					return
				}
			}
		})
	}
	wg.Wait()
	if !slices.Equal(sorted(got), ids) {
		e.Errorf("%d claims of %d jobs", len(got), len(ids))
	}
	e.clock.Advance(time.Second)
}
