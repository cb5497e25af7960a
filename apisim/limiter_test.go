package apisim

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestAlgorithms sends calls at given instants and says which are accepted.
func TestAlgorithms(t *testing.T) {
	type at struct {
		ms     float64
		accept bool
	}
	for _, tt := range []struct {
		name   string
		config Config
		calls  []at
	}{
		{"none", Config{}, []at{{0, true}, {0, true}, {0, true}}},
		{"sliding: exactly one window apart", Config{Algorithm: Sliding, Limit: 2},
			[]at{{0, true}, {500, true}, {999.999, false}, {1000, true}, {1000, false}, {1499, false}, {1500, true}}},
		{"sliding: refused calls do not count", Config{Algorithm: Sliding, Limit: 1},
			[]at{{0, true}, {900, false}, {1000, true}}},
		{"sliding: refused calls count if asked", Config{Algorithm: Sliding, Limit: 1, CountRefused: true},
			[]at{{0, true}, {900, false}, {1000, false}, {1999, false}, {2999, true}}},
		{"fixed: twice the limit around an edge", Config{Algorithm: Fixed, Limit: 2},
			[]at{{990, true}, {995, true}, {999.999, false}, {1000, true}, {1001, true}, {1002, false}, {2000, true}}},
		{"fixed: edges by the API's own clock", Config{Algorithm: Fixed, Limit: 1, ClockOffset: 250 * time.Millisecond},
			[]at{{0, true}, {749, false}, {750, true}, {1749, false}, {1750, true}}},
		{"bucket: capacity at once, then one by one", Config{Algorithm: Bucket, Limit: 2},
			[]at{{0, true}, {0, true}, {0, false}, {499, false}, {500, true}, {500, false}, {5000, true}, {5000, true}, {5000, false}}},
		{"gcra: burst of a tenth", Config{Algorithm: GCRA, Limit: 20},
			[]at{{0, true}, {0, true}, {0, false}, {49, false}, {50, true}, {99, false}, {100, true}, {1000, true}, {1000, true}, {1000, false}}},
		{"gcra: burst at least 1", Config{Algorithm: GCRA, Limit: 5},
			[]at{{0, true}, {199, false}, {200, true}, {399, false}, {400, true}}},
		{"gcra: burst given", Config{Algorithm: GCRA, Limit: 5, Burst: 3},
			[]at{{0, true}, {0, true}, {0, true}, {0, false}, {200, true}, {200, false}}},
		{"paused", Config{PausedUntil: newClock().now.Add(time.Second)},
			[]at{{0, false}, {999, false}, {1000, true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := newClock()
			tt.config.Now = clock.Now
			api := mustNew(t, tt.config)
			start := clock.now
			for i, call := range tt.calls {
				clock.now = start.Add(ms(call.ms))
				status := get(t, api)
				if accepted := status == http.StatusOK; accepted != call.accept || !accepted && status != http.StatusTooManyRequests {
					t.Fatalf("call %d at %v ms: status %d, want accepted %v", i, call.ms, status, call.accept)
				}
			}
		})
	}
}

// TestLimitsHold: whatever the arrivals, no algorithm accepts more than it
// promises in any window, and the wait a refusal states is exact: one tick
// earlier is refused, too.
func TestLimitsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Algorithm: rapid.SampledFrom([]Algorithm{Sliding, Fixed, Bucket, GCRA}).Draw(t, "algorithm"),
			Limit:     rapid.IntRange(1, 8).Draw(t, "limit"),
			Window:    time.Duration(rapid.IntRange(8, 1000).Draw(t, "window")),
			Burst:     rapid.IntRange(0, 8).Draw(t, "burst"),

			CountRefused: rapid.Bool().Draw(t, "count refused"),
		}.withDefaults()
		most := map[Algorithm]int{
			Sliding: c.Limit, Fixed: 2 * c.Limit, Bucket: 2 * c.Limit,
			GCRA: c.Burst + c.Limit,
		}[c.Algorithm]
		every := time.Duration(int64(c.Window) / int64(c.Limit))
		if c.Algorithm == GCRA || c.Algorithm == Bucket {
			// Windows here are so short that cutting W/N to a whole tick lets some more pass.
			most += int((c.Window-every*time.Duration(c.Limit))/every) + 1
		}
		var l limiter
		var calls []Call
		now := int64(1_000_000)
		for range rapid.IntRange(1, 100).Draw(t, "calls") {
			now += int64(rapid.IntRange(0, int(c.Window)).Draw(t, "gap")) / int64(rapid.IntRange(1, 8).Draw(t, "part"))
			ok, wait := l.admit(&c, now)
			calls = append(calls, Call{At: time.Duration(now), Refused: !ok})
			if ok {
				continue
			}
			if wait <= 0 {
				t.Fatalf("refused with a wait of %v", wait)
			}
			early, late := l, l
			early.arrivals, late.arrivals = slices.Clone(l.arrivals), slices.Clone(l.arrivals)
			if ok, _ := early.admit(&c, now+int64(wait)-1); ok {
				t.Fatalf("accepted one tick before the stated wait of %v", wait)
			}
			if ok, _ := late.admit(&c, now+int64(wait)); !ok {
				t.Fatalf("refused after the stated wait of %v", wait)
			}
		}
		if got := FullestWindow(calls, c.Window); got > most {
			t.Fatalf("%s: %d calls in one window, want at most %d", c.Algorithm, got, most)
		}
	})
}

