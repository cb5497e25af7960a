package penstock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
	"github.com/penstockhq/penstock/store/storetest"
)

// TestA1_DelayedJobsSurviveRestarts: jobs for a later time sat in a worker's
// memory and were lost by a deploy (celery/kombu#533, celery/celery#1810).
func TestA1_DelayedJobsSurviveRestarts(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var seen calls
		handle(t, c, "later", penstock.Kind{}, func(_ context.Context, j *penstock.Job[int]) error {
			seen.note(fmt.Sprint(j.Args))
			return nil
		})
		handle(t, c, "busy", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[int]) error {
			select {
			case <-time.After(30 * time.Second):
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		begun := time.Now()
		due := map[int64]time.Duration{}
		for i := range 20 {
			d := time.Minute + time.Duration(i)*24*time.Hour/20
			due[enqueue(t, c, "later", i, penstock.Delay(d))] = d
		}
		for range 3 {
			enqueue(t, c, "busy", 0)
		}
		for restart := range 5 {
			stop := working(t, c, penstock.WorkOptions{Grace: time.Second})
			pass(5 * time.Second)
			stop()
			for id, d := range due {
				if j := job(t, c, id); j.State != store.Waiting || j.At != begun.Add(d).UnixMicro() {
					t.Errorf("restart %d: job %d is %v, due %v", restart, id, j.State, time.UnixMicro(j.At))
				}
			}
		}
		drain(t, c, penstock.WorkOptions{})
		for i := range 20 {
			if n := seen.count(fmt.Sprint(i)); n != 1 {
				t.Errorf("job %d ran %d times", i, n)
			}
		}
	})
}

// TestA4_OutcomesAreKept: the call succeeded, the write of it failed, and the
// job was run again (riverqueue/river#995, riverqueue/river#917).
func TestA4_OutcomesAreKept(t *testing.T) {
	virtual(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{})}
		c := clientOver(t, f, penstock.Config{})
		var seen calls
		handle(t, c, "call", penstock.Kind{}, func(_ context.Context, j *penstock.Job[int]) error {
			seen.note(fmt.Sprint(j.Args))
			<-time.After(100 * time.Millisecond)
			return nil
		})
		for i := range 500 {
			enqueue(t, c, "call", i)
		}
		f.set(func(f *faulty) { f.finish = func(bool) error { return errStore } })
		working(t, c, penstock.WorkOptions{Concurrency: 50})
		pass(45 * time.Second)
		begun := 0
		for i := range 500 {
			begun += seen.count(fmt.Sprint(i))
		}
		if begun > 100 {
			t.Errorf("%d jobs were begun while no outcome could be stored", begun)
		}
		if err := c.Health(t.Context()); !errors.Is(err, errStore) {
			t.Errorf("health says %v", err)
		}
		f.set(func(f *faulty) { f.finish = nil })
		pass(30 * time.Second)
		if err := c.Health(t.Context()); err != nil {
			t.Errorf("health says %v after the trouble", err)
		}
		for i := range 500 {
			if n := seen.count(fmt.Sprint(i)); n != 1 {
				t.Errorf("job %d was called %d times", i, n)
			}
		}
	})
}

// TestA4_SlowOutcomesStopClaims: the store did not fail but hung, and as long as
// it did, more and more was begun whose outcome had nowhere to go.
func TestA4_SlowOutcomesStopClaims(t *testing.T) {
	virtual(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{})}
		c := clientOver(t, f, penstock.Config{})
		var seen calls
		handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
			seen.note("begun")
			<-time.After(100 * time.Millisecond)
			return nil
		})
		for i := range 1000 {
			enqueue(t, c, "call", i)
		}
		f.set(func(f *faulty) {
			f.finish = func(before bool) error {
				if before {
					<-time.After(8 * time.Second)
				}
				return nil
			}
		})
		working(t, c, penstock.WorkOptions{Concurrency: 10})
		pass(7 * time.Second)
		if n := seen.count("begun"); n > 200 { // in the first second nobody can know
			t.Errorf("%d jobs were begun while the first outcome was being written", n)
		}
		f.set(func(f *faulty) { f.finish = nil })
		pass(20 * time.Second)
		if n := seen.count("begun"); n != 1000 {
			t.Errorf("%d of 1000 jobs were begun after the store was well again", n)
		}
	})
}

