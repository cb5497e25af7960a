// Package apisim is a pretend API with a strict rate limit, for demos, tests and
// measurements. It counts calls as a vendor would, at their arrival and by its
// own clock, in the way that is asked for: sliding or fixed window, token
// bucket, GCRA, calls in flight. It refuses, fails, hangs and repeats itself as
// configured, and keeps a log of every call from which each claim about a
// client can be checked.
//
// POST /messages is a pretend SMS service. Any other path answers with an echo,
// /status/NNN with that status, and /_apisim/ is for control: log, stats,
// config, reset. Calls to /_apisim/ are neither counted nor logged.
package apisim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Algorithm is a way to count calls against a limit.
type Algorithm string

// The algorithms. Let N be the Limit and W the Window.
const (
	// None counts nothing.
	None Algorithm = "none"
	// Sliding refuses a call if N were accepted within the W before it.
	Sliding Algorithm = "sliding"
	// Fixed accepts N calls in each window of W, aligned to the API's clock, so
	// that up to 2N can pass around the edge of two windows.
	Fixed Algorithm = "fixed"
	// Bucket is a token bucket that holds N tokens and gains N every W, so that
	// up to 2N calls can pass within W.
	Bucket Algorithm = "bucket"
	// GCRA accepts one call every W/N, with Burst of them ahead of time.
	GCRA Algorithm = "gcra"
	// InFlight accepts N calls at a time, and has no window.
	InFlight Algorithm = "inflight"
)

// Algorithms lists them all.
var Algorithms = []Algorithm{None, Sliding, Fixed, Bucket, GCRA, InFlight}

// RetryAfter is how a refusal says when to come back.
type RetryAfter string

// The forms of Retry-After. The wait is that until the next call would be
// accepted, or 1 s where that can not be known (calls in flight).
const (
	RetryAfterNone    RetryAfter = "none"    // no header
	RetryAfterSeconds RetryAfter = "seconds" // whole seconds, rounded up
	RetryAfterExact   RetryAfter = "exact"   // seconds with three decimals, rounded up
	RetryAfterDate    RetryAfter = "date"    // an HTTP date by the API's clock, rounded up to a second
)

// RetryAfters lists them all.
var RetryAfters = []RetryAfter{RetryAfterNone, RetryAfterSeconds, RetryAfterExact, RetryAfterDate}

// Announce is how answers, accepted and refused, say how many calls are left.
type Announce string

// The forms of saying it. Calls in flight have no reset, so they are not announced.
// A sliding window resets when its oldest call leaves it, which gives room for one
// more; buckets when they are full again.
const (
	AnnounceNone    Announce = "none"    // no headers
	AnnounceSeconds Announce = "seconds" // X-RateLimit-Limit, -Remaining and -Reset, in whole seconds, rounded up
	AnnounceExact   Announce = "exact"   // the same with three decimals, rounded up
	AnnounceDraft   Announce = "draft"   // RateLimit and RateLimit-Policy of the IETF draft, in whole seconds
)

// Announces lists them all.
var Announces = []Announce{AnnounceNone, AnnounceSeconds, AnnounceExact, AnnounceDraft}

