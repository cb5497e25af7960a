package httpcall

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/retry"
)

// server is a real one on the loopback interface that counts connections.
type server struct {
	*httptest.Server
	conns atomic.Int64
}

func serve(t *testing.T, h http.HandlerFunc, start ...func(*httptest.Server)) *server {
	t.Helper()
	s := &server{Server: httptest.NewUnstartedServer(h)}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of aborted calls and refused handshakes
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	if len(start) == 0 {
		s.Start()
	}
	for _, f := range start {
		f(s.Server)
	}
	t.Cleanup(s.Close)
	return s
}

// wire returns a caller over a transport of its own, closed with the test.
func wire(t *testing.T, o Options) *caller {
	t.Helper()
	transport := newTransport()
	transport.Proxy = nil
	t.Cleanup(transport.CloseIdleConnections)
	o.Transport = transport
	return mustCaller(t, o)
}

// TestOneStartIsOneCall: net/http sends a request with an Idempotency-Key again
// by itself when its connection breaks, without asking for a permit.
func TestOneStartIsOneCall(t *testing.T) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		t.Run(name, func(t *testing.T) {
			var keys []string
			var mu sync.Mutex
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				mu.Lock()
				keys = append(keys, r.Header.Get(name))
				n := len(keys)
				mu.Unlock()
				if n == 2 { // on the connection of the first call
					panic(http.ErrAbortHandler)
				}
			})
			c := wire(t, Options{KeyHeader: name})
			r := Request{URL: s.URL, Body: []byte(`{}`)}
			if out := c.call(t.Context(), &r, "k1", 1); out.err != nil {
				t.Fatal(out.err)
			}
			out := c.call(t.Context(), &r, "k1", 1)
			if kindOf(out.err) != "transient" {
				t.Errorf("got %v, want a transient failure that may have been sent", out.err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(keys) != 2 || keys[0] != "k1" || keys[1] != "k1" {
				t.Errorf("the API saw %q, want k1 twice", keys)
			}
		})
	}
}

// TestOneStartIsOneCallOfASafeMethod: net/http sends a GET again, too, when a kept
// connection breaks.
func TestOneStartIsOneCallOfASafeMethod(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		for _, body := range []string{"", "{}"} {
			t.Run(method+body, func(t *testing.T) {
				var calls atomic.Int64
				s := serve(t, func(w http.ResponseWriter, r *http.Request) {
					got, _ := io.ReadAll(r.Body)
					if len(r.TransferEncoding) > 0 || string(got) != body {
						t.Errorf("came with %q, encoded %v, want %q", got, r.TransferEncoding, body)
					}
					if calls.Add(1) == 2 { // on the connection of the first call
						panic(http.ErrAbortHandler)
					}
				})
				c := wire(t, Options{})
				r := Request{URL: s.URL, Method: method, Body: []byte(body)}
				if out := c.call(t.Context(), &r, "k1", 1); out.err != nil {
					t.Fatal(out.err)
				}
				if out := c.call(t.Context(), &r, "k1", 1); kindOf(out.err) != "transient" {
					t.Errorf("got %v, want a transient failure that may have been sent", out.err)
				}
				if n := calls.Load(); n != 2 {
					t.Errorf("the API saw %d calls of 2 starts", n)
				}
			})
		}
	}
}

// TestProvenNotSent: what never reached the API is known not to have happened.
func TestProvenNotSent(t *testing.T) {
	var calls atomic.Int64
	count := func(http.ResponseWriter, *http.Request) { calls.Add(1) }
	closed := serve(t, count)
	closed.Close()
	untrusted := serve(t, count, (*httptest.Server).StartTLS)
	open := serve(t, count)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, tt := range map[string]struct {
		ctx context.Context
		url string
	}{
		"refused connection": {t.Context(), closed.URL},
		"untrusted":          {t.Context(), untrusted.URL},
		"no TLS there":       {t.Context(), strings.Replace(open.URL, "http:", "https:", 1)},
		"stopped before":     {stopped, open.URL},
	} {
		r := Request{URL: tt.url + "?token=${TOKEN}", Body: []byte(`{}`)}
		out := wire(t, Options{Env: env("TOKEN", "tok-12345678")}).call(tt.ctx, &r, "k", 1)
		if !isNotSent(out.err) {
			t.Errorf("%s: got %v", name, out.err)
			continue
		}
		if text := out.err.Error(); strings.Contains(text, "12345678") || !strings.HasPrefix(text, "POST "+Mask(r.URL)) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls were seen", n)
	}
}