func TestInFlight(t *testing.T) {
	for name, c := range map[string]Config{
		"as the algorithm":    {Algorithm: InFlight, Limit: 2, Latency: time.Second},
		"beside an algorithm": {Algorithm: Sliding, Limit: 100, MaxInFlight: 2, Latency: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := mustNew(t, c)
				statuses := make(chan int, 3)
				for range 3 {
					go func() { statuses <- get(t, api) }()
					synctest.Wait() // the call now waits out its latency
				}
				count := map[int]int{}
				for range 3 {
					count[<-statuses]++
				}
				if count[200] != 2 || count[429] != 1 {
					t.Fatalf("three at a time: %v, want two accepted", count)
				}
				if got := get(t, api); got != 200 {
					t.Errorf("after they ended: %d", got)
				}
				if s := api.Stats(); s.MostInFlight != 2 || s.Refused != 1 {
					t.Errorf("stats %+v, want at most 2 in flight and 1 refused", s)
				}
			})
		})
	}
}

func TestRetryAfterForms(t *testing.T) {
	for _, tt := range []struct {
		form RetryAfter
		want string
	}{
		{RetryAfterNone, ""},
		{RetryAfterSeconds, "2"},
		{RetryAfterExact, "1.251"},
		{RetryAfterDate, "Sun, 01 Mar 2026 12:00:03 GMT"}, // 12:00:02.0009 by the API's clock
	} {
		t.Run(string(tt.form), func(t *testing.T) {
			clock := newClock()
			api := mustNew(t, Config{Algorithm: Sliding, Limit: 1, Window: 2 * time.Second, RetryAfter: tt.form, Now: clock.Now, ClockOffset: ms(0.9)})
			get(t, api)
			clock.after(ms(749.1))
			answer, _ := send(api, "GET", "/", "", "")
			if got := answer.Header().Get("Retry-After"); answer.Code != 429 || got != tt.want {
				t.Errorf("status %d, Retry-After %q, want 429 and %q", answer.Code, got, tt.want)
			}
			if want := clock.now.Add(api.Config().ClockOffset).Format(http.TimeFormat); answer.Header().Get("Date") != want {
				t.Errorf("Date %q, want %q", answer.Header().Get("Date"), want)
			}
		})
	}
}

