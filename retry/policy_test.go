package retry

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const noJitter = -1

func TestDelayTable(t *testing.T) {
	for _, tt := range []struct {
		name    string
		policy  Policy
		attempt int
		random  float64
		want    time.Duration
	}{
		{"zero value, first", Policy{}, 1, 0.5, time.Second},
		{"zero value, doubles", Policy{}, 4, 0.5, 8 * time.Second},
		{"zero value, cap", Policy{}, 7, 0.5, time.Minute},
		{"jitter down", Policy{}, 1, 0, 750 * time.Millisecond},
		{"jitter up", Policy{}, 1, 1, 1250 * time.Millisecond},
		{"jitter at the cap", Policy{}, 50, 1, 75 * time.Second},
		{"no jitter", Policy{Jitter: noJitter}, 2, 0.9, 2 * time.Second},
		{"attempt below 1 is the first", Policy{}, -7, 0.5, time.Second},
		{"random out of range", Policy{}, 1, 17, 1250 * time.Millisecond},
		{"random not a number", Policy{}, 1, math.NaN(), time.Second},
		{"long base, cap unset", Policy{Base: time.Hour, Jitter: noJitter}, 1, 0, time.Hour},
		{"short cap, base unset", Policy{Cap: 200 * time.Millisecond, Jitter: noJitter}, 1, 0, 200 * time.Millisecond},
		{"no cap saturates", Policy{Cap: -1, Jitter: noJitter}, 1e9, 0, math.MaxInt64},
		{"no cap saturates with jitter", Policy{Cap: -1}, 1e9, 1, math.MaxInt64},
		{"constant", Policy{Factor: 1, Base: 3 * time.Second, Jitter: noJitter}, 1e9, 0, 3 * time.Second},
		{"faulty fields count as unset", Policy{Base: -5, Factor: math.NaN(), Jitter: 9}, 2, 0.5, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.policy.Delay(tt.attempt, tt.random); got != tt.want {
				t.Errorf("Delay(%d, %v) = %v, want %v", tt.attempt, tt.random, got, tt.want)
			}
		})
	}
}

// TestE1_BackoffNeverOverflows: exponential backoff overflowed at high attempt
// counts and fell to zero, a hot loop (temporalio/temporal#11225,
// aws/aws-sdk-java#874, onosproject/onos-lib-go#127, scylladb/latte#208).
func TestE1_BackoffNeverOverflows(t *testing.T) {
	for name, p := range map[string]Policy{
		"1s x2 cap 1h":   {Base: time.Second, Factor: 2, Cap: time.Hour, Jitter: noJitter},
		"1ms x10 no cap": {Base: time.Millisecond, Factor: 10, Cap: -1, Jitter: noJitter},
		"1ns x1.01":      {Base: 1, Factor: 1.01, Cap: -1, Jitter: noJitter},
	} {
		t.Run(name, func(t *testing.T) {
			previous := time.Duration(0)
			for attempt := 1; attempt <= 10_000; attempt++ {
				got := p.Delay(attempt, 0)
				if got < previous || got <= 0 {
					t.Fatalf("attempt %d waits %v after %v", attempt, got, previous)
				}
				previous = got
			}
			if want := p.Resolved().Cap; previous != want {
				t.Errorf("attempt 10,000 waits %v, want the cap %v", previous, want)
			}
		})
	}
}

func TestDelayProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Base:   time.Duration(rapid.Int64().Draw(t, "base")),
			Cap:    time.Duration(rapid.Int64().Draw(t, "cap")),
			Factor: rapid.OneOf(rapid.Float64(), rapid.Float64Range(1, 10)).Draw(t, "factor"),
			Jitter: rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1, 1)).Draw(t, "jitter"),
		}
		attempt := rapid.IntRange(-1, 1_000_000_000).Draw(t, "attempt")
		random := rapid.Float64().Draw(t, "random")
		stated := time.Duration(rapid.Int64().Draw(t, "stated"))

		r := p.Resolved()
		if err := r.Validate(); err != nil && p.Validate() == nil {
			t.Fatalf("%+v is valid but resolves to %+v: %v", p, r, err)
		}
		step, next := r.step(attempt), r.step(attempt+1)
		if next < step || step <= 0 || step > r.Cap {
			t.Fatalf("%+v: step %v is followed by %v", r, step, next)
		}
		d := p.Delay(attempt, random)
		if low, high := scale(step, 1-r.Jitter), scale(step, 1+r.Jitter); d < low || d > high {
			t.Fatalf("%+v: Delay %v outside [%v, %v]", r, d, low, high)
		}
		if got := p.DelayAtLeast(attempt, stated, random); got < stated {
			t.Fatalf("%+v: DelayAtLeast(%d, %v) = %v", r, attempt, stated, got)
		}
	})
}

// TestE6_RetriesSpread: jobs that fail together must not come back together,
// nor before a stated wait (sidekiq/sidekiq#480, sidekiq/sidekiq#6413,
// rails/rails#31872, stacksjs/stacks#2298).
func TestE6_RetriesSpread(t *testing.T) {
	const jobs, seed = 500, 6
	for _, tt := range []struct {
		name    string
		attempt int
		stated  time.Duration
		share   int // most retries in any one second of the clock
	}{
		// A spread of s seconds holds 500/s a second on average; the bounds
		// below are half as much again.
		{"16 s step spreads over 8 s", 5, 0, 94},
		{"at the cap over 30 s", 9, 0, 30},
		{"still at the cap", 40, 0, 30},
		{"stated 60 s spreads over 15 s", 1, time.Minute, 55},
		{"stated 10 min spreads over 15 s", 1, 10 * time.Minute, 55},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Logf("seed %d", seed)
			dice := rand.New(rand.NewPCG(seed, 0))
			perSecond := map[int64]int{}
			for range jobs {
				d := Policy{}.DelayAtLeast(tt.attempt, tt.stated, dice.Float64())
				if d < tt.stated {
					t.Fatalf("retry after %v, stated %v", d, tt.stated)
				}
				perSecond[int64(d/time.Second)]++
			}
			for second, n := range perSecond {
				if n > tt.share {
					t.Errorf("second %d holds %d of %d retries, want at most %d", second, n, jobs, tt.share)
				}
			}
		})
	}
}

func TestExhausted(t *testing.T) {
	for _, tt := range []struct {
		max, attempts int
		want          bool
	}{
		{0, 4, false}, {0, 5, true}, {1, 0, false}, {1, 1, true}, {3, 2, false}, {3, 3, true}, {3, 9, true},
	} {
		if got := (Policy{MaxAttempts: tt.max}).Exhausted(tt.attempts); got != tt.want {
			t.Errorf("max %d: Exhausted(%d) = %v, want %v", tt.max, tt.attempts, got, tt.want)
		}
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	if err := (Policy{}).Validate(); err != nil {
		t.Errorf("the zero policy is refused: %v", err)
	}
	if err := (Policy{Cap: -1, Jitter: noJitter, Base: time.Hour}).Validate(); err != nil {
		t.Errorf("no cap and no jitter are refused: %v", err)
	}
	err := Policy{MaxAttempts: -1, Base: -1, Factor: 0.5, Jitter: 1.5}.Validate()
	if err == nil {
		t.Fatal("four faults pass")
	}
	for _, want := range []string{"max attempts", "base", "factor", "jitter"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if err := (Policy{Base: time.Hour, Cap: time.Minute}).Validate(); err == nil {
		t.Error("a cap below the base passes")
	}
}
