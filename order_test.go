package penstock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// TestF1_PriorityLasts: priority counted only at first enqueue, and was lost by
// a delay, a retry or a replay (OptimalBits/bull#881, #1755).
func TestF1_PriorityLasts(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}})
		var mu sync.Mutex
		ran := map[string]time.Time{}
		fails := map[string]bool{"retried": true, "dead": true}
		handle(t, c, "k", penstock.Kind{Limits: penstock.Draws("api"), Retry: retry.Policy{Jitter: -1}}, func(_ context.Context, j *penstock.Job[string]) error {
			mu.Lock()
			defer mu.Unlock()
			if fails[j.Args] {
				fails[j.Args] = false
				if j.Args == "dead" {
					return penstock.Permanent(errors.New("at first"))
				}
				return penstock.RetryIn(5*time.Second, errors.New("once"))
			}
			ran[j.Args] = time.Now()
			return nil
		})
		dead := enqueue(t, c, "k", "dead", penstock.Priority(9))
		working(t, c, penstock.WorkOptions{})
		pass(time.Second)
		begun := time.Now()
		for i := range 1000 {
			enqueue(t, c, "k", fmt.Sprint("low", i), penstock.Priority(1))
		}
		enqueue(t, c, "k", "retried", penstock.Priority(9))
		enqueue(t, c, "k", "delayed", penstock.Priority(9), penstock.Delay(5*time.Second))
		go func() {
			for i := range 600 {
				<-time.After(100 * time.Millisecond)
				_, _ = c.Enqueue(context.Background(), "k", fmt.Sprint("mid", i))
			}
		}()
		pass(5 * time.Second)
		replayed := time.Now()
		if err := c.Replay(t.Context(), []int64{dead}, penstock.ReplayOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(60 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		for what, due := range map[string]time.Time{"retried": begun.Add(5100 * time.Millisecond), "delayed": begun.Add(5 * time.Second), "dead": replayed} {
			if got := ran[what]; got.IsZero() || got.Sub(due) > time.Second {
				t.Errorf("%s ran %v after it was due", what, got.Sub(due))
			}
		}
	})
}

// TestF2_ReservedPlaces: long jobs of low priority held every place, so urgent
// ones waited for hours (hibiken/asynq#314).
func TestF2_ReservedPlaces(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var seen calls
		var mu sync.Mutex
		low, mostLow := 0, 0
		handle(t, c, "k", penstock.Kind{Timeout: -1}, func(_ context.Context, j *penstock.Job[string]) error {
			if j.Args == "urgent" {
				seen.note("urgent")
				<-time.After(100 * time.Millisecond)
				return nil
			}
			mu.Lock()
			low++
			mostLow = max(low, mostLow)
			mu.Unlock()
			<-time.After(10 * time.Minute)
			mu.Lock()
			low--
			mu.Unlock()
			return nil
		})
		for range 10 {
			enqueue(t, c, "k", "low", penstock.Queue("low"))
		}
		working(t, c, penstock.WorkOptions{Concurrency: 10, Queues: []penstock.WorkQueue{{Name: "low"}, {Name: "urgent", Reserve: 2}}, Grace: time.Hour})
		pass(time.Second)
		for range 50 {
			enqueue(t, c, "k", "urgent", penstock.Queue("urgent"))
		}
		pass(3 * time.Second)
		if n := seen.count("urgent"); n != 50 {
			t.Errorf("%d of 50 urgent jobs ran within 3 s", n)
		}
		if mostLow != 8 {
			t.Errorf("%d low jobs ran at a time, want 8 of 10 places", mostLow)
		}
	})
}

// Queues in order, and a cap on one of them.
func TestQueuesInOrder(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var order []string
		handle(t, c, "k", penstock.Kind{}, func(_ context.Context, j *penstock.Job[string]) error {
			order = append(order, j.Queue)
			<-time.After(time.Second)
			return nil
		})
		for range 3 {
			enqueue(t, c, "k", "", penstock.Queue("second"))
			enqueue(t, c, "k", "", penstock.Queue("first"))
			enqueue(t, c, "k", "", penstock.Queue("not served"))
		}
		stop := working(t, c, penstock.WorkOptions{Concurrency: 1, Queues: []penstock.WorkQueue{{Name: "first"}, {Name: "second"}}})
		pass(time.Minute)
		stop()
		if want := []string{"first", "first", "first", "second", "second", "second"}; !slices.Equal(order, want) {
			t.Errorf("order %v", order)
		}
	})
}

