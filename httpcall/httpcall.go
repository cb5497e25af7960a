// Package httpcall is the built-in kind "http": an outgoing HTTP call.
//
//	call := httpcall.Request{URL: "https://api.example.com/v1/things", Body: json.RawMessage(`{"n": 1}`)}
//	job, err := call.Job()
//	client.EnqueueMany(ctx, []penstock.NewJob{job})
//
// and, in the process that makes the calls, before Work:
//
//	httpcall.Register(client, httpcall.Options{})
//
// What becomes of a call:
//
//   - 2xx is done.
//   - 429, 420, 529, and a 403 or 503 that shows a used-up limit: rate limited.
//     The limit is paused until the time the API states, no attempt is spent.
//   - 408, 425, any other 5xx, a timeout and a broken or refused connection are
//     transient: retried with backoff, and no earlier than a stated Retry-After.
//   - 409 is transient where an idempotency key was sent: the first call with
//     that key may still be under way. Without a key it is rejected.
//   - Any other status, and a redirect that is not followed, is rejected.
//
// The job's idempotency key is sent with every start. One start is one call, as
// one permit is for one call: net/http would send a request with such a key again
// by itself when its connection breaks, and a GET or HEAD too, and is kept from it.
package httpcall

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
)

// Kind is the name of the kind.
const Kind = "http"

// Defaults of the Options, used for each field that is zero.
const (
	DefaultKeyHeader   = "Idempotency-Key"
	DefaultMaxResponse = 16 << 20
)

const (
	// mostResponse is what a store can keep even if each byte is written as an escape.
	mostResponse = 64 << 20

	noHeader  = "-"
	userAgent = "penstock"
	// maxWait caps a wait that a failure states, as that of a limit's pause is.
	maxWait = 24 * time.Hour
)

// Options is how a process makes calls. The zero value works.
type Options struct {
	// Headers are sent with every call, unless the request has the same one.
	// They are kept in memory only. ${NAME} in their values is filled in when
	// the kind is registered.
	Headers http.Header
	// Env finds the variables that requests refer to; nil: os.LookupEnv.
	Env LookupEnv
	// Transport makes the calls; nil: one with room for 1,000 calls at a time to
	// a host, HTTP/2, and the proxies that the environment names.
	Transport http.RoundTripper
	// Timeout bounds each start whose job says nothing else; 0: 60 s.
	Timeout time.Duration
	// MaxResponse is how many bytes of a response are kept; what is beyond is
	// dropped, and the result is marked as truncated; 0: 16 MiB, at most 64 MiB.
	MaxResponse int64
	// KeyHeader names the header for idempotency keys; "": Idempotency-Key,
	// "-": none is sent. A request can say otherwise.
	KeyHeader string
	// Retry is the backoff after failures and the number of attempts.
	Retry retry.Policy
	// ThrottleBudget is how long a call may go on being refused by its API, the
	// announced pauses not counted; 0: 6 h.
	ThrottleBudget time.Duration
	// Classify, if set, is asked first about each complete answer, for an API
	// that says "not now" with status 200, or means a 404 to be tried again. A
	// nil error leaves the answer to the ordinary rules; any other one is what
	// the start returns: penstock.RateLimited, penstock.Permanent and so on. The
	// answer must not be changed or kept.
	Classify func(a *Answer) error
	// OnCall, if set, is told of each call when it is over, from many goroutines
	// at a time; it must be quick.
	OnCall func(c Call)
}

// A Call is what OnCall is told.
type Call struct {
	JobID   int64
	Method  string
	URL     string // for people: masked, references not filled in
	Status  int    // 0: no answer
	Latency time.Duration
	Err     error // what the start returns; nil: done
}

// Validate reports every fault of the options at once, as one joined error, or nil.
func (o Options) Validate() error {
	var faults []error
	key := o.keyHeader("")
	for _, name := range sortedNames(o.Headers) {
		if key != "" && strings.EqualFold(name, key) {
			faults = append(faults, fmt.Errorf("header %q: the same key for every call would have the API take them all for one; each job has a key of its own", name))
			continue
		}
		for _, v := range o.Headers[name] {
			if err := checkHeader(name, v); err != nil {
				faults = append(faults, err)
			} else if err := eachReference(v, func(string) {}); err != nil {
				faults = append(faults, fmt.Errorf("header %q: %w", name, err))
			}
		}
	}
	if o.KeyHeader != "" && o.KeyHeader != noHeader && !isToken(o.KeyHeader) {
		faults = append(faults, fmt.Errorf("KeyHeader: expected the name of a header, or \"-\" for none, got %.40q", o.KeyHeader))
	}
	if o.MaxResponse < 0 || o.MaxResponse > mostResponse {
		faults = append(faults, fmt.Errorf("MaxResponse must be above 0 and at most %d bytes (or 0 for the default, %d), got %d", mostResponse, DefaultMaxResponse, o.MaxResponse))
	}
	return errors.Join(faults...)
}

// keyHeader is the header for the key of a request that says asked; "": none.
func (o *Options) keyHeader(asked string) string {
	for _, name := range []string{asked, o.KeyHeader, DefaultKeyHeader} {
		switch name {
		case "":
		case noHeader:
			return ""
		default:
			return name
		}
	}
	return ""
}

// Register has the client's workers make the calls of jobs of this kind. An
// error joins all faults of the options.
func Register(c *penstock.Client, o Options) error {
	caller, err := newCaller(o)
	if err != nil {
		return fmt.Errorf("httpcall: %w", err)
	}
	return penstock.Handle(c, Kind, caller.start, penstock.Kind{
		IdempotencyKeys: true,
		Retry:           o.Retry,
		Timeout:         o.Timeout,
		ThrottleBudget:  o.ThrottleBudget,
	})
}

func newCaller(o Options) (*caller, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = DefaultMaxResponse
	}
	c := &caller{o: o, headers: http.Header{}, random: rand.Float64}
	if err := c.fillHeaders(); err != nil {
		return nil, err
	}
	if c.o.Transport == nil {
		c.o.Transport = newTransport()
	}
	_, c.traced = c.o.Transport.(*http.Transport)
	return c, nil
}

// start is the handler of the kind.
func (c *caller) start(ctx context.Context, job *penstock.Job[Request]) error {
	out := c.call(ctx, &job.Args, job.IdempotencyKey(), job.Attempts+1)
	if c.o.OnCall != nil {
		c.o.OnCall(Call{
			JobID: job.ID, Method: job.Args.verb(), URL: Mask(job.Args.URL),
			Status: out.status, Latency: out.latency, Err: out.err,
		})
	}
	if err := errors.Join(job.SetResult(out.result), job.SetDetail(out.detail)); err != nil {
		return errors.Join(out.err, err)
	}
	return out.err
}
