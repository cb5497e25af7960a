package apisim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
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

// arrive counts one call, decides its answer and writes the log, all at one
// instant.
func (a *API) arrive(r *http.Request, body []byte) (answer, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.config
	now := c.Now()
	clock := a.start.Add(now.Sub(a.start) + c.ClockOffset) // monotonic
	call := Call{
		Seq: len(a.log) + 1, At: now.Sub(a.start), Arrival: now,
		Method: r.Method, Path: r.URL.Path, Key: r.Header.Get("Idempotency-Key"),
	}
	if len(body) > 0 {
		sum := sha256.Sum256(body)
		call.BodyHash = hex.EncodeToString(sum[:8])
	}

	ok, wait := a.admit(clock)
	var ans answer
	if ok {
		a.inFlight++
		ans = a.accept(&call, r, body)
	} else {
		ans = refusal(c, clock, wait)
		call.Refused = true
		if r.Method == http.MethodPost && r.URL.Path == messagesPath {
			call.MessageID = messageID(&call, body)
		}
	}
	if ans.header == nil {
		ans.header = http.Header{}
	}
	ans.header.Set("Date", clock.UTC().Format(http.TimeFormat))
	call.Status, call.Held, call.InFlight = ans.status, ans.hold > 0, a.inFlight
	if ans.abort {
		call.Status = 0
	}
	a.log = append(a.log, call)
	return ans, c.Latency
}

// admit says whether a call that arrives at clock is accepted, and counts it.
func (a *API) admit(clock time.Time) (ok bool, wait time.Duration) {
	const unknown = time.Second
	c, now := &a.config, clock.UnixNano()
	switch {
	case clock.Before(c.PausedUntil):
		ok, wait = false, c.PausedUntil.Sub(clock)
	case c.MaxInFlight > 0 && a.inFlight >= c.MaxInFlight,
		c.Algorithm == InFlight && a.inFlight >= c.Limit:
		ok, wait = false, unknown
	default:
		return a.limiter.admit(c, now)
	}
	a.limiter.refuse(c, now)
	return ok, wait
}

// accept decides the answer of an accepted call. The order matters: what is
// wrong with the call itself is always said, so that one call is enough to
// learn it; only a call without fault meets its fate.
func (a *API) accept(call *Call, r *http.Request, body []byte) answer {
	var m message
	isMessage := r.Method == http.MethodPost && r.URL.Path == messagesPath
	if isMessage {
		call.MessageID = messageID(call, body)
	}
	who := identity(call)
	a.seen[who]++
	call.Occurrence = a.seen[who]

	if isMessage {
		var bad *answer
		if m, bad = parseMessage(body); bad != nil {
			return *bad
		}
		if first, ok := a.firstAnswer(call.Key); ok && first.bodyHash != call.BodyHash {
			return fault(http.StatusUnprocessableEntity, "Idempotency-Key", "this key was used before with another body")
		}
	}
	fate := a.config.fate(who, call.Occurrence)
	if fate.fails && !fate.after {
		return fate.answer
	}
	var ans answer
	if isMessage {
		ans = a.deliver(call, m)
	} else {
		ans = echo(call, r)
	}
	if fate.fails {
		return fate.answer
	}
	return ans
}

// identity is what makes two calls the same one: the key, else the message,
// else the path and body. The first letter keeps the three apart.
func identity(call *Call) string {
	switch {
	case call.Key != "":
		return "k" + call.Key
	case call.MessageID != "":
		return "m" + call.MessageID
	default:
		return "b" + call.Method + " " + call.Path + " " + call.BodyHash
	}
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

// echo answers a call to a path that means nothing in particular.
func echo(call *Call, r *http.Request) answer {
	status := http.StatusOK
	if text, ok := strings.CutPrefix(r.URL.Path, "/status/"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 200 || n > 599 {
			return fault(http.StatusBadRequest, "path", "expected /status/ and a number from 200 to 599, got "+strconv.Quote(r.URL.Path))
		}
		status = n
	}
	return answer{status: status, body: map[string]any{
		"status": status, "method": call.Method, "path": call.Path, "key": call.Key, "n": call.Seq, "occurrence": call.Occurrence,
	}}
}