// TestG4_LastVersionRuns: an update of a job that was running was dropped
// (inngest/inngest#827, graphile/worker#154).
func TestG4_LastVersionRuns(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var ran []int
		handle(t, c, "k", penstock.Kind{}, func(_ context.Context, j *penstock.Job[int]) error {
			ran = append(ran, j.Args)
			<-time.After(time.Second)
			return nil
		})
		working(t, c, penstock.WorkOptions{})
		enqueue(t, c, "k", 1, penstock.Unique("K"))
		pass(100 * time.Millisecond)
		for v := 2; v <= 7; v++ {
			e, err := c.Enqueue(t.Context(), "k", v, penstock.Unique("K"), penstock.Replace())
			if err != nil || !e.New && !e.Replaced {
				t.Fatalf("version %d: %+v, error %v", v, e, err)
			}
		}
		dup, err := c.Enqueue(t.Context(), "k", 8, penstock.Unique("K"))
		if err != nil || dup.New || dup.Replaced || dup.ID == 0 {
			t.Errorf("a plain duplicate: %+v, error %v", dup, err)
		}
		pass(10 * time.Second)
		if !slices.Equal(ran, []int{1, 7}) {
			t.Errorf("ran %v, want 1 and the last version", ran)
		}
		again, err := c.Enqueue(t.Context(), "k", 9, penstock.Unique("K"))
		if err != nil || !again.New {
			t.Errorf("done jobs free the key: %+v, error %v", again, err)
		}
	})
}

// TestK3_CancelMatchesWhatHappened: cancel raced with claim and finish
// (SamSaffron/term-llm#918, riverqueue/river PR #141).
func TestK3_CancelMatchesWhatHappened(t *testing.T) {
	const seed = 3
	virtual(t, func(t *testing.T) {
		t.Logf("seed %d", seed)
		dice := rand.New(rand.NewPCG(seed, 0))
		st := memory.New(memory.Options{})
		c, other := clientOver(t, st, penstock.Config{Limits: map[string]string{"api": "200/s"}}), clientOver(t, st, penstock.Config{})
		var begun, completed, stopped calls
		handle(t, c, "k", penstock.Kind{Limits: penstock.Draws("api")}, func(ctx context.Context, j *penstock.Job[int]) error {
			key := fmt.Sprint(j.ID)
			if begun.note(key) > 1 && completed.count(key)+stopped.count(key) > 0 && j.Args%10 != 0 {
				t.Errorf("job %d ran again", j.ID)
			}
			select {
			case <-time.After(100 * time.Millisecond):
				if j.Args%10 == 0 {
					return errors.New("to be retried")
				}
				completed.note(key)
				return nil
			case <-ctx.Done():
				if !errors.Is(context.Cause(ctx), penstock.ErrCancelled) {
					t.Errorf("cause %v", context.Cause(ctx))
				}
				stopped.note(key)
				return ctx.Err()
			}
		})
		working(t, c, penstock.WorkOptions{})
		var wg sync.WaitGroup
		said := make([]penstock.State, 1000)
		ids := make([]int64, 1000)
		for i := range ids {
			ids[i] = enqueue(t, c, "k", i)
			wait := time.Duration(dice.Int64N(int64(6 * time.Second)))
			wg.Go(func() {
				<-time.After(wait)
				var err error
				if said[i], err = other.Cancel(context.Background(), ids[i]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		pass(time.Minute)
		states := map[penstock.State]int{}
		for i, id := range ids {
			j, key := job(t, c, id), fmt.Sprint(id)
			states[j.State]++
			switch {
			case j.State == store.Done && completed.count(key) != 1,
				j.State == store.Cancelled && completed.count(key) != 0,
				j.State != store.Done && j.State != store.Cancelled,
				said[i] == store.Cancelled && j.State != store.Cancelled:
				t.Errorf("job %d is %v, cancel said %v, it completed %d times", id, j.State, said[i], completed.count(key))
			}
		}
		if states[store.Done] == 0 || states[store.Cancelled] == 0 {
			t.Errorf("states %v: the race was not run", states)
		}
		info, err := c.LimitByName(t.Context(), "api")
		if err != nil || info.State.InFlight() != 0 {
			t.Errorf("in flight %d, error %v", info.State.InFlight(), err)
		}
	})
}

// TestK3_RunningHandlerHears: a running job gets its stop signal within a
// stated time, and is not run again.
func TestK3_RunningHandlerHears(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var heard time.Time
		handle(t, c, "k", penstock.Kind{Timeout: -1}, func(ctx context.Context, _ *penstock.Job[int]) error {
			<-ctx.Done()
			if heard = time.Now(); !errors.Is(context.Cause(ctx), penstock.ErrCancelled) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return ctx.Err()
		})
		id := enqueue(t, c, "k", 1)
		working(t, c, penstock.WorkOptions{})
		pass(time.Second)
		asked := time.Now()
		if s, err := c.Cancel(t.Context(), id); err != nil || s != store.Running {
			t.Fatalf("cancel said %v, error %v", s, err)
		}
		pass(10 * time.Second)
		if d := heard.Sub(asked); heard.IsZero() || d > time.Second {
			t.Errorf("the handler heard of it after %v", d)
		}
		if j := wantState(t, c, id, store.Cancelled, ""); j.Starts != 1 {
			t.Errorf("%d starts", j.Starts)
		}
	})
}
