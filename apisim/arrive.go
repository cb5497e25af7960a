package apisim

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

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
	a.announce(ans.header, clock)
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
