package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// While somebody is stopped in the middle of an update, others can give up
// waiting, and nothing of theirs has happened.
func testHazard04(e *env) {
	stopped, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e.hooks.Commit = func() error {
		once.Do(func() { close(stopped); <-goOn })
		return nil
	}
	inserted := make(chan error)
	go func() {
		_, err := e.Insert(e.ctx, times(1))
		inserted <- err
	}()
	<-stopped
	ctx, cancel := context.WithCancel(e.ctx)
	waiting := make(chan error)
	go func() {
		_, err := e.Insert(ctx, times(50))
		waiting <- err
	}()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		e.Errorf("the one that gave up got %v", err)
	}
	close(goOn)
	e.must(<-inserted)
	if n := len(all(e.T, e.Store, store.Filter{})); n != 1 {
		e.Errorf("%d jobs, expected the one of the stopped update", n)
	}
}

var errLost = errors.New("the reply was lost")

// loseReply makes the next commit succeed without anybody hearing of it.
func (e *env) loseReply(fn func() error) {
	e.Helper()
	h := *e.hooks
	e.hooks.Committed = func() error { return errLost }
	err := fn()
	*e.hooks = h
	if !errors.Is(err, errLost) {
		e.Fatalf("got %v, expected the lost reply", err)
	}
}

func testHazard05(e *env) {
	e.limit("api", "3 in flight")
	ids := e.insert(times(5, draw("api", 1))...)
	w := e.worker("w")
	r := e.request(w)
	e.loseReply(func() error { _, err := e.Claim(e.ctx, r); return err })
	held, err := e.Heartbeat(e.ctx, w)
	e.must(err)
	if len(held) != 3 || held[0].Token != r.Token {
		e.Errorf("the heartbeat tells of %v, expected the 3 jobs of the lost claim", held)
	}
	for range 3 { // repeated as often as need be
		r.Repeat = true
		res, err := e.Claim(e.ctx, r)
		e.must(err)
		if !slices.Equal(sorted(idsOf(res.Jobs)), ids[:3]) {
			e.Fatalf("the repeated claim returned %v, expected %v", idsOf(res.Jobs), ids[:3])
		}
		if n := e.state("api").InFlight(); n != 3 {
			e.Fatalf("%d in flight", n)
		}
		if len(res.Jobs[0].Charges) != 1 {
			e.Errorf("the permits are missing: %+v", res.Jobs[0])
		}
	}
	res, err := e.Claim(e.ctx, r)
	e.must(err)
	e.done(res.Jobs...)
	e.done(e.take(w)...)
}

func testHazard05Finish(e *env) {
	e.limit("api", "2 in flight")
	w := e.worker("w")
	for o := store.OutcomeDone; o <= store.OutcomeDiscarded; o++ {
		if o == store.OutcomeLost {
			continue
		}
		j := e.started(w, draw("api", 1), prio(9))
		f := ending(j, o)
		f.Reason, f.At = store.Rejected, e.clock.Now()+1e12
		e.loseReply(func() error { _, err := e.Finish(e.ctx, []store.Finish{f}); return err })
		before := dump(e.T, e.Store, number)
		got, err := e.Finish(e.ctx, []store.Finish{f})
		e.must(err)
		if !errors.Is(got[0].Err, store.ErrLeaseLost) {
			e.Errorf("%v repeated: %v", o, got[0].Err)
		}
		if d := diff(before, dump(e.T, e.Store, number)); d != "" {
			e.Errorf("%v repeated changed something:%s", o, d)
		}
		if n := e.state("api").InFlight(); n != 0 {
			e.Errorf("%v repeated: %d in flight", o, n)
		}
		e.done(e.take(w)...)
	}
	e.noDrain = true // of the ledger's view a returned job's permit is still spent
}

