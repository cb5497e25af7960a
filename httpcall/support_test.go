package httpcall

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
)

// sent is one call that reached the pretend API.
type sent struct {
	at     time.Time
	method string
	url    string
	host   string
	header http.Header
	body   string
}

// api is a transport that answers without a network, so that it works under
// virtual time.
type api struct {
	// answer is called for one call at a time; n counts from 1. nil is a broken
	// connection.
	answer func(n int, r *http.Request) *http.Response

	turn  sync.Mutex
	mu    sync.Mutex
	calls []sent
}

var errBroken = errors.New("connection reset by peer")

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	// As a server reads them, whatever the letter case on the wire.
	header := http.Header{}
	for name, values := range r.Header {
		for _, v := range values {
			header.Add(name, v)
		}
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	a.mu.Lock()
	a.calls = append(a.calls, sent{time.Now(), r.Method, r.URL.String(), r.Host, header, string(body)})
	n := len(a.calls)
	a.mu.Unlock()
	if resp := a.answer(n, r); resp != nil {
		resp.Request = r
		return resp, nil
	}
	return nil, errBroken
}

// keyOf is the idempotency key of a request, as it goes out.
func keyOf(r *http.Request) string {
	for name, values := range r.Header {
		if strings.EqualFold(name, DefaultKeyHeader) {
			return values[0]
		}
	}
	return ""
}

func (a *api) seen() []sent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]sent(nil), a.calls...)
}

// reply makes an answer; headers are names and values in turn.
func reply(status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return &http.Response{
		StatusCode: status, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func always(status int, body string, headers ...string) *api {
	return &api{answer: func(int, *http.Request) *http.Response { return reply(status, body, headers...) }}
}

func env(pairs ...string) LookupEnv {
	return func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func mustCaller(t *testing.T, o Options) *caller {
	t.Helper()
	if o.Env == nil {
		o.Env = env()
	}
	c, err := newCaller(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answered makes one call to an API that gives this answer.
func answered(t *testing.T, r Request, key string, resp *http.Response) outcome {
	t.Helper()
	c := mustCaller(t, Options{Transport: &api{answer: func(int, *http.Request) *http.Response { return resp }}})
	return c.call(t.Context(), &r, key, 1)
}

func parse(t *testing.T, b []byte) Result {
	t.Helper()
	r, err := ParseResult(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// logBuffer is a log that tests read.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const testHost = "api.example.com"

// newClient returns a client over memory that knows the kind and the limit of
// testHost, which has no rate. Its dice always show the middle.
func newClient(t *testing.T, o Options) (*penstock.Client, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	c, err := penstock.Open(t.Context(), "memory:", penstock.Config{
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Limits: map[string]string{testHost: "unlimited"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.Env == nil {
		o.Env = env()
	}
	if err := Register(c, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, log
}

// enqueue stores a call and returns its job's id.
func enqueue(t *testing.T, c *penstock.Client, r Request, change ...func(*penstock.NewJob)) int64 {
	t.Helper()
	job, err := r.Job()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&job)
	}
	done, err := c.EnqueueMany(t.Context(), []penstock.NewJob{job})
	if err != nil {
		t.Fatal(err)
	}
	return done[0].ID
}

// drainJobs runs jobs until none is left.
func drainJobs(t *testing.T, c *penstock.Client) {
	t.Helper()
	if err := c.Work(context.Background(), penstock.WorkOptions{Drain: true, Concurrency: 2}); err != nil {
		t.Fatal(err)
	}
}

func jobOf(t *testing.T, c *penstock.Client, id int64) penstock.JobInfo {
	t.Helper()
	j, err := c.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}
