package httpcall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
)

// thenOK answers the first n calls with resp, and all others with 200.
func thenOK(n int, resp func() *http.Response) *api {
	return &api{answer: func(i int, _ *http.Request) *http.Response {
		if i <= n {
			return resp()
		}
		return reply(200, `{"ok":true}`)
	}}
}

// gap runs one job whose first call is answered with resp, and returns the time
// between its two calls.
func gap(t *testing.T, resp func() *http.Response) time.Duration {
	t.Helper()
	a := thenOK(1, resp)
	c, _ := newClient(t, Options{Transport: a})
	id := enqueue(t, c, Request{URL: anURL})
	drainJobs(t, c)
	calls := a.seen()
	if j := jobOf(t, c, id); j.State != penstock.Done || len(calls) != 2 {
		t.Fatalf("%v after %d calls: %s", j.State, len(calls), j.Error)
	}
	return calls[1].at.Sub(calls[0].at)
}

// TestD1_RetryAfterFromEndToEnd: numbers that are not plain integers raised
// errors, were dropped, or were read as a year (urllib3/urllib3#2861,
// getsentry/sentry#7919, mastra-ai/mastra#23778).
func TestD1_RetryAfterFromEndToEnd(t *testing.T) {
	const backoff = 0 // no wait is stated
	for value, want := range map[string]time.Duration{
		"0.503": time.Second, "1.5": 2 * time.Second, "292.052": 293 * time.Second, "5 ": 5 * time.Second,
		"-3": backoff, "+3": backoff, "1e3": backoff, "": backoff, "soon": backoff,
		"99999999999999": 24 * time.Hour,
	} {
		t.Run(value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := gap(t, func() *http.Response { return reply(429, "", "Retry-After", value) })
				if want == backoff && (got < 100*time.Millisecond || got > 5*time.Minute) {
					t.Errorf("called again after %v, want ordinary backoff", got)
				}
				// A minute at most is added against a crowd.
				if want != backoff && (got < want || got > want+time.Minute) {
					t.Errorf("called again after %v, want %v", got, want)
				}
			})
		})
	}
}

// TestD3_DatesFromEndToEnd: a date must be read against the server's clock.
func TestD3_DatesFromEndToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := gap(t, func() *http.Response {
			server := time.Now().UTC().Add(-time.Minute) // ours is a minute ahead
			return reply(429, "", "Retry-After", server.Add(30*time.Second).Format(http.TimeFormat), "Date", server.Format(http.TimeFormat))
		})
		if got < 30*time.Second || got > 40*time.Second {
			t.Errorf("called again after %v, want 30 s", got)
		}
	})
}

// TestD4_LongWaits: the header was ignored above a cap, or the worker slept
// the whole time in its place (openai/openai-python#3555, openai/openai-node#1840).
func TestD4_LongWaits(t *testing.T) {
	for _, wait := range []int{60, 61, 171, 1800, 7200} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := map[string]bool{}
				a := &api{}
				a.answer = func(_ int, r *http.Request) *http.Response {
					key := keyOf(r)
					if r.URL.Host == testHost && !refused[key] && len(refused) < 2 {
						refused[key] = true
						return reply(429, "", "Retry-After", fmt.Sprint(wait))
					}
					return reply(200, "")
				}
				c, _ := newClient(t, Options{Transport: a})
				if err := c.DeclareLimit(t.Context(), "healthy.example", "unlimited"); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				for range 2 {
					enqueue(t, c, Request{URL: anURL})
				}
				for range 20 {
					enqueue(t, c, Request{URL: "https://healthy.example/"})
				}
				drainJobs(t, c) // with two places
				for _, call := range a.seen() {
					at := call.at.Sub(begin)
					if strings.Contains(call.url, "healthy") && at > time.Second {
						t.Errorf("a healthy call waited %v", at)
					}
					if strings.Contains(call.url, testHost) && at > time.Second && at < time.Duration(wait)*time.Second {
						t.Errorf("the limited API was called after %v", at)
					}
				}
			})
		})
	}
}

// TestD10_503KeepsItsWait: an outage with a Retry-After is a failure, which is
// tried again no earlier than that.
func TestD10_503KeepsItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := gap(t, func() *http.Response { return reply(503, "", "Retry-After", "90") })
		if got < 90*time.Second || got > 2*time.Minute {
			t.Errorf("called again after %v, want 90 s and a little", got)
		}
	})
}

