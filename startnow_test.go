package penstock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
	"github.com/penstockhq/penstock/store/postgres"
)

// idling runs a worker over a store in memory, with a handler of kind "call", until it is
// idle.
func idling(t *testing.T, o penstock.WorkOptions, call func(ctx context.Context, n int) error) (c *penstock.Client, f *faulty, stop func()) {
	t.Helper()
	f = &faulty{Store: memory.New(memory.Options{})}
	c = clientOver(t, f, penstock.Config{Limits: map[string]string{"api": "100/s"}})
	handle(t, c, "call", penstock.Kind{}, func(ctx context.Context, j *penstock.Job[int]) error { return call(ctx, j.Args) })
	stop = working(t, c, o)
	pass(time.Second)
	return c, f, stop
}

// nothing is a handler.
func nothing(context.Context, int) error { return nil }

// What an idle worker's process enqueues is started without a claim, and is a start like
// any other.
func TestStartedAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var begun, ended calls
		c, f, _ := idling(t, penstock.WorkOptions{
			OnStart: func(*penstock.JobInfo) { begun.note("") },
			OnEnd: func(e *penstock.End) {
				if e.Outcome == store.OutcomeDone && e.Job.Starts == 1 {
					ended.note("")
				}
			},
		}, nothing)
		before, _, _ := f.counts()
		for i := range 3 {
			e, err := c.Enqueue(t.Context(), "call", i, penstock.ExpiresIn(time.Minute), penstock.Attempts(2), penstock.Group(fmt.Sprint(i)))
			if err != nil || !e.New || e.State != store.Running {
				t.Fatalf("%+v, %v", e, err)
			}
			pass(time.Second)
			if j := wantState(t, c, e.ID, store.Done, ""); j.Starts != 1 || j.Attempts != 0 {
				t.Errorf("%d starts, %d attempts", j.Starts, j.Attempts)
			}
		}
		claims, _, started := f.counts()
		if claims != before || started != 3 || begun.count("") != 3 || ended.count("") != 3 {
			t.Errorf("%d claims, %d starts at once, told of %d starts and %d ends: want none and 3", claims-before, started, begun.count(""), ended.count(""))
		}
	})
}

// A started job has a payload of its own, and a failure has it claimed as any other.
func TestStartedAtOnceAndTriedAgain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{})}
		c := clientOver(t, f, penstock.Config{})
		var seen calls
		late := make(chan bool)
		handle(t, c, "raw", penstock.Kind{}, func(_ context.Context, j *penstock.Job[json.RawMessage]) error {
			<-late
			if seen.note(string(j.Args)) < 2 {
				return errors.New("again")
			}
			return nil
		})
		working(t, c, penstock.WorkOptions{})
		pass(time.Second)
		payload := []byte(`"mine"`)
		id := enqueue(t, c, "raw", payload)
		copy(payload, `"YOUR"`)
		close(late)
		pass(time.Hour)
		if j := wantState(t, c, id, store.Done, ""); j.Starts != 2 || seen.count(`"mine"`) != 2 {
			t.Errorf("%d starts, %d with the payload as it was", j.Starts, seen.count(`"mine"`))
		}
		if _, _, started := f.counts(); started != 1 {
			t.Errorf("%d starts at once, want 1", started)
		}
	})
}

// No wish is made where a claim would not bring the job, or brings more than it.
func TestNotStartedAtOnce(t *testing.T) {
	reserve := penstock.WorkOptions{Concurrency: 1, Queues: []penstock.WorkQueue{{Name: "default"}, {Name: "vip", Reserve: 1}}}
	for name, tt := range map[string]struct {
		o    penstock.WorkOptions
		kind string
		opts []penstock.EnqueueOption
		want bool
	}{
		"plain":                      {kind: "call", want: true},
		"a kind that is not served":  {kind: "other"},
		"a queue that is not served": {o: penstock.WorkOptions{Queues: []penstock.WorkQueue{{Name: "vip"}}}, kind: "call"},
		"a queue that is":            {o: penstock.WorkOptions{Queues: []penstock.WorkQueue{{Name: "vip", Max: 1}}}, kind: "call", opts: []penstock.EnqueueOption{penstock.Queue("vip")}, want: true},
		"a place of another queue":   {o: reserve, kind: "call"},
		"the place of the queue":     {o: penstock.WorkOptions{Concurrency: 2, Queues: []penstock.WorkQueue{{Name: "default"}, {Name: "vip", Reserve: 1}}}, kind: "call", opts: []penstock.EnqueueOption{penstock.Queue("vip")}, want: true},
		"a worker of a run":          {o: penstock.WorkOptions{Run: "r"}, kind: "call"},
		"a job of a run":             {kind: "call", opts: []penstock.EnqueueOption{penstock.InRun("r", "1", "h", 1)}},
		"a limit":                    {kind: "call", opts: []penstock.EnqueueOption{penstock.Limit("api")}},
		"a delay":                    {kind: "call", opts: []penstock.EnqueueOption{penstock.Delay(time.Second)}},
		"a unique key":               {kind: "call", opts: []penstock.EnqueueOption{penstock.Unique("u")}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				c, f, _ := idling(t, tt.o, nothing)
				enqueue(t, c, tt.kind, 1, tt.opts...)
				_, wished, started := f.counts()
				if (wished == 1) != tt.want || (started == 1) != tt.want {
					t.Errorf("%d wishes, %d granted: expected one: %t", wished, started, tt.want)
				}
			})
		})
	}
}

