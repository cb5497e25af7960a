package penstock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
)

func TestPanicsAreFailures(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{OnDead: func(context.Context, penstock.JobInfo) { panic("in the hook, too") }})
		once := penstock.Kind{Retry: retry.Policy{MaxAttempts: 1}, Classify: func(error) error { panic("and here") }}
		handle(t, c, "panics", once, func(context.Context, *penstock.Job[int]) error { panic("no such map") })
		handle(t, c, "exits", once, func(context.Context, *penstock.Job[int]) error { runtime.Goexit(); return nil })
		handle(t, c, "fine", once, func(context.Context, *penstock.Job[int]) error { return nil })
		id, exits := enqueue(t, c, "panics", 1), enqueue(t, c, "exits", 1)
		fine := enqueue(t, c, "fine", 1, penstock.Priority(1))
		drain(t, c, penstock.WorkOptions{Concurrency: 1})
		j := wantState(t, c, id, store.Dead, store.Exhausted)
		if !strings.Contains(j.Error, "no such map") || !strings.Contains(j.Error, "handler_test.go") || len(j.Error) > 5000 {
			t.Errorf("error %q", j.Error)
		}
		wantState(t, c, exits, store.Dead, store.Exhausted)
		wantState(t, c, fine, store.Done, "")
	})
}

func TestTimeout(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		k := penstock.Kind{Retry: retry.Policy{MaxAttempts: 1}}
		handle(t, c, "listens", k, func(ctx context.Context, _ *penstock.Job[int]) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), penstock.ErrTimeout) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return ctx.Err()
		})
		begun := time.Now()
		general := enqueue(t, c, "listens", 1)
		own := enqueue(t, c, "listens", 1, penstock.Timeout(time.Second))
		drain(t, c, penstock.WorkOptions{})
		for id, want := range map[int64]time.Duration{general: penstock.DefaultTimeout, own: time.Second} {
			j := wantState(t, c, id, store.Dead, store.Exhausted)
			if got := time.UnixMicro(j.FinishedAt).Sub(begun); got < want || got > want+time.Second || !strings.HasPrefix(j.Error, "timed out after "+want.String()) {
				t.Errorf("job %d: ended after %v with %q, want %v", id, got, j.Error, want)
			}
		}
	})
}

// A handler that ignores its context is ended by the worker, which says so.
func TestLeakedHandler(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newClient(t, penstock.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		release := make(chan struct{})
		handle(t, c, "deaf", penstock.Kind{Retry: retry.Policy{MaxAttempts: 1}, Timeout: 10 * time.Second},
			func(context.Context, *penstock.Job[int]) error { <-release; return nil })
		handle(t, c, "fine", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
		id := enqueue(t, c, "deaf", 1)
		stop := working(t, c, penstock.WorkOptions{Concurrency: 1})
		pass(40 * time.Second)
		j := wantState(t, c, id, store.Dead, store.Exhausted)
		if !strings.Contains(j.Error, "did not return") || !strings.Contains(log.String(), "place is lost") {
			t.Errorf("error %q, log %s", j.Error, log.String())
		}
		fine := enqueue(t, c, "fine", 1)
		pass(time.Second)
		wantState(t, c, fine, store.Waiting, "")
		close(release)
		pass(time.Second)
		wantState(t, c, fine, store.Done, "")
		stop()
		wantState(t, c, id, store.Dead, store.Exhausted)
	})
}

// Shutdown gives back what has not begun, lets handlers end, and keeps outcomes.
func TestShutdown(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"slow": "1/s burst 1"}})
		var seen calls
		handle(t, c, "k", penstock.Kind{}, func(ctx context.Context, j *penstock.Job[time.Duration]) error {
			seen.note("begun")
			select {
			case <-time.After(j.Args):
				return nil
			case <-ctx.Done():
				if !errors.Is(context.Cause(ctx), penstock.ErrStopped) {
					t.Errorf("cause %v", context.Cause(ctx))
				}
				return ctx.Err()
			}
		})
		short, long := enqueue(t, c, "k", 5*time.Second), enqueue(t, c, "k", time.Hour, penstock.Timeout(2*time.Hour))
		for range 5 {
			enqueue(t, c, "k", time.Second, penstock.Limit("slow"))
		}
		ctx, cancel := context.WithCancel(context.Background())
		stopNow := make(chan struct{})
		ended := make(chan error, 1)
		go func() { ended <- c.Work(ctx, penstock.WorkOptions{StopNow: stopNow}) }()
		pass(1020 * time.Millisecond) // the next slot is granted and not yet there
		cancel()
		begun := seen.count("begun")
		pass(10 * time.Second)
		if n := seen.count("begun"); n != begun {
			t.Errorf("%d starts after the end was asked for", n-begun)
		}
		wantState(t, c, short, store.Done, "")
		if err := c.Health(t.Context()); err != nil {
			t.Errorf("health in the grace: %v", err)
		}
		close(stopNow)
		if err := <-ended; err != nil {
			t.Errorf("Work: %v", err)
		}
		if j := wantState(t, c, long, store.Waiting, ""); j.Attempts != 0 {
			t.Errorf("%d attempts", j.Attempts)
		}
		info, err := c.LimitByName(t.Context(), "slow")
		if err != nil || info.State.InFlight() != 0 || info.State.Used(time.Minute, time.Now().UnixMicro()) != 1 {
			t.Errorf("in flight %d, used %d (the start not begun is given back), error %v", info.State.InFlight(), info.State.Used(time.Minute, time.Now().UnixMicro()), err)
		}
		if workers, err := c.Store().Workers(t.Context()); err != nil || len(workers) != 0 {
			t.Errorf("%d workers are registered, error %v", len(workers), err)
		}
	})
}