// Config says how the API behaves. The zero value accepts everything at once.
type Config struct {
	// Algorithm is how calls are counted; empty means None.
	Algorithm Algorithm
	// Limit is how many calls the algorithm accepts.
	Limit int
	// Window is the time in which it accepts them; 0 means 1 s.
	Window time.Duration
	// Burst is for GCRA: how many calls may come at once; 0 means a tenth of
	// the limit, at least 1.
	Burst int
	// MaxInFlight caps the calls being answered, beside any algorithm; 0 is no cap.
	MaxInFlight int
	// CountRefused lets refused calls use up the sliding window, too, so that
	// hammering keeps it shut.
	CountRefused bool
	// PausedUntil refuses every call before that instant of the API's clock.
	PausedUntil time.Time
	// RetryAfter is the form of the header on refusals; empty means none.
	RetryAfter RetryAfter
	// Announce is how each answer says what is left; empty means not at all.
	Announce Announce

	// JitterMean is the mean of an exponential delay before a call is counted:
	// the network on the way there.
	JitterMean time.Duration
	// Latency is how long every answer takes from the arrival on.
	Latency time.Duration

	// Error5xx is the share of accepted calls answered with 500, 502 or 503.
	Error5xx float64
	// TimeoutRate is the share of accepted calls that hang for TimeoutHold and
	// then end with a 504 or a closed connection. Together with Error5xx it is
	// at most 1. Which calls fail follows from Seed, the call's key, and how
	// often the key came, so a repeat can pass.
	TimeoutRate float64
	// TimeoutHold is how long a call hangs; 0 means 30 s.
	TimeoutHold time.Duration
	// AfterEffect is the share of the failures that come after the message was
	// delivered, so that only deduplication prevents a second delivery; 0 means
	// a half, below 0 none.
	AfterEffect float64

	// Dedupe answers a repeated Idempotency-Key with the first answer, and the
	// header Idempotent-Replayed, instead of delivering again.
	Dedupe bool

	// Seed makes jitter and failures repeatable.
	Seed uint64
	// ClockOffset is how far the API's clock is ahead of the machine's. It shows
	// in dates and moves the edges of fixed windows.
	ClockOffset time.Duration
	// Now is the machine's clock; nil means time.Now. It must not go backwards.
	Now func() time.Time
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.Algorithm == "" {
		c.Algorithm = None
	}
	if c.RetryAfter == "" {
		c.RetryAfter = RetryAfterNone
	}
	if c.Announce == "" {
		c.Announce = AnnounceNone
	}
	if c.Window == 0 {
		c.Window = time.Second
	}
	if c.Burst == 0 {
		c.Burst = max(1, c.Limit/10)
	}
	if c.TimeoutHold == 0 {
		c.TimeoutHold = 30 * time.Second
	}
	if c.AfterEffect == 0 {
		c.AfterEffect = 0.5
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate reports every fault of the configuration at once, as one joined
// error, or nil.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("apisim: "+format, args...)) }

	if !slices.Contains(Algorithms, c.Algorithm) {
		fault("algorithm must be one of %v, got %q", Algorithms, c.Algorithm)
	}
	if c.Algorithm != None && c.Limit < 1 {
		fault("algorithm %s needs a limit of at least 1, got %d; to refuse every call, pause the API", c.Algorithm, c.Limit)
	}
	if !slices.Contains(RetryAfters, c.RetryAfter) {
		fault("retry-after must be one of %v, got %q", RetryAfters, c.RetryAfter)
	}
	if !slices.Contains(Announces, c.Announce) {
		fault("announce must be one of %v, got %q", Announces, c.Announce)
	}
	if c.Window < 0 {
		fault("window must be above 0, got %v", c.Window)
	}
	if c.Burst < 0 {
		fault("burst must not be negative, got %d", c.Burst)
	}
	if c.MaxInFlight < 0 {
		fault("max in flight must not be negative, got %d", c.MaxInFlight)
	}
	for _, d := range []struct {
		name string
		time.Duration
	}{{"jitter", c.JitterMean}, {"latency", c.Latency}, {"timeout hold", c.TimeoutHold}} {
		if d.Duration < 0 {
			fault("%s must not be negative, got %v", d.name, d.Duration)
		}
	}
	if !(c.Error5xx >= 0 && c.TimeoutRate >= 0 && c.Error5xx+c.TimeoutRate <= 1) {
		fault("the shares of errors and timeouts must be from 0 to 1, also together, got %v and %v", c.Error5xx, c.TimeoutRate)
	}
	if !(c.AfterEffect <= 1) {
		fault("the share of failures after the effect must be at most 1, got %v", c.AfterEffect)
	}
	return errors.Join(faults...)
}