// TestA4_LostReplies: the commit of an outcome went through and its reply was
// lost. The same for claims.
func TestA4_LostReplies(t *testing.T) {
	virtual(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{})}
		var mu sync.Mutex
		n := 0
		third := func(before bool) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; !before && n%3 == 0 {
				return errStore
			}
			return nil
		}
		f.finish, f.claim = third, third
		c := clientOver(t, f, penstock.Config{})
		var seen calls
		recorded := 0
		handle(t, c, "call", penstock.Kind{}, func(_ context.Context, j *penstock.Job[int]) error {
			seen.note(fmt.Sprint(j.Args))
			return nil
		})
		for i := range 100 {
			enqueue(t, c, "call", i)
		}
		begun := time.Now()
		drain(t, c, penstock.WorkOptions{Concurrency: 7, OnEnd: func(e *penstock.End) {
			mu.Lock()
			defer mu.Unlock()
			if e.Recorded && e.State == store.Done {
				recorded++
			}
		}})
		for i := range 100 {
			if n := seen.count(fmt.Sprint(i)); n != 1 {
				t.Errorf("job %d was called %d times", i, n)
			}
		}
		if d := time.Since(begun); d > 4*time.Second {
			t.Errorf("took %v: what a lost reply leased was not found by repeating the claim", d)
		}
		if recorded != 100 {
			t.Errorf("%d outcomes were reported as stored, want 100", recorded)
		}
	})
}

// TestA5_NothingWaitsForARestart: a failed acknowledgement, or a job held by a
// killed process, waited for the next deploy (sidekiq/sidekiq#4495, #5540).
func TestA5_NothingWaitsForARestart(t *testing.T) {
	t.Run("one acknowledgement fails", func(t *testing.T) {
		virtual(t, func(t *testing.T) {
			f := &faulty{Store: memory.New(memory.Options{})}
			failed := false
			f.finish = func(before bool) error {
				if before && !failed {
					failed = true
					return errStore
				}
				return nil
			}
			c := clientOver(t, f, penstock.Config{})
			handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
			id := enqueue(t, c, "call", 1)
			working(t, c, penstock.WorkOptions{})
			pass(time.Second)
			wantState(t, c, id, store.Done, "")
		})
	})
	t.Run("the process is killed", func(t *testing.T) {
		virtual(t, func(t *testing.T) {
			st := memory.New(memory.Options{})
			dying := &faulty{Store: st}
			a, b := clientOver(t, dying, penstock.Config{}), clientOver(t, st, penstock.Config{})
			var seen calls
			release := make(chan struct{})
			handle(t, a, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
				<-release
				return errors.New("too late")
			})
			handle(t, b, "call", penstock.Kind{}, func(_ context.Context, j *penstock.Job[int]) error {
				seen.note(fmt.Sprint(j.Args))
				return nil
			})
			var ids []int64
			for i := range 5 {
				ids = append(ids, enqueue(t, a, "call", i))
			}
			ctx, kill := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = a.Work(ctx, penstock.WorkOptions{Grace: time.Second}) // it cannot store anything any more
			}()
			pass(time.Second)
			dying.set(func(f *faulty) { f.cut = true })
			working(t, b, penstock.WorkOptions{})
			pass(penstock.DefaultLease + penstock.DefaultLease/3 + 2*time.Second)
			for i, id := range ids {
				wantState(t, b, id, store.Done, "")
				if n := seen.count(fmt.Sprint(i)); n != 1 {
					t.Errorf("job %d ran %d times at b", i, n)
				}
			}
			kill()
			close(release)
			<-ended
		})
	})
}

// TestA4_AnothersSuccessIsNotOurs: an outcome that could not be stored for longer
// than a lease was refused, since another process had done the job meanwhile, and
// OnEnd was told that it had been recorded.
func TestA4_AnothersSuccessIsNotOurs(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		silent := &faulty{Store: st}
		a, b := clientOver(t, silent, penstock.Config{}), clientOver(t, st, penstock.Config{})
		for _, c := range []*penstock.Client{a, b} {
			handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
		}
		silent.set(func(f *faulty) {
			f.noBeats = true
			f.finish = func(bool) error { return errStore }
		})
		id := enqueue(t, a, "call", 1)
		var mu sync.Mutex
		var ends []*penstock.End
		working(t, a, penstock.WorkOptions{OnEnd: func(e *penstock.End) {
			mu.Lock()
			defer mu.Unlock()
			if e.Job.ID == id {
				ends = append(ends, e)
			}
		}})
		pass(time.Second)
		silent.set(func(f *faulty) { f.claim = func(bool) error { return errStore } }) // else a might get its own job again
		working(t, b, penstock.WorkOptions{})
		pass(time.Minute)
		wantState(t, b, id, store.Done, "")
		silent.set(func(f *faulty) { f.noBeats, f.finish = false, nil })
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(ends) != 1 || ends[0].Recorded {
			t.Errorf("OnEnd was told of %+v, expected one end that is not recorded", ends)
		}
	})
}

