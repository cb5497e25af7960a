package httpcall

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/store/memory"
)

// offline is a transport to a pretend API that needs no network.
type offline struct{ http.Handler }

func (w offline) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	resp := answer.Result()
	resp.Request = r
	return resp, nil
}

// Two processes share a limit that is higher than the API's. Where its answers say
// what is left, hardly a call is refused; where they do not, some are. A sliding window
// that gives back one call at a time lies between.
func TestWhatIsLeftPreventsRefusals(t *testing.T) {
	jobs := 240
	for _, tt := range []struct {
		name   string
		spec   string
		api    apisim.Config
		most   int // refused
		within time.Duration
	}{
		{"fixed, whole seconds", "10/s", apisim.Config{Algorithm: apisim.Fixed, Limit: 60, Window: 10 * time.Second, Announce: apisim.AnnounceSeconds}, 2, 60 * time.Second},
		{"fixed, exact", "10/s", apisim.Config{Algorithm: apisim.Fixed, Limit: 60, Window: 10 * time.Second, Announce: apisim.AnnounceExact}, 2, 60 * time.Second},
		{"fixed, draft", "10/s", apisim.Config{Algorithm: apisim.Fixed, Limit: 60, Window: 10 * time.Second, Announce: apisim.AnnounceDraft}, 2, 60 * time.Second},
		{"sliding", "10/s", apisim.Config{Algorithm: apisim.Sliding, Limit: 6, Announce: apisim.AnnounceExact}, 12, 70 * time.Second},
		{"sliding, ten seconds", "100/s", apisim.Config{Algorithm: apisim.Sliding, Limit: 200, Window: 10 * time.Second, Announce: apisim.AnnounceExact}, 12, 70 * time.Second},
		{"bucket", "10/s", apisim.Config{Algorithm: apisim.Bucket, Limit: 60, Window: 10 * time.Second, Announce: apisim.AnnounceSeconds}, 2, 90 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.api.Latency, tt.api.RetryAfter = 300*time.Millisecond, apisim.RetryAfterExact
			told, took := callAll(t, tt.spec, tt.api, max(jobs, 9*tt.api.Limit/2))
			tt.api.Announce = apisim.AnnounceNone
			untold, untoldTook := callAll(t, tt.spec, tt.api, max(jobs, 9*tt.api.Limit/2))
			t.Logf("%d calls refused in %v, %d in %v where nothing is said", told, took, untold, untoldTook)
			if told > tt.most || untold <= tt.most {
				t.Errorf("%d calls refused, at most %d wanted; %d where nothing is said", told, tt.most, untold)
			}
			if took > tt.within {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// callAll has two processes make calls, and returns how many were refused.
func callAll(t *testing.T, spec string, config apisim.Config, jobs int) (refused int, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		api, err := apisim.New(config)
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		st := memory.New(memory.Options{})
		begun := time.Now()
		var both sync.WaitGroup
		for i := range 2 {
			c, err := penstock.New(st, penstock.Config{Limits: map[string]string{testHost: spec}, Random: func() float64 { return 0.5 }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := Register(c, Options{Env: env(), Transport: offline{api}}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				for range jobs {
					enqueue(t, c, Request{URL: anURL})
				}
			}
			both.Go(func() {
				if err := c.Work(t.Context(), penstock.WorkOptions{Drain: true, Concurrency: 20}); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		took = time.Since(begun)
		refused = apisim.Refused(api.Log())
		if n := len(api.Log()) - refused; n != jobs {
			t.Errorf("%d calls accepted, want %d", n, jobs)
		}
	})
	return refused, took
}
