package httpcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/limit/header"
	"github.com/penstockhq/penstock/retry"
)

// An Answer is what an API answered. The header and body belong to the caller
// of the function that is given it.
type Answer struct {
	Status    int
	Header    http.Header
	Body      []byte // at most Options.MaxResponse bytes
	Truncated bool   // there was more, or the body broke off
	Latency   time.Duration
}

// caller makes the calls of one process. It is safe for concurrent use.
type caller struct {
	o       Options
	headers http.Header // of the process, filled in
	secrets scrubber    // what is secret in them
	random  func() float64
	traced  bool // the transport is known to tell when it has a connection
}

// outcome is what one call came to.
type outcome struct {
	status  int
	latency time.Duration
	result  json.RawMessage
	detail  json.RawMessage
	err     error // for penstock; nil: done
}

// call makes one call: the attempt-th of its job, with the job's key.
func (c *caller) call(ctx context.Context, r *Request, key string, attempt int) outcome {
	begin := time.Now()
	if err := errors.Join(r.Validate(), CheckKey(key)); err != nil {
		return c.noAnswer(0, penstock.Permanent(err))
	}
	secrets := c.secrets.clone()
	req, keySent, err := c.build(ctx, r, key, &secrets)
	if err != nil {
		// Another process, or this one after a restart, may have what is missing.
		return c.noAnswer(0, penstock.NotSent(describe(r, &secrets, err)))
	}
	trace := &trip{}
	a, err := c.send(req, r.FollowRedirects, trace, begin)
	if a == nil {
		return c.noAnswer(time.Since(begin), c.sendFailed(ctx, r, &secrets, trace, err))
	}
	result := newResult(a, &secrets)
	result.Response = secrets.json(result.Response)
	out := outcome{
		status: a.Status, latency: a.Latency,
		result: result.encode(), detail: newDetail(a, &secrets),
	}
	said := header.Read(a.Status, a.Header, a.Body, time.Now())
	_ = penstock.ObserveHeaders(ctx, "", said) // it fails only where there is no job to tell of
	if c.o.Classify != nil && err == nil {
		if out.err = c.o.Classify(a); out.err != nil {
			return out
		}
	}
	v := verdictOn{
		request: r, answer: a, said: said, broke: err, keySent: keySent,
		refusal: trace.refusal, secrets: &secrets,
		wait: func(stated time.Duration) time.Duration {
			return c.o.Retry.DelayAtLeast(attempt, min(stated, maxWait), c.random())
		},
	}
	out.err = v.judge()
	return out
}

func (c *caller) noAnswer(latency time.Duration, err error) outcome {
	return outcome{latency: latency, result: Result{LatencySeconds: seconds(latency)}.encode(), err: err}
}

