package httpcall

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
)

// kindOf names what an error asks of penstock.
func kindOf(err error) string {
	var limited *penstock.RateLimitedError
	var permanent *penstock.PermanentError
	var again *penstock.RetryError
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &limited):
		return "limited"
	case errors.As(err, &permanent):
		return "permanent"
	case errors.As(err, &again):
		return "later"
	case isNotSent(err):
		return "not sent"
	}
	return "transient"
}

func isNotSent(err error) bool {
	var unsent *penstock.NotSentError
	return errors.As(err, &unsent)
}

// TestE7_Statuses: permanent refusals were tried again to exhaustion, or taken
// as success, or 429 as permanent (temporalio/temporal#11225, scylladb/latte#208).
func TestE7_Statuses(t *testing.T) {
	for want, statuses := range map[string][]int{
		"done":      {200, 201, 202, 204, 206, 299},
		"permanent": {100, 101, 199, 300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 409, 410, 411, 413, 415, 418, 421, 422, 423, 424, 426, 428, 431, 451, 499},
		"transient": {408, 425, 500, 501, 502, 503, 504, 507, 511, 520, 524, 598, 599, 999},
		"limited":   {420, 429, 529},
	} {
		for _, status := range statuses {
			out := answered(t, Request{URL: anURL}, "", reply(status, `{"error":"no"}`))
			if got := kindOf(out.err); got != want {
				t.Errorf("%d: got %s (%v), want %s", status, got, out.err, want)
			}
			if out.status != status {
				t.Errorf("%d: reported as %d", status, out.status)
			}
			var e *StatusError
			if want != "done" && (!errors.As(out.err, &e) || e.Status != status) {
				t.Errorf("%d: the error does not tell the status: %v", status, out.err)
			}
		}
	}
}

// TestConflictNeedsAKey: 409 means that the first call with the key is still
// under way, if a key was sent.
func TestConflictNeedsAKey(t *testing.T) {
	tests := []struct {
		name, key, want string
		r               Request
	}{
		{"with the job's key", "k1", "transient", Request{URL: anURL}},
		{"without one", "", "permanent", Request{URL: anURL}},
		{"switched off", "k1", "permanent", Request{URL: anURL, KeyHeader: "-"}},
		{"under another name", "k1", "transient", Request{URL: anURL, KeyHeader: "X-Request-Ref"}},
		{"with the request's own", "", "transient", Request{URL: anURL, Headers: map[string]string{"idempotency-key": "k2"}}},
		{"switched off, but given", "", "transient", Request{URL: anURL, KeyHeader: "-", Headers: map[string]string{"Idempotency-Key": "k2"}}},
	}
	for _, tt := range tests {
		out := answered(t, tt.r, tt.key, reply(409, ""))
		if got := kindOf(out.err); got != tt.want {
			t.Errorf("%s: got %s (%v), want %s", tt.name, got, out.err, tt.want)
		}
	}
	out := answered(t, Request{URL: anURL}, "k1", reply(409, "", "Retry-After", "7"))
	var again *penstock.RetryError
	if !errors.As(out.err, &again) || again.Wait < 7*time.Second {
		t.Errorf("with a stated wait: got %v", out.err)
	}
}

// TestD10_Signals: a limit that is not told by 429 was taken as success or as a
// permanent failure (octokit/plugin-throttling.js#632, OptimalBits/bull#1503).
func TestD10_Signals(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		header []string
		want   string
		wait   time.Duration // the least, for limited and later
	}{
		{"403 with nothing left", 403, "", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "45"}, "limited", 45 * time.Second},
		{"403 that says when", 403, "", []string{"Retry-After", "9"}, "limited", 9 * time.Second},
		{"403 of no permission", 403, "forbidden", nil, "permanent", 0},
		{"503 that says when", 503, "", []string{"Retry-After", "9"}, "later", 9 * time.Second},
		{"500 that says when", 500, "", []string{"Retry-After", "9"}, "later", 9 * time.Second},
		{"529", 529, "", []string{"Retry-After", "9"}, "limited", 9 * time.Second},
		{"200 with an error in it", 200, `{"error":"rate_limited"}`, nil, "limited", 3 * time.Second},
		{"200 without one", 200, `{}`, nil, "done", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustCaller(t, Options{
				Transport: always(tt.status, tt.body, tt.header...),
				Classify: func(a *Answer) error {
					if a.Status == 200 && string(a.Body) == `{"error":"rate_limited"}` {
						return penstock.RateLimited(3 * time.Second)
					}
					return nil
				},
			})
			out := c.call(t.Context(), &Request{URL: anURL}, "", 1)
			if got := kindOf(out.err); got != tt.want {
				t.Fatalf("got %s (%v), want %s", got, out.err, tt.want)
			}
			var limited *penstock.RateLimitedError
			if errors.As(out.err, &limited) && limited.Wait != tt.wait {
				t.Errorf("pauses for %v, want %v", limited.Wait, tt.wait)
			}
			var again *penstock.RetryError
			if errors.As(out.err, &again) && (again.Wait < tt.wait || again.Wait > tt.wait*5/4) {
				t.Errorf("again in %v, want at least %v and at most a quarter more", again.Wait, tt.wait)
			}
		})
	}
}

