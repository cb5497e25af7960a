package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

// strictAPI is a pretend API that listens, and remembers the pauses it asked for.
type strictAPI struct {
	sim    *apisim.API
	url    string
	server *http.Server
	ended  chan error

	mu     sync.Mutex
	pauses []span
}

// A span of time, since the API's start.
type span struct{ from, to time.Duration }

func serve(ctx context.Context, c apisim.Config) (*strictAPI, error) {
	sim, err := apisim.New(c)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &strictAPI{sim: sim, url: "http://" + listener.Addr().String(), ended: make(chan error, 1)}
	start := time.Now()
	a.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sim.ServeHTTP(&refusalWriter{ResponseWriter: w, api: a, start: start}, r)
	})}
	go func() { a.ended <- a.server.Serve(listener) }()
	return a, nil
}

func (a *strictAPI) close() error {
	err := a.server.Close()
	a.sim.Close()
	if e := <-a.ended; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// refusalWriter notes what a refusal asks for.
type refusalWriter struct {
	http.ResponseWriter
	api   *strictAPI
	start time.Time
}

func (w *refusalWriter) WriteHeader(status int) {
	if status == http.StatusTooManyRequests {
		if s, err := strconv.ParseFloat(w.Header().Get("Retry-After"), 64); err == nil {
			now := time.Since(w.start)
			w.api.mu.Lock()
			w.api.pauses = append(w.api.pauses, span{now, now + time.Duration(s*float64(time.Second))})
			w.api.mu.Unlock()
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// A showing is how a limit was used, as the API saw it.
type showing struct {
	Calls, Accepted, Refused int
	Seconds                  float64 // first to last accepted call
	Paused                   float64 // seconds of it that refusals had asked to wait
	Rate                     float64 // accepted calls per second that was not paused
	Gross                    float64 // accepted calls per second
	Fullest                  int     // the fullest window
}

// show sums the API's log up.
func (a *strictAPI) show() (showing, error) {
	calls := a.sim.Log()
	s := showing{Calls: len(calls), Refused: apisim.Refused(calls), Fullest: apisim.FullestWindow(calls, a.sim.Config().Window)}
	s.Accepted = s.Calls - s.Refused
	if s.Accepted < 2 {
		return s, fmt.Errorf("the API accepted %d calls", s.Accepted)
	}
	first, last := time.Duration(-1), time.Duration(0)
	for _, c := range calls {
		if !c.Refused {
			if first < 0 || c.At < first {
				first = c.At
			}
			last = max(last, c.At)
		}
	}
	a.mu.Lock()
	paused := length(a.pauses, span{first, last})
	a.mu.Unlock()
	s.Seconds, s.Paused = (last - first).Seconds(), paused.Seconds()
	s.Rate = float64(s.Accepted-1) / (last - first - paused).Seconds()
	s.Gross = float64(s.Accepted-1) / s.Seconds
	return s, nil
}

// length is how much of within the spans cover together.
func length(spans []span, within span) time.Duration {
	spans = slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.from, b.from) })
	sum, done := time.Duration(0), within.from
	for _, s := range spans {
		from, to := max(s.from, done), min(s.to, within.to)
		if to > from {
			sum += to - from
			done = to
		}
	}
	return sum
}
