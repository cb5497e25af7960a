package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

// agent begins the User-Agent of a worker; its number follows.
const agent = "penstock-demo/"

// A tap is the pretend API on a port of its own, and notes which worker made
// which call, and which calls are still without their answer.
type tap struct {
	url  string
	api  *apisim.API
	http *http.Server

	// mu is taken before the first byte of any answer goes out, so that whoever
	// holds it can be sure that a call is still unanswered.
	mu     sync.Mutex
	visits map[string][]*visit // in order, by key
}

// A visit is a call as the tap sees it.
type visit struct {
	worker int
	left   time.Time // when its answer went out; zero before that
}

// serve starts the API on a free port of the loopback interface.
func serve(ctx context.Context, config apisim.Config) (*tap, error) {
	api, err := apisim.New(config)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the pretend API cannot listen: %w", err)
	}
	t := &tap{
		url: "http://" + listener.Addr().String(), api: api,
		visits: map[string][]*visit{},
	}
	t.http = &http.Server{Handler: t, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = t.http.Serve(listener) }() // it ends with close; a failure shows in every call
	return t, nil
}

func (t *tap) close() {
	_ = t.http.Close()
	t.api.Close()
}

// ServeHTTP notes the caller and has the API answer.
func (t *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{}
	v.worker, _ = strconv.Atoi(strings.TrimPrefix(r.UserAgent(), agent)) // 0: somebody else
	key := r.Header.Get("Idempotency-Key")
	t.mu.Lock()
	t.visits[key] = append(t.visits[key], v)
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if v.left.IsZero() {
			v.left = time.Now()
		}
	}
	defer leave() // for a connection that is cut without an answer
	t.api.ServeHTTP(&answering{ResponseWriter: w, first: leave}, r)
}

// answering is a ResponseWriter that tells before the answer goes out.
type answering struct {
	http.ResponseWriter
	first func()
}

func (a *answering) WriteHeader(status int) {
	a.first()
	a.ResponseWriter.WriteHeader(status)
}

// log returns the API's log with the callers. Calls under one key come one
// after the other, so the n-th one logged is the n-th one noted.
func (t *tap) log() []Call {
	log := t.api.Log()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.attribute(log)
}

func (t *tap) attribute(log []apisim.Call) []Call {
	calls := make([]Call, len(log))
	nth := map[string]int{}
	for i, c := range log {
		calls[i] = Call{Call: c}
		if n := nth[c.Key]; n < len(t.visits[c.Key]) {
			v := t.visits[c.Key][n]
			calls[i].Worker, calls[i].Left = v.worker, v.left
		}
		nth[c.Key]++
	}
	return calls
}

// duringCall looks for a call that was delivered and is still without an
// answer, and keeps every answer back while do deals with it. It returns false
// if there is none.
func (t *tap) duringCall(do func(c Call)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := t.attribute(t.api.Log())
	for i := len(calls) - 1; i >= 0; i-- {
		c := calls[i]
		if c.Delivered && c.ok() && c.Left.IsZero() {
			do(c)
			return true
		}
	}
	return false
}