// Where the store refuses the wish, the job is claimed as any other, at once if that is
// possible.
func TestWishRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c, f, _ := idling(t, penstock.WorkOptions{Concurrency: 1}, nothing)
		st := c.Store()
		if err := st.PauseQueue(t.Context(), "default", "tea"); err != nil {
			t.Fatal(err)
		}
		id := enqueue(t, c, "call", 1)
		pass(time.Minute)
		wantState(t, c, id, store.Waiting, "")
		if _, wished, started := f.counts(); wished != 1 || started != 0 {
			t.Errorf("%d wishes, %d granted", wished, started)
		}
		if err := st.ResumeQueue(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		wantState(t, c, id, store.Done, "")
		f.set(func(f *faulty) {
			f.insert = func(before bool) error { // a job of the lane comes first
				if before {
					_, err := f.Store.Insert(context.Background(), []store.NewJob{{LaneKey: store.LaneKey{Queue: "default", Kind: "call", Priority: 5}, Payload: []byte("0")}})
					return err
				}
				return nil
			}
		})
		id = enqueue(t, c, "call", 1)
		synctest.Wait()
		wantState(t, c, id, store.Done, "")
		if _, wished, started := f.counts(); wished != 2 || started != 0 {
			t.Errorf("%d wishes, %d granted", wished, started)
		}
	})
}

// Many enqueue at once, handlers among them: never do more run than there are places, and
// each place is there again in the end.
func TestStartsAtOnceKeepToThePlaces(t *testing.T) {
	const places, callers, each = 4, 64, 20
	f := &faulty{Store: memory.New(memory.Options{})}
	c := clientOver(t, f, penstock.Config{})
	var running, most, ended atomic.Int64
	handle(t, c, "call", penstock.Kind{}, func(ctx context.Context, j *penstock.Job[int]) error {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if j.Args > 0 {
			if _, err := c.Enqueue(ctx, "call", 0); err != nil {
				return err
			}
		}
		ended.Add(1)
		return nil
	})
	block, blocked := make(chan bool), make(chan bool, places)
	handle(t, c, "block", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
		blocked <- true
		<-block
		return nil
	})
	working(t, c, penstock.WorkOptions{Concurrency: places})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				if _, err := c.Enqueue(t.Context(), "call", 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	await(t, "all have run", func() bool { return ended.Load() == 2*callers*each })
	for range places { // one by one, as each place is free again
		enqueue(t, c, "block", 1)
		<-blocked
	}
	close(block)
	_, _, started := f.counts()
	t.Logf("%d started at once, at most %d at a time", started, most.Load())
	if most.Load() > places || started == 0 {
		t.Errorf("%d ran at a time, there are %d places; %d were started at once", most.Load(), places, started)
	}
}

// Starts at once take places: what comes when there is none left waits for one.
func TestStartsAtOnceFillThePlaces(t *testing.T) {
	virtual(t, func(t *testing.T) {
		block := make(chan bool)
		c, f, _ := idling(t, penstock.WorkOptions{Concurrency: 2}, func(context.Context, int) error { <-block; return nil })
		before, _, _ := f.counts()
		var ids []int64
		for i := range 4 {
			ids = append(ids, enqueue(t, c, "call", i))
			synctest.Wait()
			want := store.Running
			if i >= 2 {
				want = store.Waiting
			}
			wantState(t, c, ids[i], want, "")
		}
		if claims, wished, started := f.counts(); claims != before || wished != 2 || started != 2 {
			t.Errorf("%d claims, %d wishes, %d granted: want none, 2 and 2", claims-before, wished, started)
		}
		close(block)
		pass(time.Second)
		for _, id := range ids {
			wantState(t, c, id, store.Done, "")
		}
	})
}