// TestTimeout: a call that was sent and not answered in time may have happened.
func TestTimeout(t *testing.T) {
	arrived := make(chan bool, 1)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- true
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(penstock.ErrTimeout)
	}()
	out := wire(t, Options{}).call(ctx, &Request{URL: s.URL}, "k", 1)
	if kindOf(out.err) != "transient" || !strings.Contains(out.err.Error(), penstock.ErrTimeout.Error()) {
		t.Errorf("got %v", out.err)
	}
}

// TestConnectionsAreReused: also after errors, long bodies and many calls at a time.
func TestConnectionsAreReused(t *testing.T) {
	const wide = 100
	var gathered sync.WaitGroup
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wide" {
			gathered.Done()
			gathered.Wait() // all calls are under way at a time
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write(make([]byte, 50_000))
	})
	c := wire(t, Options{MaxResponse: 1000})
	for range 20 {
		c.call(t.Context(), &Request{URL: s.URL}, "", 1)
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections for 20 calls one after the other", n)
	}
	for range 3 {
		gathered.Add(wide)
		var calls sync.WaitGroup
		for range wide {
			calls.Go(func() { c.call(t.Context(), &Request{URL: s.URL + "/wide"}, "", 1) })
		}
		calls.Wait()
	}
	// A few more than needed may be dialled while others come free.
	if n := s.conns.Load(); n > 2*wide {
		t.Errorf("%d connections for 3 times %d calls", n, wide)
	}
}

func TestRedirects(t *testing.T) {
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { t.Error("another host was called") })
	type seen struct{ method, path, body, auth, referer, key string }
	var mu sync.Mutex
	var calls []seen
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		calls = append(calls, seen{r.Method, r.URL.Path, string(body), r.Header.Get("Authorization"), r.Header.Get("Referer"), r.Header.Get("Idempotency-Key")})
		mu.Unlock()
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err != nil {
			_, _ = io.WriteString(w, `"here"`)
			return
		}
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(status)
	})
	tests := []struct {
		name, method, path string
		follow             bool
		want               string // kind of the outcome
		text               string // part of the error
		last               string // method and path of the last call
		calls              int
	}{
		{"not asked", "GET", "/302?to=/end", false, "permanent", "not followed unless", "GET /302", 1},
		{"get", "GET", "/302?to=/end", true, "done", "", "GET /end", 2},
		{"get for good", "GET", "/301?to=end", true, "done", "", "GET /end", 2},
		{"post kept", "POST", "/307?to=/end", true, "done", "", "POST /end", 2},
		{"post kept for good", "POST", "/308?to=/end", true, "done", "", "POST /end", 2},
		{"post taken", "POST", "/303?to=/end", true, "done", "", "GET /end", 2},
		{"post lost", "POST", "/302?to=/end", true, "permanent", "turns a POST into a GET", "POST /302", 1},
		{"post lost for good", "POST", "/301?to=/end", true, "permanent", "turns a POST into a GET", "POST /301", 1},
		{"absolute", "GET", "/302?to=" + s.URL + "/end", true, "done", "", "GET /end", 2},
		{"another host", "GET", "/302?to=" + other.URL, true, "permanent", "another host", "GET /302", 1},
		{"another port", "GET", "/302?to=http://127.0.0.1:1/", true, "permanent", "another host", "GET /302", 1},
		{"another scheme", "GET", "/302?to=file:///etc", true, "permanent", "another host", "GET /302", 1},
		{"with a user", "GET", "/302?to=" + strings.Replace(s.URL, "//", "//me:pw@", 1), true, "permanent", "***@", "GET /302", 1},
		{"no address", "GET", "/302?to=http://%25zz/", true, "permanent", "no address", "GET /302", 1},
		{"no address, not asked", "GET", "/302?to=http://%25zz/", false, "permanent", "not followed", "GET /302", 1},
		{"nowhere", "GET", "/302?to=", true, "permanent", "302 Found", "GET /302", 1},
		{"for ever", "GET", "/302?to=/302", true, "permanent", "302 Found", "GET /302", 2},
		{"secret in it", "GET", "/302?to=/302%3Ftoken=abc", false, "permanent", "token=***", "GET /302", 1},
		{"300", "GET", "/300?to=/end", true, "permanent", "300 Multiple Choices", "GET /300", 1},
		{"304", "GET", "/304?to=/end", true, "permanent", "304 Not Modified", "GET /304", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls = nil
			r := Request{URL: s.URL + tt.path, Method: tt.method, FollowRedirects: tt.follow, Headers: map[string]string{"Authorization": "${LOGIN}"}}
			if tt.method == "POST" {
				r.Body = []byte(`{"n":1}`)
			}
			out := wire(t, Options{Env: env("LOGIN", "log-12345678")}).call(t.Context(), &r, "k1", 1)
			if got := kindOf(out.err); got != tt.want {
				t.Fatalf("got %s (%v), want %s", got, out.err, tt.want)
			}
			if out.err != nil && !strings.Contains(out.err.Error(), tt.text) {
				t.Errorf("got %q, want %q in it", out.err, tt.text)
			}
			last := calls[len(calls)-1]
			if got := last.method + " " + last.path; got != tt.last || len(calls) != tt.calls {
				t.Errorf("%d calls, the last %s; want %d, %s", len(calls), got, tt.calls, tt.last)
			}
			wantBody := ""
			if last.method == "POST" {
				wantBody = `{"n":1}`
			}
			if last.body != wantBody || last.auth != "log-12345678" || last.key != "k1" || last.referer != "" {
				t.Errorf("the last call was %+v", last)
			}
		})
	}
	calls = nil
	out := wire(t, Options{}).call(t.Context(), &Request{URL: s.URL + "/307?to=" + "/307%3Fto=/307", FollowRedirects: true}, "", 1)
	if kindOf(out.err) != "permanent" || len(calls) != 3 {
		t.Errorf("%d calls, %v", len(calls), out.err)
	}
}