// build makes the request as it goes out, with its references filled in.
func (c *caller) build(ctx context.Context, r *Request, key string, secrets *scrubber) (req *http.Request, keySent bool, err error) {
	if err := r.CheckEnv(c.o.Env); err != nil {
		return nil, false, err
	}
	// What comes from the environment into a header is taken for a secret; in a URL it
	// may as well be a region or an account, which answers rightly repeat.
	lookup := func(inHeader bool) func(name string) (string, error) {
		return func(name string) (string, error) {
			v, ok := c.o.Env(name)
			if !ok {
				return "", &UnsetError{Name: name}
			}
			secrets.add(v, inHeader || looksSecret(name))
			return v, nil
		}
	}
	address, err := fillURL(r.URL, lookup(false))
	if err != nil {
		return nil, false, err
	}
	body, contentType, err := r.content()
	if err != nil {
		return nil, false, err
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	if req, err = http.NewRequestWithContext(ctx, r.verb(), address, reader); err != nil {
		return nil, false, inner(err)
	}
	req.Header.Set("User-Agent", userAgent)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for name, values := range c.headers {
		req.Header[name] = values
	}
	for _, name := range sortedNames(r.Headers) {
		v, err := expand(r.Headers[name], lookup(true))
		if err != nil {
			return nil, false, err
		}
		secrets.addHeader(name, v)
		req.Header.Set(name, v)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	return req, setKey(req.Header, c.o.keyHeader(r.KeyHeader), key), nil
}

// replayed are the headers that net/http takes as leave to send a request again
// by itself when the connection breaks. That would be a call without a permit.
var replayed = []string{"Idempotency-Key", "X-Idempotency-Key"}

// setKey puts the job's key in the named header, unless the request gives a key
// there itself, and says whether a key is sent. It writes the name in small
// letters where that keeps net/http from knowing it; HTTP/2 does so anyway.
func setKey(h http.Header, name, key string) (sent bool) {
	if name != "" && key != "" && h.Get(name) == "" {
		h.Set(name, key)
	}
	sent = name != "" && h.Get(name) != ""
	for _, known := range replayed {
		if v := h[known]; len(v) > 0 {
			delete(h, known)
			h[strings.ToLower(known)] = v
			sent = true
		}
	}
	return sent
}

// send makes the call and reads the answer. An answer with an error is one
// whose body broke off.
func (c *caller) send(req *http.Request, follow bool, t *trip, begin time.Time) (*Answer, error) {
	resp, err := c.roundTrip(req.WithContext(t.watch(req.Context())), follow, t)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	a.Body, a.Truncated, err = readBody(resp, c.o.MaxResponse)
	a.Latency = time.Since(begin)
	return a, err
}

// drain is how much of a body that is too long is read to keep its connection:
// more costs more than a new connection.
const drain = 256 << 10

func readBody(resp *http.Response, most int64) (body []byte, truncated bool, err error) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil, false, nil // what follows is not an answer and may never end
	}
	var b bytes.Buffer
	if n := resp.ContentLength; n > 0 {
		b.Grow(int(min(n, most, 1<<20)) + bytes.MinRead)
	}
	if _, err = io.Copy(&b, io.LimitReader(resp.Body, most)); err != nil {
		return b.Bytes(), true, err
	}
	// To read on shows whether that was all, and after the end the connection
	// can be used again.
	n, err := io.CopyN(io.Discard, resp.Body, drain)
	return b.Bytes(), n > 0 || err != io.EOF, nil
}

// sendFailed says what a call without an answer means.
func (c *caller) sendFailed(ctx context.Context, r *Request, secrets *scrubber, t *trip, err error) error {
	begins := retry.Classify(err) == retry.NeverBegan
	// Without a connection nothing was sent. Where the transport may not tell of
	// one, the error is the proof, if it is about the only request of the call.
	unsent := !t.connected.Load() && t.hops == 0 && (c.traced || begins)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	err = describe(r, secrets, err)
	switch {
	case unsent:
		return penstock.NotSent(err)
	case begins:
		// It is the last of several requests that never began: who reads the
		// cause must not take that for the call.
		return &callError{text: err.Error()}
	}
	return err
}

// describe puts what was called before err, which loses every secret.
func describe(r *Request, secrets *scrubber, err error) error {
	err = inner(err)
	return &callError{
		text: fmt.Sprintf("%s %s: %s", r.verb(), Mask(r.URL), secrets.text(err.Error())),
		err:  err,
	}
}

// callError is an error with a text that is safe to store.
type callError struct {
	text string
	err  error
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.err }

// fillHeaders reads the headers of the process.
func (c *caller) fillHeaders() error {
	var faults []error
	for _, name := range sortedNames(c.o.Headers) {
		for _, raw := range c.o.Headers[name] {
			v, err := expand(raw, func(name string) (string, error) {
				v, ok := c.o.Env(name)
				if !ok {
					return "", &UnsetError{Name: name}
				}
				c.secrets.add(v, true)
				return v, nil
			})
			if err == nil {
				err = checkHeader(name, v)
			}
			if err != nil {
				faults = append(faults, err)
				continue
			}
			c.secrets.addHeader(name, v)
			c.headers.Add(name, v)
		}
	}
	return errors.Join(faults...)
}
