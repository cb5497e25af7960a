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
)

// TestD4_LongWaitsHoldNothing: a worker slept through a Retry-After and blocked
// its place, or a long one was ignored (openai/openai-python#3555).
func TestD4_LongWaitsHoldNothing(t *testing.T) {
	for _, wait := range []time.Duration{60, 61, 171, 1800, 7200} {
		wait *= time.Second
		t.Run(wait.String(), func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				c := newClient(t, penstock.Config{Limits: map[string]string{"api": "10/s", "healthy": "10/s"}})
				var seen calls
				handle(t, c, "call", penstock.Kind{}, func(_ context.Context, j *penstock.Job[string]) error {
					if seen.note(j.Args) == 1 && j.Args == "limited" {
						return penstock.RateLimited(wait)
					}
					return nil
				})
				id := enqueue(t, c, "call", "limited", penstock.Limit("api"))
				for range 20 {
					enqueue(t, c, "call", "healthy", penstock.Limit("healthy"))
				}
				working(t, c, penstock.WorkOptions{Concurrency: 2})
				pass(10 * time.Second)
				if n := seen.count("healthy"); n != 20 {
					t.Errorf("%d of 20 healthy calls were made", n)
				}
				if j := wantState(t, c, id, store.Waiting, ""); j.Worker != "" {
					t.Error("it holds a lease while it waits")
				}
				pass(wait)
				at := seen.of("limited")
				if len(at) != 2 || at[1].Sub(at[0]) < wait || at[1].Sub(at[0]) > wait+time.Second {
					t.Errorf("called at %v, want twice, %v apart", at, wait)
				}
				if j := wantState(t, c, id, store.Done, ""); j.Attempts != 0 || j.Throttles != 1 {
					t.Errorf("%d attempts, %d throttles", j.Attempts, j.Throttles)
				}
			})
		})
	}
}

// TestD8_EverybodyWaits: only the refused call waited, the others went on
// drawing refusals (octokit/plugin-throttling.js#629, discordjs/discord.js#4711).
func TestD8_EverybodyWaits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		st := memory.New(memory.Options{})
		var seen calls
		var mu sync.Mutex
		var opens time.Time
		for range 3 {
			c := clientOver(t, st, penstock.Config{Limits: map[string]string{"api": "100/s burst 10, 10 in flight", "other": "unlimited"}})
			handle(t, c, "call", penstock.Kind{}, func(_ context.Context, j *penstock.Job[string]) error {
				<-time.After(20 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				if j.Args == "other" {
					seen.note("other")
					return nil
				}
				if opens.IsZero() {
					opens = time.Now().Add(time.Minute)
				}
				if left := time.Until(opens); left > 0 {
					seen.note("refused")
					return penstock.RateLimited(left)
				}
				seen.note("passed")
				return nil
			})
			working(t, c, penstock.WorkOptions{})
		}
		c := clientOver(t, st, penstock.Config{})
		for range 50 {
			enqueue(t, c, "call", "api", penstock.Limit("api"))
			enqueue(t, c, "call", "other", penstock.Limit("other"), penstock.Delay(10*time.Second))
		}
		pass(59 * time.Second)
		if n := seen.count("refused"); n == 0 || n > 10 {
			t.Errorf("%d calls were refused, at most the 10 in flight may be", n)
		}
		if n := seen.count("other"); n != 50 {
			t.Errorf("%d of 50 other calls were made", n)
		}
		if n := seen.count("passed"); n != 0 {
			t.Errorf("%d calls passed before the time", n)
		}
		pass(5 * time.Second)
		at := seen.of("passed")
		if len(at) != 50 {
			t.Fatalf("%d of 50 passed", len(at))
		}
		noWindowAbove(t, at, 5, 40*time.Millisecond) // no burst: paced 10 ms apart
	})
}

// The throttle budget is time; announced pauses do not count.
func TestThrottleBudget(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"silent": "1/s", "stated": "1/s"}})
		refusing := penstock.Kind{ThrottleBudget: 10 * time.Minute}
		var seen calls
		handle(t, c, "call", refusing, func(_ context.Context, j *penstock.Job[string]) error {
			n := seen.note(j.Args)
			switch {
			case j.Args == "stated" && n <= 20:
				return penstock.RateLimited(time.Hour)
			case j.Args == "stated":
				return nil
			}
			return penstock.RateLimited(0)
		})
		silent := enqueue(t, c, "call", "silent", penstock.Limit("silent"))
		stated := enqueue(t, c, "call", "stated", penstock.Limit("stated"))
		begun := time.Now()
		drain(t, c, penstock.WorkOptions{})
		j := wantState(t, c, silent, store.Dead, store.Throttled)
		if d := time.UnixMicro(j.FinishedAt).Sub(begun); d < 10*time.Minute || d > 13*time.Minute {
			t.Errorf("dead after %v, want soon after 10m", d)
		}
		// 1, 2, 4, … 60 s and then a minute each, give or take a quarter.
		if n := seen.count("silent"); n < 10 || n > 22 {
			t.Errorf("%d calls while refused without a stated wait", n)
		}
		wantState(t, c, stated, store.Done, "")
	})
}

