package apisim

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBody is the largest body of a call, in bytes; beyond it the answer is 413.
const maxBody = 1 << 20

// API is the pretend API: an http.Handler with a memory. It is safe for
// concurrent use.
type API struct {
	start time.Time     // by the machine's clock
	quit  chan struct{} // closed by Close

	mu       sync.Mutex
	given    Config     // as it was asked for
	config   Config     // the same with its defaults filled in
	dice     *rand.Rand // for jitter
	limiter  limiter
	log      []Call
	inFlight int
	seen     map[string]int    // accepted calls by key, message or body
	answers  map[string]stored // first answers by Idempotency-Key
}

// New returns an API that behaves as configured, or every fault of the
// configuration at once.
func New(config Config) (*API, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	a := &API{quit: make(chan struct{}), given: config, config: config.withDefaults()}
	a.start = a.config.Now()
	a.Reset()
	return a, nil
}

// Reset forgets all calls, answers and counts. Calls being answered stay in
// flight, and the log's clock goes on.
func (a *API) Reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dice = rand.New(rand.NewPCG(a.config.Seed, 0))
	a.limiter = limiter{}
	a.log = nil
	a.seen = map[string]int{}
	a.answers = map[string]stored{}
}

// Close ends all waits, so that calls being answered end at once. The API
// goes on answering, without delays.
func (a *API) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.quit:
	default:
		close(a.quit)
	}
}

// Config returns the present configuration, its defaults filled in.
func (a *API) Config() Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config
}

// Configure changes the configuration while the API runs. A changed limit
// counts the calls accepted under the old one; another algorithm starts anew.
// If the result is faulty, nothing changes and the faults are returned. The
// clock can not be changed.
func (a *API) Configure(change func(*Config)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	given := a.given
	change(&given)
	if err := given.Validate(); err != nil {
		return err
	}
	given.Now = a.given.Now
	before := a.config.Algorithm
	a.given, a.config = given, given.withDefaults()
	if a.config.Algorithm != before {
		a.limiter = limiter{}
	}
	return nil
}

// Log returns a copy of the log, in the order of arrival.
func (a *API) Log() []Call { return a.LogFrom(0) }

// LogFrom returns a copy of the log from the calls after seq on.
func (a *API) LogFrom(seq int) []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Call(nil), a.log[min(max(seq, 0), len(a.log)):]...)
}

// Stats returns the log in figures, by the present window.
func (a *API) Stats() Stats {
	return Summarise(a.Log(), a.Config().Window)
}

// ServeHTTP answers one call.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, controlPath) {
		a.control(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		fault(status, "body", "the body can not be read: "+err.Error()).write(w)
		return
	}
	a.pause(context.Background(), a.jitter())
	answer, latency := a.arrive(r, body)
	a.pause(context.Background(), latency) // a client that hangs up does not stop the work
	a.pause(r.Context(), answer.hold)
	if !answer.refused {
		a.leave() // before the answer: whoever has seen it may call again
	}
	if answer.abort {
		panic(http.ErrAbortHandler) // the way of net/http to close without an answer
	}
	answer.write(w)
}

// leave ends an accepted call.
func (a *API) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight--
}

// jitter draws the delay of one call on its way.
func (a *API) jitter() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.config.JitterMean == 0 {
		return 0
	}
	return time.Duration(a.dice.ExpFloat64() * float64(a.config.JitterMean))
}

// pause waits for d, or until ctx or the API ends.
func (a *API) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-a.quit:
	}
}
