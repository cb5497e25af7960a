package penstock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// DeclareLimit says what code wants of a limit: "5/s", "100/m, 20 in flight",
// "unlimited", "paused". The name "shopify/*" declares a budget for each key
// after the slash. Declaring again changes it; what was already sent goes on
// counting. A spec that a person set goes on winning.
func (c *Client) DeclareLimit(ctx context.Context, name, spec string) error {
	return c.putLimit(ctx, name, spec, c.st.DeclareLimit)
}

// SetLimit overrides what code declares of a limit that is declared, itself or by
// its pattern (else a *store.UnknownLimitError), at once, for all processes and through
// restarts, until ResetLimit.
func (c *Client) SetLimit(ctx context.Context, name, spec string) error {
	if _, err := c.st.Limit(ctx, name); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	return c.putLimit(ctx, name, spec, c.st.SetLimit)
}

func (c *Client) putLimit(ctx context.Context, name, spec string, put func(context.Context, string, limit.Spec) error) error {
	sp, err := limit.Parse(spec)
	if err != nil {
		return fmt.Errorf("limit %q: %w", name, err)
	}
	c.specs.forget()
	if err := put(ctx, name, sp); err != nil {
		return fmt.Errorf("limit %q: %w", name, err)
	}
	return nil
}

// ResetLimit takes away what SetLimit set.
func (c *Client) ResetLimit(ctx context.Context, name string) error {
	c.specs.forget()
	return c.st.ResetLimit(ctx, name)
}

// PauseLimit stops a limit for everybody until t; the zero time: until ResumeLimit.
// A time that is over is refused. LimitInfo.State.Pauses tells of all that last.
func (c *Client) PauseLimit(ctx context.Context, name string, t time.Time, reason string) error {
	until := limit.Never
	if !t.IsZero() {
		until = c.clock.toStore(t)
	}
	return c.st.PauseLimit(ctx, name, until, reason)
}

// ResumeLimit lifts a person's pause and the API's.
func (c *Client) ResumeLimit(ctx context.Context, name string) error {
	return c.st.ResumeLimit(ctx, name)
}

// LimitByName returns one limit; ErrNotFound or *store.UnknownLimitError if
// nobody declared it.
func (c *Client) LimitByName(ctx context.Context, name string) (LimitInfo, error) {
	return c.st.Limit(ctx, name)
}

// Limits returns all limits in name order. Where there may be very many keys,
// page through [store.Store].ListLimits.
func (c *Client) Limits(ctx context.Context) ([]LimitInfo, error) {
	const page = 500
	var all []LimitInfo
	for after := ""; ; {
		some, err := c.st.ListLimits(ctx, after, page)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < page {
			return all, nil
		}
		after = some[len(some)-1].Name
	}
}

// specCache remembers what limits allow, for decisions that may be a little
// behind: which limit a refusal is about, and which finishes are urgent. Of keyed
// limits it reads the pattern, since there may be a hundred thousand keys.
type specCache struct {
	st store.Store

	mu      sync.Mutex
	entries map[string]specEntry
}

type specEntry struct {
	spec  limit.Spec
	known bool
	read  time.Time // zero: never
}

const (
	specsFor = 5 * time.Second // how long a spec is believed
	specsMax = 10_000
)

// get returns the spec in force; false if the limit is not known or the store
// did not answer.
func (s *specCache) get(ctx context.Context, name string) (limit.Spec, bool) {
	if base, _, keyed := strings.Cut(name, "/"); keyed {
		if e := s.entry(ctx, base+"/*"); e.known {
			return e.spec, true
		}
	}
	e := s.entry(ctx, name)
	return e.spec, e.known
}

// entry returns what is known under exactly this name.
func (s *specCache) entry(ctx context.Context, name string) specEntry {
	now := time.Now()
	s.mu.Lock()
	e := s.entries[name]
	s.mu.Unlock()
	if !e.read.IsZero() && now.Sub(e.read) < specsFor {
		return e
	}
	info, err := s.st.Limit(ctx, name)
	var unknown *store.UnknownLimitError
	switch {
	case err == nil:
		e = specEntry{spec: info.Spec, known: true, read: now}
	case errors.As(err, &unknown), errors.Is(err, store.ErrNotFound):
		e = specEntry{read: now}
	default:
		return e // better old than none
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil || len(s.entries) >= specsMax {
		s.entries = map[string]specEntry{}
	}
	s.entries[name] = e
	return e
}

func (s *specCache) forget() {
	s.mu.Lock()
	s.entries = nil
	s.mu.Unlock()
}