// TestD5_HeaderTwice: a header sent twice was joined as "7, 7" and refused
// (DataDog/datadog-api-client-python#3460).
func TestD5_HeaderTwice(t *testing.T) {
	for _, tt := range []struct {
		headers []string
		want    time.Duration
	}{
		{[]string{"Retry-After", "7", "Retry-After", "7"}, 7 * time.Second},
		{[]string{"Retry-After", "5", "Retry-After", "60"}, time.Minute},
		{[]string{"X-RateLimit-Reset", "5", "X-RateLimit-Reset", "60"}, time.Minute},
	} {
		out := answered(t, Request{URL: anURL}, "", reply(429, "", tt.headers...))
		var limited *penstock.RateLimitedError
		if !errors.As(out.err, &limited) || limited.Wait != tt.want {
			t.Errorf("%v: got %v, want %v", tt.headers, out.err, tt.want)
		}
	}
}

// TestWaitOfAFailure: a stated wait is a floor for the backoff, not its
// replacement, and one of years is capped.
func TestWaitOfAFailure(t *testing.T) {
	for _, tt := range []struct {
		stated   string
		attempt  int
		low, top time.Duration
	}{
		{"0", 1, 750 * time.Millisecond, 1250 * time.Millisecond},
		{"1", 5, 12 * time.Second, 20 * time.Second},
		{"60", 1, time.Minute, 75 * time.Second},
		{"99999999999", 1, 24 * time.Hour, 25 * time.Hour},
	} {
		c := mustCaller(t, Options{Transport: always(503, "", "Retry-After", tt.stated)})
		for _, dice := range []float64{0, 0.5, 0.999} {
			c.random = func() float64 { return dice }
			var again *penstock.RetryError
			out := c.call(t.Context(), &Request{URL: anURL}, "", tt.attempt)
			if !errors.As(out.err, &again) || again.Wait < tt.low || again.Wait > tt.top {
				t.Errorf("stated %s, attempt %d: got %v, want %v to %v", tt.stated, tt.attempt, out.err, tt.low, tt.top)
			}
		}
	}
}

func TestErrorText(t *testing.T) {
	out := answered(t, Request{URL: anURL + "?api_key=abc", Method: "put"}, "",
		reply(http.StatusServiceUnavailable, "<h1>Down</h1>\r\n  for \x00 \xff maintenance"))
	const want = "PUT https://api.example.com/v1/things?api_key=***: 503 Service Unavailable: <h1>Down</h1> for � maintenance"
	if out.err == nil || out.err.Error() != want {
		t.Errorf("got  %v\nwant %s", out.err, want)
	}
	long := answered(t, Request{URL: anURL}, "", reply(500, string(make([]byte, 1<<16))+"é"))
	if n := len(long.err.Error()); n > 400 {
		t.Errorf("an error of %d bytes", n)
	}
}

func TestOptionsValidate(t *testing.T) {
	for name, o := range map[string]Options{
		"same key for all":  {Headers: http.Header{"idempotency-key": {"1"}}},
		"under its name":    {Headers: http.Header{"X-Ref": {"1"}}, KeyHeader: "X-Ref"},
		"smuggling":         {Headers: http.Header{"X": {"1\r\nY: 2"}}},
		"bad name":          {Headers: http.Header{"X Y": {"1"}}},
		"bad reference":     {Headers: http.Header{"X": {"${"}}},
		"unset reference":   {Headers: http.Header{"X": {"${NOT_SET}"}}},
		"bad key header":    {KeyHeader: "X Y"},
		"negative response": {MaxResponse: -1},
		"more than is kept": {MaxResponse: 64<<20 + 1},
	} {
		o.Env = env()
		if _, err := newCaller(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := newCaller(Options{Headers: http.Header{"Idempotency-Key": {"1"}}, KeyHeader: "-"}); err != nil {
		t.Errorf("a header that is not the key's: %v", err)
	}
}

func TestKeyHeader(t *testing.T) {
	for i, tt := range []struct{ process, request, want string }{
		{"", "", "Idempotency-Key"}, {"X-Ref", "", "X-Ref"}, {"-", "", ""},
		{"", "X-Own", "X-Own"}, {"-", "X-Own", "X-Own"}, {"X-Ref", "-", ""},
	} {
		a := always(200, "")
		r := Request{URL: anURL, KeyHeader: tt.request}
		c := mustCaller(t, Options{Transport: a, KeyHeader: tt.process})
		if out := c.call(t.Context(), &r, "key-"+strconv.Itoa(i), 1); out.err != nil {
			t.Fatal(out.err)
		}
		for _, name := range []string{"Idempotency-Key", "X-Ref", "X-Own"} {
			want := ""
			if name == tt.want {
				want = "key-" + strconv.Itoa(i)
			}
			if got := a.seen()[0].header.Get(name); got != want {
				t.Errorf("%+v: %s is %q, want %q", tt, name, got, want)
			}
		}
	}
}

// TestHeadersOfTheProcess: they are sent with every call, and a request's own win.
func TestHeadersOfTheProcess(t *testing.T) {
	a := always(200, "")
	c := mustCaller(t, Options{
		Transport: a, Env: env("TOKEN", "tok-1"),
		Headers: http.Header{"authorization": {"Bearer ${TOKEN}"}, "X-A": {"1", "2"}, "X-B": {"1"}, "Content-Type": {"application/x-ndjson"}, "Host": {"other.example"}},
	})
	for range 2 {
		if out := c.call(t.Context(), &Request{URL: anURL, Headers: map[string]string{"x-b": "own"}, Body: []byte(`{}`)}, "k", 1); out.err != nil {
			t.Fatal(out.err)
		}
	}
	for _, call := range a.seen() {
		h := call.header
		if h.Get("Authorization") != "Bearer tok-1" || len(h["X-A"]) != 2 || len(h["X-B"]) != 1 || h.Get("X-B") != "own" ||
			h.Get("Content-Type") != "application/x-ndjson" || call.host != "other.example" || h.Get("User-Agent") != "penstock" {
			t.Errorf("sent %v to %s", h, call.host)
		}
	}
}
