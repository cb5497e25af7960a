package penstock

import (
	"context"
	"fmt"

	"github.com/penstockhq/penstock/store"
)

// Observe tells, from within a handler, what a response said about a limit. It
// is stored with the outcome of the start, in the same commit. Instants of o
// that are zero are filled in. A handler that was refused returns
// [RateLimited] and need not call Observe. Without a job use [Permit.Observe].
//
// What the API says is left is stored only where it matters, so that it may be told
// after each call; [ObserveHeaders] reads it from a response.
func Observe(ctx context.Context, limitName string, o Observation) error {
	s := startOf(ctx)
	if s == nil {
		return fmt.Errorf("observe limit %q: %w", limitName, ErrNoJob)
	}
	if _, ok := s.w.c.specs.get(ctx, limitName); !ok {
		// Named wrong, it would keep the start's outcome from being stored.
		if _, err := s.w.st.Limit(ctx, limitName); err != nil {
			return fmt.Errorf("observe: %w", err)
		}
	}
	s.observe(s.observed1(limitName, o))
	return nil
}

// observed1 fills in what an observation leaves open.
func (s *start) observed1(name string, o Observation) store.Observed {
	if o.At == 0 {
		o.At = s.w.c.clock.now()
	}
	if o.Slot == 0 {
		for _, ch := range s.job.Charges {
			if ch.Limit == name {
				o.Slot = ch.Slot
				if o.Cost == 0 {
					o.Cost = ch.Cost
				}
			}
		}
	}
	o.Reason = firstLine(cleanText(o.Reason))
	return store.Observed{Limit: name, Observation: o, Random: s.w.c.cfg.Random()}
}