// await waits until it is so, for a while.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("still not: %s", what)
		}
	}
}

// An insert that fails, or panics, gives its place back.
func TestWishGivenUp(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c, f, _ := idling(t, penstock.WorkOptions{Concurrency: 1}, nothing)
		hook := func(do func() error) {
			f.set(func(f *faulty) { f.insert = func(bool) error { return do() } })
		}
		for range 3 {
			hook(func() error { return errStore })
			if _, err := c.Enqueue(t.Context(), "call", 1); err == nil {
				t.Error("no error")
			}
			hook(func() error { panic("the store is mad (test)") })
			func() {
				defer func() { _ = recover() }()
				_, _ = c.Enqueue(t.Context(), "call", 1)
			}()
		}
		hook(func() error { return nil })
		id := enqueue(t, c, "call", 1)
		synctest.Wait()
		wantState(t, c, id, store.Done, "")
		if _, wished, started := f.counts(); wished != 7 || started != 1 {
			t.Errorf("%d wishes, %d granted", wished, started)
		}
	})
}

// The reply to an insert that started its job comes when the lease is over, and before the
// worker hears that it was declared dead: the job is with another one by then.
func TestWishWhoseReplyComesAfterTheLease(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var seen calls
		c, f, _ := idling(t, penstock.WorkOptions{}, func(context.Context, int) error { seen.note(""); <-time.After(time.Minute); return nil })
		other := clientOver(t, f.Store, penstock.Config{})
		handle(t, other, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
			seen.note("other")
			<-time.After(time.Minute)
			return nil
		})
		working(t, other, penstock.WorkOptions{})
		f.set(func(f *faulty) {
			f.insert = func(before bool) error {
				if !before {
					f.set(func(f *faulty) { f.cut = true })
					<-time.After(2 * penstock.DefaultLease)
				}
				return nil
			}
		})
		id := enqueue(t, c, "call", 1)
		pass(time.Second)
		f.set(func(f *faulty) { f.cut = false })
		pass(2 * time.Minute)
		wantState(t, c, id, store.Done, "")
		if seen.count("other") != 1 || seen.count("") != 0 {
			t.Errorf("%d calls by the one that was declared dead, %d by the other: want none and one", seen.count(""), seen.count("other"))
		}
	})
}

// The reply to an insert that started its job is lost: the job is given back unstarted, and
// runs once. If the reply is only slow, the job is not given back meanwhile.
func TestWishWhoseReplyIsLost(t *testing.T) {
	for _, lost := range []bool{true, false} {
		virtual(t, func(t *testing.T) {
			var seen calls
			c, f, _ := idling(t, penstock.WorkOptions{}, func(context.Context, int) error { seen.note(""); return nil })
			f.set(func(f *faulty) {
				f.insert = func(before bool) error {
					switch {
					case before:
					case lost:
						return errStore
					default:
						<-time.After(time.Minute) // many heartbeats
					}
					return nil
				}
			})
			if _, err := c.Enqueue(t.Context(), "call", 1); (err != nil) != lost {
				t.Fatal(err)
			}
			jobs, err := c.Store().Jobs(t.Context(), store.Filter{})
			if err != nil || len(jobs) != 1 {
				t.Fatalf("%+v, %v", jobs, err)
			}
			if lost {
				pass(time.Second)
				wantState(t, c, jobs[0].ID, store.Running, "")
			}
			pass(20 * time.Second)
			j := wantState(t, c, jobs[0].ID, store.Done, "")
			events, err := c.Store().Events(t.Context(), j.ID)
			if err != nil || j.Starts != 1 || seen.count("") != 1 || len(events) != 0 {
				t.Errorf("lost %t: %d starts, %d calls, history %+v, %v", lost, j.Starts, seen.count(""), events, err)
			}
		})
	}
}