// TestB3_LateFinisherIsRefused: a live worker missed heartbeats, its job was
// given to another, and both finished it (rails/solid_queue PR #761).
func TestB3_LateFinisherIsRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		slow := &faulty{Store: st}
		cfg := penstock.Config{Limits: map[string]string{"one": "1 in flight"}}
		a, b := clientOver(t, slow, cfg), clientOver(t, st, cfg)
		var mu sync.Mutex
		running, most := 0, 0
		normal := func(_ context.Context, j *penstock.Job[int]) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}
		first, silent := true, time.Now()
		late := func(ctx context.Context, j *penstock.Job[int]) error {
			if !first {
				return normal(ctx, j)
			}
			first = false
			<-ctx.Done() // it hears of the loss, and takes its time
			if d := time.Since(silent); d > penstock.DefaultLease {
				t.Errorf("told to stop after %v without heartbeats, when others may have the job", d)
			}
			if !errors.Is(context.Cause(ctx), penstock.ErrLeaseLost) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			<-time.After(20 * time.Second)
			return nil
		}
		k := penstock.Kind{Limits: penstock.Draws("one"), Timeout: -1}
		handle(t, a, "call", k, late)
		var ids []int64
		ids = append(ids, enqueue(t, a, "call", 0))
		var ends []*penstock.End
		stopA := working(t, a, penstock.WorkOptions{OnEnd: func(e *penstock.End) { mu.Lock(); ends = append(ends, e); mu.Unlock() }})
		pass(time.Second)
		silent = time.Now()
		slow.set(func(f *faulty) { f.noBeats = true })
		handle(t, b, "call", k, normal)
		for i := 1; i < 10; i++ {
			ids = append(ids, enqueue(t, b, "call", i))
		}
		working(t, b, penstock.WorkOptions{})
		pass(90 * time.Second)
		slow.set(func(f *faulty) { f.noBeats = false })
		pass(time.Minute)
		for _, id := range ids {
			wantState(t, b, id, store.Done, "")
		}
		mu.Lock()
		if most > 1 {
			t.Errorf("%d ran at a time, the limit is 1", most)
		}
		told := 0
		for _, e := range ends {
			if e.Job.ID == ids[0] && e.Job.Starts == 1 && e.Recorded && e.Outcome != store.OutcomeLost {
				t.Errorf("the late finisher's %v was taken", e.Outcome)
			}
			if e.Job.ID == ids[0] && !e.Recorded && !e.Started.IsZero() {
				told++
			}
		}
		if told != 1 {
			t.Errorf("OnEnd was told %d times of the start that was lost, want once", told)
		}
		mu.Unlock()
		info, err := b.LimitByName(t.Context(), "one")
		if err != nil || info.State.InFlight() != 0 {
			t.Errorf("in flight %d, error %v", info.State.InFlight(), err)
		}
		// The one that was declared dead works again, under a new identity.
		workers, err := st.Workers(t.Context())
		if err != nil || len(workers) != 2 {
			t.Errorf("%d workers, error %v", len(workers), err)
		}
		stopA()
	})
}

// TestC4_InFlightCountsFollowTheRunning: counts of running calls leaked with
// every killed process (gocraft/work#192, rails/solid_queue#546).
func TestC4_InFlightCountsFollowTheRunning(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		cfg := penstock.Config{Limits: map[string]string{"key/*": "2 in flight"}}
		var mu sync.Mutex
		running, most := map[string]int{}, 0
		handler := func(ctx context.Context, j *penstock.Job[string]) error {
			mu.Lock()
			running[j.Args]++
			most = max(most, running[j.Args])
			mu.Unlock()
			defer func() { mu.Lock(); running[j.Args]--; mu.Unlock() }()
			select {
			case <-time.After(10 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for round := range 20 {
			f := &faulty{Store: st}
			c := clientOver(t, f, cfg)
			handle(t, c, "call", penstock.Kind{}, handler)
			for key := range 5 {
				for range 3 {
					name := fmt.Sprintf("key/%d-%d", round, key)
					enqueue(t, c, "call", name, penstock.Limit(name))
				}
			}
			ctx, kill := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = c.Work(ctx, penstock.WorkOptions{Grace: time.Millisecond}) }()
			pass(time.Second)
			f.set(func(f *faulty) { f.cut = true })
			kill()
			<-ended
		}
		c := clientOver(t, st, cfg)
		handle(t, c, "call", penstock.Kind{}, handler)
		drain(t, c, penstock.WorkOptions{Concurrency: 500})
		limits, err := c.Limits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range limits {
			if n := l.State.InFlight(); n != 0 {
				t.Errorf("%s: %d in flight, nothing runs", l.Name, n)
			}
		}
		if most != 2 {
			t.Errorf("%d ran at a time, the limit is 2", most)
		}
	})
}