func TestChangedLimitCountsWhatWasAccepted(t *testing.T) {
	clock := newClock()
	api := mustNew(t, Config{Algorithm: Sliding, Limit: 4, RetryAfter: RetryAfterExact, Now: clock.Now})
	for range 4 {
		get(t, api)
		clock.after(ms(100))
	}
	for _, change := range []struct {
		limit, status int
		retryAfter    string
	}{
		{4, 429, "0.600"}, // the first of the four leaves the window
		{2, 429, "0.800"}, // the third does
		{5, 200, ""},
	} {
		if err := api.Configure(func(c *Config) { c.Limit = change.limit }); err != nil {
			t.Fatal(err)
		}
		answer, _ := send(api, "GET", "/", "", "")
		if got := answer.Header().Get("Retry-After"); answer.Code != change.status || got != change.retryAfter {
			t.Errorf("limit %d after 4 calls: %d, Retry-After %q, want %d, %q", change.limit, answer.Code, got, change.status, change.retryAfter)
		}
	}
	if err := api.Configure(func(c *Config) { c.Limit = 0 }); err == nil || api.Config().Limit != 5 {
		t.Errorf("a limit of 0: error %v, limit now %d, want an error and 5", err, api.Config().Limit)
	}
}

// What is announced is what is then accepted, and the reset is when it changes.
func TestAnnouncedIsTrue(t *testing.T) {
	for _, tt := range []struct {
		algorithm Algorithm
		left      int // after three calls, 100 ms apart
		reset     string
	}{
		{Sliding, 2, "0.800"}, {Fixed, 2, "0.800"}, {Bucket, 3, "0.400"}, {GCRA, 1, "0.400"},
	} {
		t.Run(string(tt.algorithm), func(t *testing.T) {
			clock := newClock()
			api := mustNew(t, Config{Algorithm: tt.algorithm, Limit: 5, Burst: 3, Announce: AnnounceExact, Now: clock.Now})
			var answer *httptest.ResponseRecorder
			for i := range 3 {
				if i > 0 {
					clock.after(ms(100))
				}
				answer, _ = send(api, "GET", "/", "", "")
			}
			h := answer.Header()
			if got := h.Get("X-RateLimit-Remaining"); got != strconv.Itoa(tt.left) {
				t.Errorf("%q left, want %d", got, tt.left)
			}
			if got := h.Get("X-RateLimit-Reset"); got != tt.reset {
				t.Errorf("reset in %q, want %s", got, tt.reset)
			}
			for range tt.left {
				if status := get(t, api); status != 200 {
					t.Errorf("status %d to a call that was left", status)
				}
			}
			answer, _ = send(api, "GET", "/", "", "")
			if answer.Code != 429 || answer.Header().Get("X-RateLimit-Remaining") != "0" {
				t.Errorf("status %d with %q left after that", answer.Code, answer.Header().Get("X-RateLimit-Remaining"))
			}
		})
	}
}

func TestAnnounceForms(t *testing.T) {
	clock := newClock()
	clock.after(ms(100.5))
	for form, want := range map[Announce][4]string{
		AnnounceNone:    {},
		AnnounceSeconds: {"4", "1", "", ""},
		AnnounceExact:   {"4", "0.900", "", ""},
		AnnounceDraft:   {"", "", `"default";r=4;t=1`, `"default";q=5;w=1`},
	} {
		api := mustNew(t, Config{Algorithm: Fixed, Limit: 5, Announce: form, Now: clock.Now})
		answer, _ := send(api, "GET", "/", "", "")
		h := answer.Header()
		if got := [4]string{h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset"), h.Get("RateLimit"), h.Get("RateLimit-Policy")}; got != want {
			t.Errorf("%s: %q, want %q", form, got, want)
		}
	}
	api := mustNew(t, Config{Algorithm: InFlight, Limit: 5, Announce: AnnounceSeconds})
	if answer, _ := send(api, "GET", "/", "", ""); answer.Header().Get("X-RateLimit-Remaining") != "" {
		t.Error("calls in flight are announced")
	}
}