// A worker that is told to stop waits for an insert that may start a job, and gives the job
// back; one that waited in vain says goodbye, and the job is taken back.
func TestStopDuringAWish(t *testing.T) {
	for _, inVain := range []bool{false, true} {
		virtual(t, func(t *testing.T) {
			var seen calls
			c, f, stop := idling(t, penstock.WorkOptions{Grace: time.Second}, func(context.Context, int) error { seen.note(""); return nil })
			stored, reply := make(chan bool), make(chan bool)
			hold := sync.OnceFunc(func() {
				close(stored)
				<-reply
			})
			f.set(func(f *faulty) {
				f.insert = func(before bool) error {
					if _, wished, _ := f.counts(); !before && wished > 0 {
						hold()
					}
					return nil
				}
			})
			var all sync.WaitGroup
			id := int64(0)
			all.Go(func() {
				e, err := c.Enqueue(context.Background(), "call", 1)
				if err != nil {
					t.Error(err)
				}
				id = e.ID
			})
			<-stored
			stopped := make(chan bool)
			go func() { stop(); close(stopped) }()
			synctest.Wait()
			select {
			case <-stopped:
				t.Error("the worker ended before it knew whether a job was started")
			default:
			}
			f.set(func(f *faulty) { f.insert = nil })
			enqueue(t, c, "call", 2) // no wish is made any more
			if inVain {
				<-stopped
				close(reply)
			} else {
				close(reply)
				<-stopped
			}
			all.Wait()
			pass(time.Second)
			if j := wantState(t, c, id, store.Waiting, ""); seen.count("") != 0 || j.Suspect != inVain {
				t.Errorf("in vain %t: %d calls, the job is %+v", inVain, seen.count(""), j)
			}
			if workers, err := c.Store().Workers(t.Context()); err != nil || len(workers) != 0 {
				t.Errorf("%+v, %v: expected no workers", workers, err)
			}
			drain(t, c, penstock.WorkOptions{})
			if _, wished, _ := f.counts(); wished != 1 || seen.count("") != 2 {
				t.Errorf("%d wishes, %d calls", wished, seen.count(""))
			}
		})
	}
}

// While the insert was under way, the worker was declared dead: the job is somebody else's.
func TestDeclaredDeadDuringAWish(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var seen calls
		c, f, _ := idling(t, penstock.WorkOptions{}, func(context.Context, int) error { seen.note(""); return nil })
		f.set(func(f *faulty) {
			f.insert = func(before bool) error {
				if before {
					return nil
				}
				workers, err := f.Store.Workers(context.Background())
				if err == nil {
					err = f.Store.Deregister(context.Background(), workers[0].ID)
				}
				<-time.After(10 * time.Second) // it hears of it by its next heartbeat
				return err
			}
		})
		id := enqueue(t, c, "call", 1)
		pass(10 * time.Second)
		if j := wantState(t, c, id, store.Done, ""); j.Starts != 2 || seen.count("") != 1 {
			t.Errorf("%d starts, %d calls", j.Starts, seen.count(""))
		}
		f.set(func(f *faulty) { f.insert = nil })
		enqueue(t, c, "call", 2)
		if _, _, started := f.counts(); started != 2 {
			t.Errorf("%d were started at once: expected the worker to go on under its new identity", started)
		}
	})
}

// On files and servers, too.
func TestStartedAtOnceOnStores(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			dsn := filepath.Join(t.TempDir(), "jobs.db")
			if name == "postgres" {
				dsn = pgtest.DSN(t)
				if err := postgres.Migrate(t.Context(), dsn); err != nil {
					t.Fatal(err)
				}
			}
			opened, err := penstock.Open(t.Context(), dsn, penstock.Config{Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = opened.Close() })
			f := &faulty{Store: opened.Store()}
			c := clientOver(t, f, penstock.Config{})
			ran := make(chan int, 1)
			handle(t, c, "call", penstock.Kind{}, func(_ context.Context, j *penstock.Job[int]) error {
				ran <- j.Args
				return nil
			})
			stop := working(t, c, penstock.WorkOptions{})
			n, last := 0, int64(0)
			await(t, "five jobs are started at once", func() bool {
				n++
				last = enqueue(t, c, "call", n, penstock.AtMostOnce())
				if got := <-ran; got != n {
					t.Fatalf("job %d ran, want %d", got, n)
				}
				_, _, started := f.counts()
				return started >= 5
			})
			stop()
			if j := wantState(t, c, last, store.Done, ""); j.Starts != 1 {
				t.Errorf("%d starts", j.Starts)
			}
		})
	}
}