// The store believes that a worker holds a job it never got: it is given back.
func TestReconcileGivesBack(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
		working(t, c, penstock.WorkOptions{Queues: []penstock.WorkQueue{{Name: "mine"}}})
		pass(time.Second)
		id := enqueue(t, c, "call", 1) // in a queue it does not serve
		st := c.Store()
		workers, err := st.Workers(t.Context())
		if err != nil || len(workers) != 1 {
			t.Fatalf("%d workers, error %v", len(workers), err)
		}
		res, err := st.Claim(t.Context(), store.ClaimRequest{Worker: workers[0].ID, Token: 99, Kinds: []string{"call"}, Places: 1})
		if err != nil || len(res.Jobs) != 1 {
			t.Fatalf("claimed %d, error %v", len(res.Jobs), err)
		}
		pass(4 * time.Second)
		wantState(t, c, id, store.Running, "")
		pass(10 * time.Second)
		if j := wantState(t, c, id, store.Waiting, ""); j.Starts != 0 || j.Attempts != 0 {
			t.Errorf("%d starts, %d attempts", j.Starts, j.Attempts)
		}
	})
}

// A worker that was declared dead drops what it held and goes on.
func TestDeclaredDead(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var seen calls
		handle(t, c, "call", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[int]) error {
			if seen.note("call") > 1 {
				return nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), penstock.ErrLeaseLost) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return nil
		})
		id := enqueue(t, c, "call", 1)
		working(t, c, penstock.WorkOptions{})
		pass(time.Second)
		workers, err := c.Store().Workers(t.Context())
		if err != nil || len(workers) != 1 {
			t.Fatalf("%d workers, error %v", len(workers), err)
		}
		if err := c.Store().Deregister(t.Context(), workers[0].ID); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if j := wantState(t, c, id, store.Done, ""); j.Starts != 2 {
			t.Errorf("%d starts", j.Starts)
		}
		if err := c.Health(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A worker that was declared dead, and cannot take on a new identity because the
// store is down, still ends when it is told to.
func TestStopWhileDeclaredDead(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := storetest.Faulty(memory.New(memory.Options{}), func(c storetest.Call) storetest.Fault {
			switch {
			case c.Verb == "Claim":
				return storetest.Fault{Before: store.ErrUnknownWorker}
			case c.Verb == "Register" && c.N > 1:
				return storetest.Fault{Before: storetest.ErrFault}
			}
			return storetest.Fault{}
		})
		c := clientOver(t, st, penstock.Config{})
		handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Work(ctx, penstock.WorkOptions{}) }()
		pass(time.Second)
		if st.Calls("Register") < 3 {
			t.Errorf("%d calls of Register: the worker was not declared dead", st.Calls("Register"))
		}
		cancel()
		pass(time.Minute)
		select {
		case <-ended:
		default:
			t.Error("Work does not end while the worker tries to take on a new identity")
		}
		st.SetPlan(nil)
	})
}

// An outcome that the store will never take does not hold up the others.
func TestPoisonedOutcome(t *testing.T) {
	virtual(t, func(t *testing.T) {
		p := &poisoned{Store: memory.New(memory.Options{})}
		c := clientOver(t, p, penstock.Config{})
		handle(t, c, "call", penstock.Kind{}, func(_ context.Context, j *penstock.Job[int]) error { return j.SetResult(j.Args) })
		var ids []int64
		for i := range 50 {
			ids = append(ids, enqueue(t, c, "call", i))
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- c.Work(ctx, penstock.WorkOptions{}) }()
		pass(time.Minute)
		for i, id := range ids {
			if i != 13 {
				wantState(t, c, id, store.Done, "")
			}
		}
		late := enqueue(t, c, "call", 99)
		pass(10 * time.Second)
		wantState(t, c, late, store.Done, "")
		cancel()
		if err := <-ended; err == nil {
			t.Error("Work does not say that an outcome was not stored")
		}
	})
}

// poisoned refuses every batch that holds the result 13.
type poisoned struct{ store.Store }

func (p *poisoned) Finish(ctx context.Context, fs []store.Finish) ([]store.Finished, error) {
	for _, f := range fs {
		if string(f.Result) == "13" {
			return nil, errStore
		}
	}
	return p.Store.Finish(ctx, fs)
}