func testHazard05Insert(e *env) {
	jobs := []store.NewJob{job(ref("r", "a", "h", 1)), job(ref("r", "b", "h", 2)), job(unique("u"))}
	e.loseReply(func() error { _, err := e.Insert(e.ctx, jobs); return err })
	got, err := e.Insert(e.ctx, jobs)
	e.must(err)
	for i, g := range got {
		if g.Verdict != store.Duplicate {
			e.Errorf("job %d repeated: %+v", i, g)
		}
	}
	if n := len(all(e.T, e.Store, store.Filter{})); n != 3 {
		e.Errorf("%d jobs, expected 3", n)
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

// Every verb, failing just before its commit, changes nothing; done again, it
// works.
func testHazard19(e *env) {
	e.limit("api", "10/s burst 5, 5 in flight")
	w := e.worker("w")
	running := e.started(w, draw("api", 1))
	ended := e.started(w, draw("api", 1))
	dead := e.killed(w)
	cancelled := e.one(at(Epoch + 1e9))
	waiting := e.insert(job(draw("api", 1)), job(unique("u")), job(at(Epoch+1e9)))
	e.insert(job(staged("load"), run("r")))
	e.worker("gone")
	no := errors.New("disk full")
	now := e.clock.Now()
	for _, v := range []struct {
		name string
		do   func() error
	}{
		{"Insert", func() error {
			return second(e.Insert(e.ctx, []store.NewJob{job(ref("r", "x", "h", 1)), job(unique("u"), replace, body("new"))}))
		}},
		{"Claim", func() error { return second(e.Claim(e.ctx, e.request(w))) }},
		{"Finish", func() error {
			f := ending(running, store.OutcomeThrottled)
			f.Observations = []store.Observed{{Limit: "api", Observation: refusal(now, time.Minute)}}
			return second(e.Finish(e.ctx, []store.Finish{f, ending(ended, store.OutcomeDone)}))
		}},
		{"Register", func() error { return e.Register(e.ctx, store.Worker{ID: "new", Lease: lease}) }},
		{"Heartbeat", func() error { return second(e.Heartbeat(e.ctx, w)) }},
		{"Deregister", func() error { return e.Deregister(e.ctx, "gone") }},
		{"Cancel", func() error { return second(e.Cancel(e.ctx, cancelled)) }},
		{"Replay", func() error { return second(e.Replay(e.ctx, []int64{dead.ID}, nil, func() string { return "k" })) }},
		{"Discard", func() error { return second(e.Discard(e.ctx, []int64{ended.ID})) }},
		{"PauseQueue", func() error { return e.PauseQueue(e.ctx, "q", "") }},
		{"ResumeQueue", func() error { return e.ResumeQueue(e.ctx, "q") }},
		{"DeclareLimit", func() error { return e.DeclareLimit(e.ctx, "api", parse(e.T, "20/s")) }},
		{"SetLimit", func() error { return e.SetLimit(e.ctx, "api", parse(e.T, "5/s")) }},
		{"ResetLimit", func() error { return e.ResetLimit(e.ctx, "api") }},
		{"PauseLimit", func() error { return e.PauseLimit(e.ctx, "api", limit.Never, "") }},
		{"ResumeLimit", func() error { return e.ResumeLimit(e.ctx, "api") }},
		{"Release", func() error { return e.Release(e.ctx, "load") }},
		{"Prune", func() error { return second(e.Prune(e.ctx, now+1e9, 100)) }},
		{"Rescue", func() error { return second(e.Rescue(e.ctx, 3)) }},
	} {
		if v.name == "Rescue" {
			e.clock.Advance(time.Hour) // now they are all dead
		}
		before := dump(e.T, e.Store, number)
		e.hooks.Commit = func() error { return no }
		if err := v.do(); !errors.Is(err, no) {
			e.Errorf("%s: got %v, expected the failed commit", v.name, err)
		}
		e.hooks.Commit = nil
		if d := diff(before, dump(e.T, e.Store, number)); d != "" {
			e.Errorf("%s failed and changed something:%s", v.name, d)
		}
		if err := v.do(); err != nil {
			e.Errorf("%s, the second time: %v", v.name, err)
		}
	}
	e.wantState(waiting[2], store.Waiting)
}
