package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

var hazardTests = []test{
	{"TestHazard02_InsertBetweenLookAndCommit", testHazard02},
	{"TestHazard02_NobodyIsStranded", testHazard02Hammer},
	{"TestHazard04_StoppedBetweenLockAndCommit", testHazard04},
	{"TestHazard05_CommitSucceededReplyLost", testHazard05},
	{"TestHazard05_FinishReplyLost", testHazard05Finish},
	{"TestHazard05_InsertReplyLost", testHazard05Insert},
	{"TestHazard06_MassRescueAfterAStall", testHazard06},
	{"TestHazard07_SlotsThatGoBackwards", testPermitsSlots},
	{"TestHazard08_SlotsCountFromTheCommit", testHazard08},
	{"TestHazard09_CostlyHeadStarved", testPermitsCostly},
	{"TestHazard10_ManyClaimersOneLane", testHazard10},
	{"TestHazard11_GivenBackTwice", testHazard11},
	{"TestHazard19_FailedCommitsChangeNothing", testHazard19},
}

// A job that is inserted between the transactions of a claim, or of whatever
// else settles its lane, is not overlooked.
func testHazard02(e *env) {
	e.limit("api", "2 in flight")
	w := e.worker("w")
	inserted, busy := 0, false
	e.hooks.Begin = func() {
		if busy || inserted >= 200 {
			return
		}
		busy = true
		defer func() { busy = false }()
		inserted++
		opts := []opt{group(fmt.Sprint(inserted % 3))}
		if inserted%2 == 0 {
			opts = append(opts, draw("api", 1))
		}
		if inserted%5 == 0 {
			opts = append(opts, at(e.clock.Now()+int64(inserted)))
		}
		e.one(opts...)
	}
	finished := 0
	for round := range 3000 {
		e.must(e.Ping(e.ctx)) // an update, whatever the claim finds
		res := e.claim(w, places(3))
		for i, j := range res.Jobs {
			f := ending(j, []store.Outcome{store.OutcomeDone, store.OutcomeRetry, store.OutcomeReturned}[(int(j.ID)+i+round)%3])
			if j.Attempts > 0 {
				f.Outcome = store.OutcomeDone
			}
			if f.Outcome == store.OutcomeDone {
				finished++
			}
			e.finish(f)
		}
		if len(res.Jobs) == 0 && res.NextAt != limit.Never {
			e.clock.To(res.NextAt)
		}
		if inserted >= 200 && finished >= inserted {
			return
		}
		e.clock.Advance(time.Microsecond)
	}
	e.Errorf("%d jobs were inserted, %d ended", inserted, finished)
}

// Several goroutines insert, claim and finish at once.
func testHazard02Hammer(e *env) {
	e.limit("api", "3 in flight")
	e.limit("shop/*", "1 in flight")
	const inserters, each = 4, 100
	var wg sync.WaitGroup
	var done atomic.Int64
	ctx, stop := context.WithTimeout(e.ctx, time.Minute)
	defer stop()
	for i := range inserters {
		wg.Go(func() {
			for n := range each {
				j := job(group(fmt.Sprint(n % 5)))
				switch n % 3 {
				case 0:
					draw("api", 1)(&j)
				case 1:
					draw(fmt.Sprint("shop/", (i+n)%4), 1)(&j)
				}
				if _, err := e.Insert(ctx, []store.NewJob{j}); err != nil {
					e.Error(err)
					return
				}
			}
		})
	}
	for i := range 4 {
		w := e.worker(fmt.Sprint("w", i))
		ch := e.Watch(ctx)
		wg.Go(func() {
			for n := int64(1); done.Load() < inserters*each && ctx.Err() == nil; n++ {
				r := store.ClaimRequest{Worker: w, Token: int64(i+1)<<32 + n, Kinds: []string{"k"}, Places: 5, SuspectFree: true}
				res, err := e.Claim(ctx, r)
				if err != nil {
					if ctx.Err() == nil {
						e.Error(err)
					}
					return
				}
				for _, j := range res.Jobs {
					got, err := e.Finish(ctx, []store.Finish{ending(j, store.OutcomeDone)})
					if err != nil || got[0].Err != nil {
						e.Error(err, got)
						return
					}
					if done.Add(1) == inserters*each {
						stop()
					}
				}
				if len(res.Jobs) == 0 && res.NextAt == limit.Never {
					select { // told to wait for an event: it must come
					case <-ch:
					case <-ctx.Done():
					}
				}
			}
		})
	}
	wg.Wait()
	if done.Load() != inserters*each {
		e.Errorf("%d of %d jobs ended: the others were stranded", done.Load(), inserters*each)
	}
}

