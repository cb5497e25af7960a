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

	// mu is held while the first byte of any answer goes out, so that whoever
	// holds it can be sure that a call is still unanswered.
	mu      sync.Mutex
	callers map[string][]int // worker of each call, in order, by key
	open    map[*visit]bool
}

// A visit is a call under way.
type visit struct {
	key    string
	worker int
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
		callers: map[string][]int{}, open: map[*visit]bool{},
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
	v := &visit{key: r.Header.Get("Idempotency-Key")}
	v.worker, _ = strconv.Atoi(strings.TrimPrefix(r.UserAgent(), agent)) // 0: somebody else
	t.mu.Lock()
	t.callers[v.key] = append(t.callers[v.key], v.worker)
	t.open[v] = true
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.open, v)
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
		if n := nth[c.Key]; n < len(t.callers[c.Key]) {
			calls[i].Worker = t.callers[c.Key][n]
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
		if c.Delivered && c.ok() && t.isOpen(c) {
			do(c)
			return true
		}
	}
	return false
}

func (t *tap) isOpen(c Call) bool {
	for v := range t.open {
		if v.key == c.Key && v.worker == c.Worker {
			return true
		}
	}
	return false
}