// TestIdempotencyKey: the key is the same at every start, and each job's own.
func TestIdempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[string][]string{}
		a := &api{}
		a.answer = func(_ int, r *http.Request) *http.Response {
			path := r.URL.Path
			seen[path] = append(seen[path], keyOf(r))
			switch len(seen[path]) {
			case 1:
				return nil // a broken connection
			case 2:
				return reply(503, "")
			case 3:
				return reply(429, "", "Retry-After", "1")
			case 4:
				return reply(409, "")
			case 5:
				return reply(422, "") // dead
			}
			return reply(200, "")
		}
		c, _ := newClient(t, Options{Transport: a})
		var ids []int64
		for i := range 3 {
			ids = append(ids, enqueue(t, c, Request{URL: fmt.Sprintf("%s/%d", anURL, i)}))
		}
		drainJobs(t, c)
		if err := c.Replay(t.Context(), ids, penstock.ReplayOptions{}); err != nil {
			t.Fatal(err)
		}
		drainJobs(t, c)
		all := map[string]bool{}
		for path, keys := range seen {
			if len(keys) != 6 {
				t.Errorf("%s: %d calls, want 6", path, len(keys))
			}
			for _, k := range keys {
				if k != keys[0] || len(k) < 32 {
					t.Errorf("%s: keys %v", path, keys)
				}
			}
			all[keys[0]] = true
		}
		if len(all) != 3 {
			t.Errorf("%d keys for 3 jobs", len(all))
		}
	})
}

// TestResultsAreKept: of a done job, a rejected one and an exhausted one.
func TestResultsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{answer: func(_ int, r *http.Request) *http.Response {
			switch {
			case strings.HasSuffix(r.URL.Path, "/good"):
				return reply(201, `{"id": 9007199254740993}`)
			case strings.HasSuffix(r.URL.Path, "/bad"):
				return reply(422, `{"error": "no such number"}`)
			}
			return nil
		}}
		var calls []Call
		told := make(chan Call, 16)
		c, _ := newClient(t, Options{Transport: a, Retry: retry.Policy{MaxAttempts: 2}, OnCall: func(c Call) { told <- c }})
		for _, tt := range []struct {
			path     string
			state    penstock.State
			reason   penstock.Reason
			status   int
			response string
			starts   int
		}{
			{"/good", penstock.Done, "", 201, `{"id":9007199254740993}`, 1},
			{"/bad", penstock.Dead, "rejected", 422, `{"error":"no such number"}`, 1},
			{"/gone?token=abc", penstock.Dead, "exhausted", 0, `null`, 2},
		} {
			id := enqueue(t, c, Request{URL: anURL + tt.path})
			drainJobs(t, c)
			j := jobOf(t, c, id)
			if j.State != tt.state || j.Reason != tt.reason || j.Starts != tt.starts {
				t.Errorf("%s: %v %v after %d starts: %s", tt.path, j.State, j.Reason, j.Starts, j.Error)
			}
			if r := parse(t, j.Result); r.Status != tt.status || string(r.Response) != tt.response {
				t.Errorf("%s: kept %s", tt.path, j.Result)
			}
			events, err := c.Events(t.Context(), id)
			if err != nil || len(events) == 0 {
				t.Fatalf("%s: %d events, %v", tt.path, len(events), err)
			}
			last := events[len(events)-1]
			if tt.status != 0 && !strings.Contains(string(last.Detail), fmt.Sprintf(`"status":%d`, tt.status)) {
				t.Errorf("%s: detail %s", tt.path, last.Detail)
			}
			for range tt.starts {
				call := <-told
				if call.JobID != id || call.Status != tt.status || (call.Err == nil) != (tt.state == penstock.Done) {
					t.Errorf("%s: told of %+v", tt.path, call)
				}
				calls = append(calls, call)
			}
		}
		if last := calls[len(calls)-1]; last.URL != anURL+"/gone?token=***" || last.Method != "GET" {
			t.Errorf("told of %s %s", last.Method, last.URL)
		}
	})
}

