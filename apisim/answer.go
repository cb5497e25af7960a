package apisim

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// answer is what a call gets back.
type answer struct {
	status  int
	header  http.Header
	body    any // written as JSON; nil is no body
	refused bool
	hold    time.Duration // how long the answer is held back
	abort   bool          // the connection is closed instead of an answer
}

// write sends the answer. A client that has gone is no error here: the log has
// already told what happened.
func (ans answer) write(w http.ResponseWriter) {
	for name, values := range ans.header {
		w.Header()[name] = values
	}
	if ans.body == nil || ans.status == http.StatusNoContent || ans.status == http.StatusNotModified {
		w.WriteHeader(ans.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(ans.status)
	_ = json.NewEncoder(w).Encode(ans.body)
}

// fault is an answer that names what is wrong, and where.
func fault(status int, param, text string) answer {
	return answer{status: status, body: map[string]any{
		"error": map[string]any{"code": status, "param": param, "message": text},
	}}
}

// refusal is the answer to a call over the limit.
func refusal(c *Config, clock time.Time, wait time.Duration) answer {
	ans := fault(http.StatusTooManyRequests, "", fmt.Sprintf("too many calls: %s", c.describe()))
	ans.refused = true
	ans.header = http.Header{}
	switch c.RetryAfter {
	case RetryAfterSeconds:
		ans.header.Set("Retry-After", strconv.FormatInt(roundUp(wait, time.Second), 10))
	case RetryAfterExact:
		ms := roundUp(wait, time.Millisecond)
		ans.header.Set("Retry-After", fmt.Sprintf("%d.%03d", ms/1000, ms%1000))
	case RetryAfterDate:
		at := clock.Add(wait + time.Second - 1).UTC().Truncate(time.Second)
		ans.header.Set("Retry-After", at.Format(http.TimeFormat))
	}
	return ans
}

// announce says in the headers what is left.
func (a *API) announce(h http.Header, clock time.Time) {
	c := &a.config
	left, reset, ok := a.limiter.left(c, clock.UnixNano())
	if !ok || c.Announce == AnnounceNone {
		return
	}
	seconds := strconv.FormatInt(roundUp(reset, time.Second), 10)
	switch c.Announce {
	case AnnounceDraft:
		h.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, c.most(), roundUp(c.Window, time.Second)))
		h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%s`, left, seconds))
		return
	case AnnounceExact:
		ms := roundUp(reset, time.Millisecond)
		seconds = fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
	}
	h.Set("X-RateLimit-Limit", strconv.Itoa(c.most()))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Reset", seconds)
}

// most is how many calls may come at once.
func (c *Config) most() int {
	if c.Algorithm == GCRA {
		return c.Burst
	}
	return c.Limit
}

func roundUp(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }

// describe tells the limit in words.
func (c *Config) describe() string {
	switch c.Algorithm {
	case None:
		return "the API is paused or busy"
	case InFlight:
		return fmt.Sprintf("%d in flight", c.Limit)
	default:
		return fmt.Sprintf("%d in %v (%s)", c.Limit, c.Window, c.Algorithm)
	}
}

// fate is what befalls an accepted call.
type fate struct {
	fails  bool
	after  bool // after the effect
	answer answer
}

// fate draws the fate of the n-th call of a key. It depends on nothing else, so
// it is the same in every run, whatever the order in which calls arrive.
func (c *Config) fate(key string, n int) fate {
	hash := fnv.New64a()
	hash.Write([]byte(key))
	dice := rand.New(rand.NewPCG(c.Seed^hash.Sum64(), uint64(n)))
	draw := dice.Float64()
	f := fate{fails: draw < c.Error5xx+c.TimeoutRate, after: dice.Float64() < c.AfterEffect}
	switch {
	case !f.fails:
	case draw < c.Error5xx:
		status := []int{500, 502, 503}[dice.IntN(3)]
		f.answer = fault(status, "", "the API has failed, as configured")
	default:
		f.answer = fault(http.StatusGatewayTimeout, "", "the API took too long, as configured")
		f.answer.hold = c.TimeoutHold
		f.answer.abort = dice.IntN(2) == 0
	}
	return f
}
