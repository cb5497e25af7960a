package penstock

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/penstockhq/penstock/limit/header"
)

// Transport wraps an http.RoundTripper (nil: http.DefaultTransport) for the HTTP
// clients of handlers, so that a limit slows down before the API refuses, and a
// swallowed error shows.
//
// Answers that say how many calls are left are told to the limit that
// [RateLimited] would pause, unless the handler calls several hosts that say so.
//
// Of each call made with a handler's context it notes how it ended: an error or
// a status from 400 on is a failure. A handler that returns nil although the last
// call of its start failed is believed, and its job is done; but the start is
// logged as a warning with swallowed=…, the job's history tells of it, and so do
// [End] and [Client.Swallowed].
//
// A handler that means it, as where 404 is an answer like any other, says so
// with [Watch](ctx, nil). What goes wrong while a body is read is not noted.
// The result is as safe for concurrent use as base; of calls made at the same
// time the one that ended last counts.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return watchedTransport{base}
}

// Watch is Transport for calls that are not made over net/http, and returns err:
//
//	return penstock.Watch(ctx, gateway.Capture(ctx, order))
//
// In the client that all handlers use, it sees the errors that a handler drops.
// A nil err says that the last call was well. Without a job it does nothing.
func Watch(ctx context.Context, err error) error {
	if s := startOf(ctx); s != nil {
		s.lastCall(oneLine(err))
	}
	return err
}

// Swallowed is how many starts of this client so far were done by their
// handler's word although their last watched call had failed; see [Transport].
func (c *Client) Swallowed() int64 { return c.swallowed.Load() }

type watchedTransport struct{ base http.RoundTripper }

func (t watchedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.base.RoundTrip(r)
	s := startOf(r.Context())
	if s == nil {
		return answer, err
	}
	// Without the query and a password, which may be secrets.
	call := r.Method + " " + r.URL.Host + r.URL.EscapedPath()
	switch {
	case err != nil:
		s.lastCall(call + ": " + oneLine(err))
	case answer.StatusCode >= 400:
		s.lastCall(strings.TrimSpace(fmt.Sprintf("%s: status %d %s", call, answer.StatusCode, http.StatusText(answer.StatusCode))))
	default:
		s.lastCall("")
	}
	if err == nil && header.Speaks(answer.Header) {
		s.answeredBy(r.URL.Host, header.Read(answer.StatusCode, answer.Header, nil, time.Now()))
	}
	return answer, err
}

// CloseIdleConnections has http.Client.CloseIdleConnections reach the transport below.
func (t watchedTransport) CloseIdleConnections() {
	if below, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		below.CloseIdleConnections()
	}
}

// lastCall notes the failure of a call, or that it was well ("").
func (s *start) lastCall(failure string) {
	s.mu.Lock()
	s.failedCall = failure
	s.mu.Unlock()
}

// swallowing is the failure that a start hides which ends with err, or "". It
// counts those it finds.
func (s *start) swallowing(err error) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.began == 0 || s.failedCall == "" {
		return ""
	}
	s.w.c.swallowed.Add(1)
	return firstLine(cleanText(s.failedCall))
}

// detailWith adds what was swallowed to the detail that a start leaves in its
// job's history, whatever the handler had put there.
func detailWith(swallowed string, detail []byte) []byte {
	if swallowed == "" {
		return detail
	}
	all := map[string]any{}
	if len(detail) > 0 {
		var members map[string]json.RawMessage
		if json.Unmarshal(detail, &members) == nil {
			for name, v := range members {
				all[name] = v
			}
		} else if json.Valid(detail) {
			all["detail"] = json.RawMessage(detail)
		} else {
			all["detail"] = string(detail)
		}
	}
	all["swallowed"] = swallowed
	b, err := json.Marshal(all)
	if err != nil { // only strings and valid JSON: cannot be
		return detail
	}
	return b
}
