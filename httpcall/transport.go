package httpcall

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/penstockhq/penstock/retry"
)

const (
	maxHops  = 10
	hostIdle = 1000 // connections kept to a host: as many as a process makes calls at a time
)

// newTransport returns a transport that keeps a connection for each of many
// calls at a time: the standard one keeps two to a host and closes the rest,
// so that most calls would begin with a handshake.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0 // no bound beyond that of each host
	t.MaxIdleConnsPerHost = hostIdle
	// Below the minute after which many servers close: a connection that
	// closes as it is used again costs an attempt.
	t.IdleConnTimeout = 30 * time.Second
	return t
}

// trip is what happens on the way of one call. The transport may report from
// other goroutines, also after the call is over.
type trip struct {
	follow    bool
	connected atomic.Bool
	hops      int    // redirects followed
	refusal   string // why one was not
}

type tripKey struct{}

// watch returns a context under which a call reports to t.
func (t *trip) watch(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, tripKey{}, t)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { t.connected.Store(true) },
	})
}

// neverSent says whether a call that failed with err is known to have sent
// nothing. Without a connection nothing was; a transport that is not the
// standard library's may not tell, so then only the error counts, and only if
// the call was not sent on to another address before.
func (c *caller) neverSent(t *trip, err error) bool {
	if t.connected.Load() || t.hops > 0 {
		return false
	}
	return c.traced || retry.Classify(inner(err)) == retry.NeverBegan
}

// checkRedirect follows a redirect only if the request asks for it, and then
// only where the call stays what it was: on the same host, not from https to
// http, and with its method and body, unless the API says that the answer to
// what it did is elsewhere (303).
func checkRedirect(next *http.Request, via []*http.Request) error {
	t, _ := next.Context().Value(tripKey{}).(*trip)
	if t == nil || !t.follow {
		return http.ErrUseLastResponse
	}
	last := via[len(via)-1]
	status := 0
	if next.Response != nil {
		status = next.Response.StatusCode
	}
	switch {
	case HostLimit(next.URL.String()) != HostLimit(last.URL.String()):
		t.refusal = "it leads to another host"
	case last.URL.Scheme == "https" && next.URL.Scheme != "https":
		t.refusal = "it leads from https to http"
	case next.Method != last.Method && status != http.StatusSeeOther:
		t.refusal = fmt.Sprintf("it would turn the %s into a %s", last.Method, next.Method)
	case len(via) >= maxHops:
		t.refusal = fmt.Sprintf("%d others came before it", len(via))
	default:
		t.hops++
		next.Header.Del("Referer") // would repeat an address with its secrets
		return nil
	}
	return http.ErrUseLastResponse
}