// TestEndlessRedirects end after ten.
func TestEndlessRedirects(t *testing.T) {
	var calls atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	})
	out := wire(t, Options{}).call(t.Context(), &Request{URL: s.URL + "/loop", FollowRedirects: true}, "", 1)
	if kindOf(out.err) != "permanent" || calls.Load() != maxHops+1 || !strings.Contains(out.err.Error(), "10 others") {
		t.Errorf("%d calls, %v", calls.Load(), out.err)
	}
}

// TestFailureBehindARedirectIsNotProof: the first call was sent, so a second
// one that could not be made proves nothing about the start.
func TestFailureBehindARedirectIsNotProof(t *testing.T) {
	a := &api{answer: func(n int, _ *http.Request) *http.Response {
		if n == 1 {
			return reply(307, "", "Location", "/next")
		}
		return nil
	}}
	c := mustCaller(t, Options{Transport: dialFails{a}})
	out := c.call(t.Context(), &Request{URL: anURL, FollowRedirects: true, Body: []byte(`{}`)}, "", 1)
	if kindOf(out.err) != "transient" || len(a.seen()) != 2 {
		t.Errorf("got %v after %d calls", out.err, len(a.seen()))
	}
	if retry.Classify(out.err) == retry.NeverBegan {
		t.Errorf("the cause of %v says that the call never began", out.err)
	}
	out = mustCaller(t, Options{Transport: dialFails{&api{answer: func(int, *http.Request) *http.Response { return nil }}}}).
		call(t.Context(), &Request{URL: anURL}, "", 1)
	if kindOf(out.err) != "not sent" {
		t.Errorf("without a redirect: %v", out.err)
	}
}

// dialFails turns broken connections into ones that could not be made.
type dialFails struct{ *api }

func (d dialFails) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.api.RoundTrip(r)
	if err != nil {
		err = &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return resp, err
}

// TestHTTP2: the same over HTTP/2, where an API offers it.
func TestHTTP2(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"proto":%q,"key":%q,"body":%q}`, r.Proto, r.Header.Get("Idempotency-Key"), body)
	}, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
	c := wire(t, Options{})
	c.o.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	out := c.call(t.Context(), &Request{URL: s.URL, Body: []byte(`{}`)}, "k1", 1)
	if got := string(parse(t, out.result).Response); got != `{"proto":"HTTP/2.0","key":"k1","body":"{}"}` {
		t.Errorf("got %s, %v", got, out.err)
	}
}

// TestAgainstTheAPI: through a whole client, against the pretend API at its limit.
func TestAgainstTheAPI(t *testing.T) {
	s, err := apisim.Serve(t.Context(), apisim.Config{
		Algorithm: apisim.Sliding, Limit: 5, Window: time.Second, RetryAfter: apisim.RetryAfterExact,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, _ := newClient(t, Options{})
	if err := c.DeclareLimit(t.Context(), HostLimit(s.URL), "unlimited"); err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for i := range 8 {
		to := "+15550001234"
		if i == 3 {
			to = "nobody"
		}
		ids = append(ids, enqueue(t, c, Request{URL: s.URL + "/messages", Body: []byte(fmt.Sprintf(`{"to":%q,"text":"hello"}`, to))}))
	}
	drainJobs(t, c)
	for i, id := range ids {
		j := jobOf(t, c, id)
		want := penstock.Done
		if i == 3 {
			want = penstock.Dead
		}
		if j.State != want || j.Attempts > 1 {
			t.Errorf("job %d: %v %v after %d attempts: %s", i, j.State, j.Reason, j.Attempts, j.Error)
		}
	}
}