func TestMiddleware(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var order []string
		wrap := func(name string) penstock.Middleware {
			return func(next penstock.HandlerFunc) penstock.HandlerFunc {
				return func(ctx context.Context, j *penstock.RawJob) error {
					order = append(order, name+" before "+string(j.Args))
					err := next(ctx, j)
					order = append(order, name+" after")
					if err != nil {
						return penstock.Permanent(err)
					}
					return nil
				}
			}
		}
		c := newClient(t, penstock.Config{Middleware: []penstock.Middleware{wrap("outer"), wrap("inner")}})
		handle(t, c, "k", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
			order = append(order, "handler")
			return errors.New("boom")
		})
		id := enqueue(t, c, "k", 7)
		drain(t, c, penstock.WorkOptions{})
		if got := strings.Join(order, ", "); got != "outer before 7, inner before 7, handler, inner after, outer after" {
			t.Errorf("order: %s", got)
		}
		wantState(t, c, id, store.Dead, store.Rejected)
	})
}

// TestI1_TextIsStored: NUL or broken UTF-8 in arguments or errors broke whole
// batches (hatchet-dev/hatchet#4611).
func TestI1_TextIsStored(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var mu sync.Mutex
		got := map[int64][]byte{}
		handle(t, c, "raw", penstock.Kind{Retry: retry.Policy{MaxAttempts: 1}}, func(_ context.Context, j *penstock.Job[[]byte]) error {
			mu.Lock()
			got[j.ID] = j.Args
			mu.Unlock()
			if err := j.SetResult(j.Args); err != nil {
				t.Error(err)
			}
			return errors.New("bad\x00text\xff" + strings.Repeat("x", 1<<20))
		})
		payloads := [][]byte{[]byte(`{"a":"\u0000","\u0000":["\u0000"]}`), []byte(`"\ud800"`), []byte(`"\\u0000"`), {0, 0xff, 0xfe}, []byte("plain"), {}}
		var jobs []penstock.NewJob
		for _, p := range payloads {
			jobs = append(jobs, penstock.NewJob{Kind: "raw", Payload: p})
		}
		done, err := c.EnqueueMany(t.Context(), jobs)
		if err != nil {
			t.Fatal(err)
		}
		drain(t, c, penstock.WorkOptions{})
		for i, e := range done {
			j := wantState(t, c, e.ID, store.Dead, store.Exhausted)
			if !bytes.Equal(got[e.ID], payloads[i]) || !bytes.Equal(j.Payload, payloads[i]) || !bytes.Equal(j.Result, payloads[i]) {
				t.Errorf("%q came back as %q, %q, result %q", payloads[i], got[e.ID], j.Payload, j.Result)
			}
			if strings.ContainsRune(j.Error, 0) || len(j.Error) > 5000 || !strings.HasPrefix(j.Error, "bad") {
				t.Errorf("error of %d bytes, %.30q", len(j.Error), j.Error)
			}
		}
	})
}

// TestI3_NumbersKeepTheirDigits: large integers passed through floating point
// (contribsys/faktory#380, sidekiq/sidekiq#2478).
func TestI3_NumbersKeepTheirDigits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		text := `[9007199254740993,899999999999999990,9223372036854775807,0.1,1e400]`
		var seen []string
		handle(t, c, "k", penstock.Kind{Retry: retry.Policy{MaxAttempts: 2}}, func(_ context.Context, j *penstock.Job[json.RawMessage]) error {
			seen = append(seen, string(j.Args))
			return errors.New("boom")
		})
		id := enqueue(t, c, "k", json.RawMessage(text), penstock.Delay(time.Second))
		drain(t, c, penstock.WorkOptions{})
		if err := c.Replay(t.Context(), []int64{id}, penstock.ReplayOptions{}); err != nil {
			t.Fatal(err)
		}
		drain(t, c, penstock.WorkOptions{})
		if len(seen) != 4 {
			t.Errorf("%d starts, want 2 and 2 after the replay", len(seen))
		}
		for _, s := range append(seen, string(job(t, c, id).Payload)) {
			if s != text {
				t.Errorf("came back as %s", s)
			}
		}
	})
}

// A payload that cannot be decoded is dead with the reason, after no call.
func TestUndecodablePayload(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		handle(t, c, "sms", penstock.Kind{}, func(context.Context, *penstock.Job[message]) error {
			t.Error("the handler was called")
			return nil
		})
		id := enqueue(t, c, "sms", []byte(`{"To": 7`))
		drain(t, c, penstock.WorkOptions{})
		if j := wantState(t, c, id, store.Dead, store.Rejected); !strings.Contains(j.Error, "cannot be decoded") || j.Starts != 1 {
			t.Errorf("%d starts, error %q", j.Starts, j.Error)
		}
	})
}

// One line per ended start.
func TestLog(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var mu sync.Mutex
		var log bytes.Buffer
		c := newClient(t, penstock.Config{Logger: slog.New(slog.NewJSONHandler(&lockedWriter{&mu, &log}, nil))})
		handle(t, c, "sms", penstock.Kind{}, func(_ context.Context, j *penstock.Job[int]) error {
			if j.Attempts == 0 {
				return errors.New("first line\nsecond line")
			}
			return nil
		})
		enqueue(t, c, "sms", 1)
		drain(t, c, penstock.WorkOptions{})
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines:\n%s", len(lines), log.String())
		}
		var first struct {
			Kind, Outcome, Error string
			Job, Start           int64
			Next                 time.Time
		}
		if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
			t.Fatal(err)
		}
		if first.Kind != "sms" || first.Job != 1 || first.Start != 1 || first.Outcome != "retry" || first.Error != "first line" || first.Next.IsZero() {
			t.Errorf("line %s", lines[0])
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}