// TestSecretsAreNotStored: not in a payload, a result, an event or the log,
// whatever comes of the call.
func TestSecretsAreNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replies := []int{500, 429, 0, 422}
		secretEcho := echo(0)
		a := &api{}
		a.answer = func(n int, r *http.Request) *http.Response {
			if status := replies[(n-1)%len(replies)]; status != 0 {
				resp := secretEcho.answer(n, r)
				resp.StatusCode = status
				return resp
			}
			return nil
		}
		c, log := newClient(t, Options{
			Transport: a, Env: env("API_TOKEN", "tok-12345678", "LOGIN", "log-12345678"),
			Headers: http.Header{"X-Api-Key": {"hdr-12345678"}},
		})
		id := enqueue(t, c, Request{URL: anURL + "?access_token=${API_TOKEN}", Headers: map[string]string{"Authorization": "Bearer ${LOGIN}"}})
		drainJobs(t, c)
		if h := a.seen()[0]; h.header.Get("Authorization") != "Bearer log-12345678" || h.header.Get("X-Api-Key") != "hdr-12345678" || !strings.Contains(h.url, "tok-12345678") {
			t.Fatalf("the secrets are not sent: %+v", h)
		}
		j := jobOf(t, c, id)
		if j.State != penstock.Dead || len(a.seen()) != 4 {
			t.Errorf("%v after %d calls", j.State, len(a.seen()))
		}
		events, err := c.Events(t.Context(), id)
		if err != nil || len(events) < 4 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		text := fmt.Sprintf("%s %s %s %s", j.Payload, j.Result, j.Error, log)
		for _, e := range events {
			text += e.Error + string(e.Detail)
		}
		if strings.Contains(text, "12345678") {
			t.Errorf("a secret is in %s", text)
		}
		if !strings.Contains(text, "***") {
			t.Errorf("nothing was masked, so the test shows nothing: %s", text)
		}
	})
}

// TestFaultyPayload: what did not come through Job is checked before it is sent.
func TestFaultyPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := always(200, "")
		c, _ := newClient(t, Options{Transport: a})
		for _, payload := range []string{`{"url":"https://h.example","headers":{"Authorization":"Bearer abc"}}`, `{"url":7}`, `{}`, `[]`, ``} {
			done, err := c.Enqueue(t.Context(), Kind, []byte(payload))
			if err != nil {
				t.Fatal(err)
			}
			drainJobs(t, c)
			if j := jobOf(t, c, done.ID); j.State != penstock.Dead || j.Reason != "rejected" {
				t.Errorf("%s: %v %v: %s", payload, j.State, j.Reason, j.Error)
			}
		}
		if n := len(a.seen()); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestAtMostOnce: a call that may have reached the API is not made again; one
// that was refused, or never sent, is.
func TestAtMostOnce(t *testing.T) {
	atMostOnce := func(j *penstock.NewJob) { j.AtMostOnce = true }
	synctest.Test(t, func(t *testing.T) {
		a := thenOK(1, func() *http.Response { return reply(429, "", "Retry-After", "1") })
		c, _ := newClient(t, Options{Transport: a})
		id := enqueue(t, c, Request{URL: anURL}, atMostOnce)
		drainJobs(t, c)
		if j := jobOf(t, c, id); j.State != penstock.Done {
			t.Errorf("after a refusal: %v %v: %s", j.State, j.Reason, j.Error)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := thenOK(1, func() *http.Response { return nil })
		c, _ := newClient(t, Options{Transport: a})
		id := enqueue(t, c, Request{URL: anURL}, atMostOnce)
		drainJobs(t, c)
		if j := jobOf(t, c, id); j.State != penstock.Dead || j.Reason != "in_doubt" || len(a.seen()) != 1 {
			t.Errorf("after a broken connection: %v %v, %d calls", j.State, j.Reason, len(a.seen()))
		}
	})
}

// TestStop: the call ends when its start is told to.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("told to stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		a := &api{answer: func(_ int, r *http.Request) *http.Response {
			cancel(why)
			<-r.Context().Done()
			return nil
		}}
		out := mustCaller(t, Options{Transport: a}).call(ctx, &Request{URL: anURL}, "", 1)
		if !errors.Is(out.err, why) || kindOf(out.err) != "transient" {
			t.Errorf("got %v", out.err)
		}
	})
}
