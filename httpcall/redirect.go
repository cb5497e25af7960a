package httpcall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
)

const maxHops = 10

// trip is what happened on the way of one call.
type trip struct {
	connected atomic.Bool // the transport may tell from another goroutine, and late
	hops      int         // redirects followed
	refusal   error       // why one was not, though it was asked for
}

// watch returns a context under which a call tells when it has a connection.
func (t *trip) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { t.connected.Store(true) },
	})
}

// roundTrip sends the request, and follows redirects if it may. It does not use
// http.Client, whose redirects lose bodies and leave the host.
func (c *caller) roundTrip(req *http.Request, follow bool, t *trip) (*http.Response, error) {
	for {
		resp, err := c.o.Transport.RoundTrip(single(req))
		if err != nil || !follow || !isRedirect(resp) {
			return resp, err
		}
		if t.hops == maxHops {
			t.refusal = fmt.Errorf("%d others came before it", t.hops)
			return resp, nil
		}
		next, err := redirected(req, resp)
		if err != nil {
			t.refusal = err
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, drain) // so that the connection can be used again
		_ = resp.Body.Close()
		req = next
		t.hops++
	}
}

// single keeps net/http from sending a request again by itself, which it does
// with safe methods when a kept connection breaks before the answer. That would
// be a call without a permit. What it cannot rewind, it sends once: so the body is
// one that it cannot rewind, even where it is empty. The price is that a call which
// meets a connection in the moment it is closed fails, and is retried like others.
func single(req *http.Request) *http.Request {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		return req
	}
	once := req.WithContext(req.Context())
	once.GetBody = nil
	if once.Body == nil || once.Body == http.NoBody {
		once.Body = io.NopCloser(strings.NewReader(""))
	}
	return once
}

func isRedirect(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp.Header.Get("Location") != ""
	}
	return false
}

// redirected is the request that a redirect asks for, or why it is not made. It
// must be the same call: on the same host, not from https to http, with its
// method and body; only 303 says that the call was taken, and that what came of
// it is to be fetched (RFC 9110, section 15.4).
func redirected(req *http.Request, resp *http.Response) (*http.Request, error) {
	to, err := req.URL.Parse(resp.Header.Get("Location"))
	if err != nil {
		return nil, fmt.Errorf("it is no address: %w", inner(err))
	}
	switch {
	case !sameHost(to, req.URL):
		return nil, errors.New("it leads to another host")
	case req.URL.Scheme == "https" && to.Scheme != "https":
		return nil, errors.New("it leads from https to http")
	}
	next := req.Clone(req.Context())
	next.URL = to
	switch safe := req.Method == http.MethodGet || req.Method == http.MethodHead; {
	case safe:
	case resp.StatusCode == http.StatusSeeOther:
		next.Method, next.Body, next.GetBody, next.ContentLength = http.MethodGet, nil, nil, 0
		next.Header.Del("Content-Type")
		return next, nil
	case resp.StatusCode == http.StatusMovedPermanently, resp.StatusCode == http.StatusFound:
		return nil, fmt.Errorf("a %d turns a %s into a GET for most clients, so what it means is not certain", resp.StatusCode, req.Method)
	}
	if req.GetBody != nil {
		if next.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func sameHost(a, b *url.URL) bool {
	if a.Scheme != "http" && a.Scheme != "https" || a.User != nil {
		return false
	}
	return HostLimit(a.String()) == HostLimit(b.String())
}
