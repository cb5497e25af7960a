// Package penstocktest helps to test handlers and the code that enqueues jobs.
//
// [NewClient] is a client over a store in memory. [Run] enqueues one job, has
// it started once and tells what became of it. [Drain] works until nothing is
// left; inside testing/synctest hours of delays and limits pass in
// milliseconds. [Enqueued] returns the jobs that code under test has enqueued.
package penstocktest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// NewClient returns a client over a store in memory, closed when the test ends.
// Without a logger in cfg it logs nothing.
func NewClient(tb testing.TB, cfg penstock.Config) *penstock.Client {
	tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	st := memory.New(memory.Options{})
	c, err := penstock.New(st, cfg)
	if err != nil {
		tb.Fatalf("penstocktest: %v", err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("penstocktest: close: %v", err)
		}
		if err := st.Close(); err != nil {
			tb.Errorf("penstocktest: close: %v", err)
		}
	})
	return c
}

// Result is what became of one start.
type Result struct {
	// Outcome says how the start ended: store.OutcomeDone, OutcomeRetry, ….
	Outcome penstock.Outcome
	// Reason says why the job is dead, if it is.
	Reason penstock.Reason
	// Error is the text of the failure.
	Error string
	// Wait is how long after the start's end the job is due again, if it is.
	Wait time.Duration
	// Refused is the limit that the start paused, and Pause for how long the API
	// asked it to be.
	Refused string
	Pause   time.Duration
	// Value is what the handler set with SetResult.
	Value json.RawMessage
	// Job is the job after the start.
	Job penstock.JobInfo
}

// Run enqueues a job of a kind that c has a handler for, has it started once,
// now, and returns what became of it. Other jobs of c are not started. It fails the
// test if the job is refused, was there already (by its unique key), or cannot start:
// the kind has no handler, or a limit or its queue is paused without an end. For a
// limit that is used up, or a Delay, it waits.
func Run(tb testing.TB, c *penstock.Client, kind string, payload any, opts ...penstock.EnqueueOption) Result {
	tb.Helper()
	// A run of its own keeps other jobs out.
	run := "penstocktest/" + penstock.NewIdempotencyKey()
	e, err := c.Enqueue(tb.Context(), kind, payload, append(opts, penstock.InRun(run, "", "", 0))...)
	if err != nil {
		tb.Fatalf("penstocktest: %v", err)
	}
	if !e.New {
		tb.Fatalf("penstocktest: no job was enqueued: job %d, which is %s, has the unique key", e.ID, e.State)
	}
	ctx, stop := context.WithCancel(tb.Context())
	defer stop()
	ends := make(chan *penstock.End, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Work(ctx, penstock.WorkOptions{Run: run, Concurrency: 1, OnEnd: func(end *penstock.End) {
			if end.Outcome == store.OutcomeReturned {
				return // too late for its slot, it is started again
			}
			select {
			case ends <- end:
				stop()
			default:
			}
		}})
	}()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	before := "" // what held it at the last look: a worker that has just begun may not be known yet
	var end *penstock.End
	for end == nil {
		select {
		case end = <-ends:
			err = <-ended
		case err = <-ended:
			select {
			case end = <-ends: // both came at once
			default:
				tb.Fatalf("penstocktest: the job of kind %q was not started: %v", kind, err)
			}
		case <-look.C:
			why := stuck(ctx, c, e.ID)
			if why != "" && why == before {
				stop()
				<-ended
				tb.Fatalf("penstocktest: the job of kind %q will not be started: %s", kind, why)
			}
			before = why
		}
	}
	if err != nil {
		tb.Fatalf("penstocktest: %v", err)
	}
	job, err := c.Job(context.WithoutCancel(ctx), e.ID)
	if err != nil {
		tb.Fatalf("penstocktest: %v", err)
	}
	r := Result{Outcome: end.Outcome, Reason: end.Reason, Error: end.Error, Refused: end.Refused, Pause: end.Pause,
		Value: end.Result, Job: job}
	if !end.NextAt.IsZero() {
		r.Wait = max(end.NextAt.Sub(end.Ended), 0)
	}
	return r
}

// stuck says what keeps a job from its start that no time ends; "": nothing.
func stuck(ctx context.Context, c *penstock.Client, id int64) string {
	waits, err := c.Store().Why(ctx, id)
	if err != nil {
		return "" // it ended
	}
	for _, w := range waits {
		switch w.Cause {
		case dispatch.CauseNoWorker, dispatch.CauseQueue:
			return w.Text
		case dispatch.CauseLimit:
			if w.Until == limit.Never && w.Why != limit.Full {
				return w.Text
			}
		}
	}
	return ""
}

// Drain runs the jobs of c until none is left, waiting or running. A job that
// nothing will ever start, as under a limit that is paused, is waited for.
func Drain(tb testing.TB, c *penstock.Client) {
	tb.Helper()
	if err := c.Work(tb.Context(), penstock.WorkOptions{Drain: true}); err != nil {
		tb.Fatalf("penstocktest: %v", err)
	}
}

// Enqueued returns the jobs of a kind that wait, oldest first, with their payloads.
func Enqueued(tb testing.TB, c *penstock.Client, kind string) []penstock.JobInfo {
	tb.Helper()
	f := penstock.Filter{Kind: kind, States: []penstock.State{penstock.Waiting}, Bodies: true}
	var all []penstock.JobInfo
	for {
		jobs, err := c.Jobs(tb.Context(), f)
		if err != nil {
			tb.Fatalf("penstocktest: %v", err)
		}
		if len(jobs) == 0 {
			return all
		}
		all = append(all, jobs...)
		f.AfterID = jobs[len(jobs)-1].ID
	}
}

// Payload decodes a job's payload.
func Payload[T any](tb testing.TB, job penstock.JobInfo) T {
	tb.Helper()
	var v T
	if err := json.Unmarshal(job.Payload, &v); err != nil {
		tb.Fatalf("penstocktest: payload of job %d: %v", job.ID, err)
	}
	return v
}