// A job that is refused while others pass waits alone.
func TestRefusedAlone(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}})
		var seen calls
		handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(_ context.Context, j *penstock.Job[string]) error {
			if n := seen.note(j.Args); j.Args == "recipient" && n <= 5 {
				return penstock.RateLimited(10 * time.Second)
			}
			return nil
		})
		id := enqueue(t, c, "call", "recipient")
		for range 500 {
			enqueue(t, c, "call", "others")
		}
		begun := time.Now()
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, store.Done, "")
		others := seen.of("others")
		// The first two refusals may pause the limit for 10 s each; without them
		// 500 calls take 53 s.
		if d := others[len(others)-1].Sub(begun); len(others) != 500 || d > 76*time.Second {
			t.Errorf("%d others took %v: one recipient held them up", len(others), d)
		}
	})
}

// A refusal gives back the starts that wait for their slot.
func TestRefusalGivesBackWaiting(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "100/s burst 1"}})
		var seen calls
		handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(context.Context, *penstock.Job[int]) error {
			seen.note("call")
			return penstock.RateLimited(time.Minute)
		})
		for i := range 10 {
			enqueue(t, c, "call", i)
		}
		working(t, c, penstock.WorkOptions{})
		pass(time.Second)
		if n := seen.count("call"); n != 1 {
			t.Errorf("%d calls were made, the first was refused", n)
		}
	})
}

// Observe, from a handler, reaches the limit; a wrong name is told at once.
func TestObserve(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}})
		var wrong, right error
		handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(ctx context.Context, j *penstock.Job[int]) error {
			wrong = penstock.Observe(ctx, "apj", penstock.Observation{Refused: true})
			right = penstock.Observe(ctx, "api", penstock.Observation{Refused: true, RetryAt: penstock.Micros(time.Now().Add(time.Minute)), Reason: "soft limit"})
			return nil
		})
		id := enqueue(t, c, "call", 1)
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, store.Done, "")
		var unknown *store.UnknownLimitError
		if !errors.As(wrong, &unknown) || right != nil {
			t.Errorf("errors %v, %v", wrong, right)
		}
		info, err := c.LimitByName(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		if until, _, why := info.State.Paused(time.Now().UnixMicro()); until == 0 || why != "soft limit" {
			t.Errorf("paused until %d for %q", until, why)
		}
		if err := penstock.Observe(t.Context(), "api", penstock.Observation{}); !errors.Is(err, penstock.ErrNoJob) {
			t.Errorf("outside of a job: %v", err)
		}
		if s := fmt.Sprint(penstock.RateLimited(time.Second)); s != "rate limited by the API for 1s" {
			t.Errorf("text %q", s)
		}
	})
}

// A start that comes too late for its slot is given back, with its permit; but
// a store that is always slow does not stand still.
func TestLateStarts(t *testing.T) {
	for name, slowClaims := range map[string]int{"once": 1, "always": 1000} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				f := &faulty{Store: memory.New(memory.Options{})}
				slow := 0
				f.claim = func(before bool) error { // only fetch claims
					if !before && slow < slowClaims {
						slow++
						<-time.After(70 * time.Millisecond) // longer than a slot lies ahead and stays good
					}
					return nil
				}
				c := clientOver(t, f, penstock.Config{Limits: map[string]string{"api": "2/s"}})
				returned := 0
				handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(context.Context, *penstock.Job[int]) error { return nil })
				id := enqueue(t, c, "call", 1)
				drain(t, c, penstock.WorkOptions{OnEnd: func(e *penstock.End) {
					if e.Outcome == store.OutcomeReturned {
						returned++
					}
				}})
				if j := wantState(t, c, id, store.Done, ""); j.Starts != 1 || j.Attempts != 0 {
					t.Errorf("%d starts, %d attempts", j.Starts, j.Attempts)
				}
				if name == "once" && returned != 1 || returned == 0 || returned > 10 {
					t.Errorf("given back %d times", returned)
				}
				info, err := c.LimitByName(t.Context(), "api")
				if err != nil || info.State.Used(time.Minute, time.Now().UnixMicro()) != 1 {
					t.Errorf("used %d permits for one call, error %v", info.State.Used(time.Minute, time.Now().UnixMicro()), err)
				}
			})
		})
	}
}