// A worker that was silent, and is heard of just before it is declared dead,
// keeps its jobs: the write that takes them back judges anew.
func testHazard06(e *env) {
	a, b := e.worker("a"), e.worker("b")
	ja, jb := e.started(a), e.started(b)
	e.clock.Advance(3 * lease) // the store hung, nobody could say a word
	busy := false
	e.hooks.Begin = func() {
		if busy {
			return
		}
		busy = true
		_, err := e.Heartbeat(e.ctx, a)
		e.must(err)
		busy = false
	}
	got := e.rescue()
	e.hooks.Begin = nil
	for _, j := range got {
		if j.ID == ja.ID {
			e.Error("the job of a worker was taken back that had just been heard of")
		}
	}
	e.wantState(ja.ID, store.Running)
	e.wantState(jb.ID, store.Waiting)
	e.done(ja)
}

// The clock is read under the lock: a claim that waited long for it grants
// slots from the time it got it.
func testHazard08(e *env) {
	e.limit("api", "10/s burst 3")
	e.insert(times(20, draw("api", 1))...)
	w := e.worker("w")
	e.hooks.Locked = func() { e.clock.Advance(time.Second) }
	for range 5 {
		res := e.claim(w, places(3))
		if res.Now != e.clock.Now() {
			e.Errorf("the claim says it is %s", e.when(res.Now))
		}
		for _, j := range res.Jobs {
			if j.Slot < e.clock.Now() {
				e.Errorf("a slot at %s, before the claim had the lock", e.when(j.Slot))
			}
		}
		if len(res.Jobs) == 0 {
			e.Error("nothing was claimed")
		}
	}
}

// Nobody is told to wait while there is work for him.
func testHazard10(e *env) {
	const jobs = 400
	e.insert(times(jobs)...)
	var wg sync.WaitGroup
	var got atomic.Int64
	for i := range 8 {
		w := e.worker(fmt.Sprint("w", i))
		wg.Go(func() {
			for n := int64(1); ; n++ {
				res, err := e.Claim(e.ctx, store.ClaimRequest{Worker: w, Token: int64(i+1)<<32 + n, Kinds: []string{"k"}, Places: 3})
				if err != nil {
					e.Error(err)
					return
				}
				if got.Add(int64(len(res.Jobs))); len(res.Jobs) == 0 && res.NextAt == limit.Never {
					return
				}
			}
		})
	}
	wg.Wait()
	if got.Load() != jobs {
		e.Errorf("%d of %d jobs were claimed when the last worker was sent to wait", got.Load(), jobs)
	}
}

func testHazard11(e *env) {
	e.limit("api", "2/h, 1 in flight")
	old := e.worker("old")
	j := e.started(old, draw("api", 1))
	e.lose()
	e.one(draw("api", 1))
	w := e.worker("w")
	if got := e.take(w); len(got) != 1 {
		e.Fatalf("%d jobs run, expected 1", len(got))
	}
	for _, o := range []store.Outcome{store.OutcomeReturned, store.OutcomeDone, store.OutcomeRetry} {
		got, err := e.Finish(e.ctx, []store.Finish{ending(j, o)})
		e.must(err)
		if !errors.Is(got[0].Err, store.ErrLeaseLost) {
			e.Errorf("a late %v: %v", o, got[0].Err)
		}
	}
	s := e.state("api")
	if s.InFlight() != 1 || s.Used(time.Hour, e.clock.Now()) != 2 {
		e.Errorf("%d in flight, %d permits spent; expected 1 and 2", s.InFlight(), s.Used(time.Hour, e.clock.Now()))
	}
	e.wantIDs("beyond the cap", e.take(w))
}
