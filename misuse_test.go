package penstock_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// This file is about what users do wrong, and what must not come of it.

// TestDrainEndsThoughAHandlerNeverReturns: with its only place lost to a handler
// that ignores its context, a worker that drained did not notice that nothing was
// left.
func TestDrainEndsThoughAHandlerNeverReturns(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		never := make(chan struct{})
		defer close(never)
		handle(t, c, "stubborn", penstock.Kind{Timeout: time.Second, Retry: retry.Policy{MaxAttempts: 1}},
			func(context.Context, *penstock.Job[int]) error { <-never; return nil })
		id := enqueue(t, c, "stubborn", 1)
		begun := time.Now()
		drain(t, c, penstock.WorkOptions{Concurrency: 1, Grace: 2 * time.Second})
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("the drain took %v", took)
		}
		wantState(t, c, id, store.Dead, store.Exhausted)
	})
}

// TestWorkEndsThoughOnDeadHangs: a hook that did not return kept Work from
// returning, for ever.
func TestWorkEndsThoughOnDeadHangs(t *testing.T) {
	for name, hook := range map[string]struct {
		call func(ctx context.Context, never <-chan struct{})
		most time.Duration
	}{
		"until its context ends": {func(ctx context.Context, _ <-chan struct{}) { <-ctx.Done() }, 3 * time.Second},
		"for ever":               {func(_ context.Context, never <-chan struct{}) { <-never }, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				never := make(chan struct{})
				defer close(never)
				c := newClient(t, penstock.Config{OnDead: func(ctx context.Context, _ penstock.JobInfo) { hook.call(ctx, never) }})
				handle(t, c, "k", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return penstock.Permanent(nil) })
				for i := range 20 { // more than are told of at a time
					enqueue(t, c, "k", i)
				}
				begun := time.Now()
				drain(t, c, penstock.WorkOptions{Grace: 2 * time.Second})
				if took := time.Since(begun); took > hook.most {
					t.Errorf("Work took %v", took)
				}
			})
		})
	}
}

// TestCloseLetsWorkRecordWhatHandlersDid: Close took the store away from under
// handlers that were ending, so what they had done was done again.
func TestCloseLetsWorkRecordWhatHandlersDid(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c, err := penstock.Open(t.Context(), "memory:", penstock.Config{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		ends := make(chan *penstock.End, 1)
		begun := make(chan struct{})
		handle(t, c, "k", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
			close(begun)
			<-time.After(3 * time.Second)
			return nil
		})
		enqueue(t, c, "k", 1)
		ended := make(chan error, 1)
		go func() { ended <- c.Work(t.Context(), penstock.WorkOptions{OnEnd: func(e *penstock.End) { ends <- e }}) }()
		<-begun
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Work: %v", err)
		}
		if e := <-ends; e.Outcome != store.OutcomeDone || !e.Recorded {
			t.Errorf("the start ended as %+v", e)
		}
		if err := c.Work(t.Context(), penstock.WorkOptions{}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Work of a closed client: %v", err)
		}
	})
}

// TestAClosedClientRegistersNoWorker: Work and Acquire of a closed client over a
// store that is open left a worker behind that was not there.
func TestAClosedClientRegistersNoWorker(t *testing.T) {
	st := memory.New(memory.Options{})
	c := clientOver(t, st, penstock.Config{Limits: map[string]string{"api": "5/s"}})
	handle(t, c, "k", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Work(t.Context(), penstock.WorkOptions{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Work: %v", err)
	}
	if _, err := c.Acquire(t.Context(), penstock.Draws("api")...); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Acquire: %v", err)
	}
	if workers, err := st.Workers(t.Context()); err != nil || len(workers) != 0 {
		t.Errorf("workers %+v, %v", workers, err)
	}
}

// TestNamesOfPenstockItselfAreRefused: a job of a kind that begins with "penstock:"
// was taken, and was lost with its process, since such kinds are wishes for permits.
func TestNamesOfPenstockItselfAreRefused(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		nothing := func(context.Context, *penstock.Job[int]) error { return nil }
		for what, err := range map[string]error{
			"kind":          penstock.Handle(c, "penstock:mine", nothing, penstock.Kind{}),
			"declared":      c.DeclareKind("penstock:mine", penstock.Kind{}),
			"kind's queue":  c.DeclareKind("mine", penstock.Kind{Queue: "penstock:permits"}),
			"job":           second(c.Enqueue(t.Context(), "penstock:mine", 1)),
			"job's queue":   second(c.Enqueue(t.Context(), "mine", 1, penstock.Queue("penstock:permits"))),
			"job of a load": second(c.NewLoad("run").Add(t.Context(), []penstock.NewJob{{Kind: "penstock:mine"}})),
		} {
			if err == nil || !strings.Contains(err.Error(), `begin with "penstock:" are kept`) {
				t.Errorf("%s: %v", what, err)
			}
		}
		handle(t, c, "k", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[int]) error {
			_, err := penstock.Once(ctx, "penstock:job/1", func(context.Context) (int, error) { return 1, nil })
			return penstock.Permanent(err)
		})
		id := enqueue(t, c, "k", 1)
		drain(t, c, penstock.WorkOptions{})
		if j := wantState(t, c, id, store.Dead, store.Rejected); !strings.Contains(j.Error, "kept for Penstock itself") {
			t.Errorf("Once: %s", j.Error)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestMiddlewareThatReturnsNoHandler: Handle took the kind for one that has no
// handler, and its jobs waited for ever.
func TestMiddlewareThatReturnsNoHandler(t *testing.T) {
	c := newClient(t, penstock.Config{Middleware: []penstock.Middleware{func(penstock.HandlerFunc) penstock.HandlerFunc { return nil }}})
	err := penstock.Handle(c, "k", func(context.Context, *penstock.Job[int]) error { return nil }, penstock.Kind{})
	if err == nil || !strings.Contains(err.Error(), "middleware 0 returned no handler") {
		t.Errorf("got %v", err)
	}
}

// TestNilOptions: a nil option made Enqueue and Once panic.
func TestNilOptions(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		handle(t, c, "k", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[int]) error {
			_, err := penstock.Once(ctx, "e", func(context.Context) (int, error) { return 1, nil }, nil)
			return err
		})
		id := enqueue(t, c, "k", 1, nil)
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, store.Done, "")
	})
}

