package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

func TestClassify(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	read := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	parse := parseError("http://[::1")
	for _, tt := range []struct {
		name string
		err  error
		want Class
	}{
		{"nil", nil, None},
		{"unknown", errors.New("boom"), Transient},
		{"deadline", fmt.Errorf("call: %w", context.DeadlineExceeded), Transient},
		{"cancelled", context.Canceled, Transient},
		{"i/o timeout", os.ErrDeadlineExceeded, Transient},
		{"reset", &url.Error{Op: "Post", URL: "http://x", Err: read}, Transient},
		{"bare reset", syscall.ECONNRESET, Transient},
		{"torn answer", io.ErrUnexpectedEOF, Transient},
		{"dial refused", dial, NeverBegan},
		{"dial refused, wrapped", fmt.Errorf("send: %w", &url.Error{Op: "Post", URL: "http://x", Err: dial}), NeverBegan},
		{"dial timeout", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, NeverBegan},
		{"name not found", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, NeverBegan},
		{"proxy", &net.OpError{Op: "proxyconnect", Err: read}, NeverBegan},
		{"certificate", &url.Error{Op: "Get", Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}, NeverBegan},
		{"bad address", parse, Permanent},
		{"no such network", &net.OpError{Op: "dial", Err: net.UnknownNetworkError("carrier pigeon")}, Permanent},
		{"unsupported", fmt.Errorf("x: %w", errors.ErrUnsupported), Permanent},
		{"joined, both never began", errors.Join(dial, dial), NeverBegan},
		{"joined, one was sent", errors.Join(dial, read), Transient},
		{"joined, one permanent", errors.Join(read, parse), Permanent},
		{"two wrapped", fmt.Errorf("%w after %w", dial, errors.New("first call failed")), Transient},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Classify(tt.err); got != tt.want {
				t.Errorf("Classify(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}

// What net/http really returns, against servers of this process.
func TestClassifyRealCalls(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	listener.Close()

	reset := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}))
	defer reset.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0) // it would tell of the refused handshake
	untrusted.StartTLS()
	defer untrusted.Close()

	for _, tt := range []struct {
		name, url string
		want      Class
	}{
		{"nobody listens", closed, NeverBegan},
		{"connection dropped", reset.URL, Transient},
		{"untrusted certificate", untrusted.URL, NeverBegan},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := &http.Client{Transport: &http.Transport{}}
			_, err := client.Get(tt.url)
			if err == nil {
				t.Fatal("the call succeeded")
			}
			if got := Classify(err); got != tt.want {
				t.Errorf("Classify(%v) = %v, want %v", err, got, tt.want)
			}
		})
	}
}

// TestRepeatsOfTheTransport: net/http repeats a request with an Idempotency-Key
// that was cut off on a reused connection. If that finds nobody listening, the
// error is of a dial, although the first try arrived. Without GetBody there is
// one try, and the error says so.
func TestRepeatsOfTheTransport(t *testing.T) {
	for _, tt := range []struct {
		name string
		once bool
		want Class
	}{
		{"as net/http makes requests", false, NeverBegan},
		{"without GetBody", true, Transient},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var server *httptest.Server
			var calls atomic.Int32
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 2 {
					server.Listener.Close()
					panic(http.ErrAbortHandler)
				}
			}))
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{}}
			post := func() error {
				r, err := http.NewRequest("POST", server.URL, strings.NewReader("pay"))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Idempotency-Key", "k")
				if tt.once {
					r.GetBody = nil
				}
				response, err := client.Do(r)
				if err == nil {
					response.Body.Close()
				}
				return err
			}
			if err := post(); err != nil {
				t.Fatal(err)
			}
			err := post()
			if n := calls.Load(); n != 2 {
				t.Fatalf("the server saw %d calls, want 2", n)
			}
			if got := Classify(err); got != tt.want {
				t.Errorf("Classify(%v) = %v, want %v", err, got, tt.want)
			}
		})
	}
}

func parseError(address string) error {
	_, err := url.Parse(address)
	return err
}