// TestAJobOfNoWorkerHasNoResult: a handler that a test calls by itself, with a Job
// made by hand, panicked in SetResult.
func TestAJobOfNoWorkerHasNoResult(t *testing.T) {
	job := &penstock.Job[int]{Args: 1}
	if err := errors.Join(job.SetResult(1)); !errors.Is(err, penstock.ErrNoJob) {
		t.Errorf("SetResult: %v", err)
	}
	if err := job.SetDetail(1); !errors.Is(err, penstock.ErrNoJob) {
		t.Errorf("SetDetail: %v", err)
	}
}

// TestAResultThatNoStoreTakes: an outcome with a result beyond what a store can
// keep was tried for ever, and the job ran again at each restart.
func TestAResultThatNoStoreTakes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		handle(t, c, "k", penstock.Kind{}, func(_ context.Context, j *penstock.Job[int]) error {
			return penstock.Permanent(j.SetResult(make([]byte, 512<<20+1)))
		})
		id := enqueue(t, c, "k", 1)
		drain(t, c, penstock.WorkOptions{})
		if j := wantState(t, c, id, store.Dead, store.Rejected); !strings.Contains(j.Error, "the most is 536870912") {
			t.Errorf("error %q", j.Error)
		}
	})
}

type panicking struct{}

func (panicking) MarshalJSON() ([]byte, error) { panic("no JSON of this") }

// TestOnceResultThatIsNotJSON: a repeat of an effect whose result could not be kept
// got a zero value for it, without an error; and one whose result panicked when it
// was written was run again.
func TestOnceResultThatIsNotJSON(t *testing.T) {
	for name, result := range map[string]any{"a function": func() {}, "a panic": panicking{}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				c := newClient(t, penstock.Config{})
				var seen calls
				handle(t, c, "k", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[int]) error {
					got, err := penstock.Once(ctx, "e", func(context.Context) (any, error) {
						seen.note("effect")
						return result, nil
					})
					if err != nil {
						return err
					}
					if got == nil {
						t.Error("no result, and no error")
					}
					return errors.New("the step behind the effect fails")
				})
				id := enqueue(t, c, "k", 1)
				drain(t, c, penstock.WorkOptions{})
				if n := seen.count("effect"); n != 1 {
					t.Errorf("the effect ran %d times", n)
				}
				if j := wantState(t, c, id, store.Dead, store.Rejected); !strings.Contains(j.Error, "could not be kept as JSON") {
					t.Errorf("error %q", j.Error)
				}
			})
		})
	}
}

type idleTransport struct {
	http.RoundTripper
	closed int
}

func (t *idleTransport) CloseIdleConnections() { t.closed++ }

// TestTransportPassesOnCloseIdleConnections: http.Client.CloseIdleConnections did
// nothing behind a watched transport.
func TestTransportPassesOnCloseIdleConnections(t *testing.T) {
	below := &idleTransport{RoundTripper: http.DefaultTransport}
	(&http.Client{Transport: penstock.Transport(below)}).CloseIdleConnections()
	if below.closed != 1 {
		t.Errorf("told %d times", below.closed)
	}
}

// slowRegister is a store over which the first worker does not get registered.
type slowRegister struct {
	store.Store
	gate chan struct{}
}

func (s slowRegister) Register(ctx context.Context, w store.Worker) error {
	select {
	case <-s.gate:
		return s.Store.Register(ctx, w)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestAcquireKeepsToItsContextWhileAnotherOpensTheDesk: it waited for a lock that the
// first Acquire held over a store that did not answer.
func TestAcquireKeepsToItsContextWhileAnotherOpensTheDesk(t *testing.T) {
	virtual(t, func(t *testing.T) {
		gate := make(chan struct{})
		c := clientOver(t, slowRegister{memory.New(memory.Options{}), gate}, penstock.Config{Limits: map[string]string{"api": "5/s"}})
		first := make(chan error, 1)
		go func() {
			p, err := c.Acquire(t.Context(), penstock.Draws("api")...)
			if err == nil {
				err = p.Release(t.Context())
			}
			first <- err
		}()
		pass(time.Second)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		second := make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, penstock.Draws("api")...)
			second <- err
		}()
		select {
		case err := <-second:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Acquire waits, though its context has ended")
		}
		close(gate)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
