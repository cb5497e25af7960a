package penstock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/limit/header"
	"github.com/penstockhq/penstock/store"
)

// ObserveHeaders tells, from within a handler, what [header.Read] found in a
// response: how many calls the API has left, so that the limit slows down before
// it refuses. An empty limitName is the limit that [RateLimited] would pause, the
// job's first one with a rate. Of several answers about a limit the last counts.
// A refusal says nothing here: return RateLimited.
//
// Calls made through [Transport] need no ObserveHeaders, nor do jobs of package
// httpcall.
func ObserveHeaders(ctx context.Context, limitName string, said header.Observation) error {
	s := startOf(ctx)
	if s == nil {
		return fmt.Errorf("observe headers: %w", ErrNoJob)
	}
	if said.Limited || !said.Left.Known && !said.LeftUnits.Known {
		return nil
	}
	at := s.w.c.clock.now()
	if limitName == "" {
		name, _ := s.verdictOn(ctx).refusing("")
		if name == "" {
			return nil // its limits have no budget of calls
		}
		s.observe(s.observed1(name, s.leftOf(name, said, at)))
		return nil
	}
	return Observe(ctx, limitName, s.leftOf(limitName, said, at))
}

// leftOf is what an answer that came at an instant says of a limit of the start.
func (s *start) leftOf(name string, said header.Observation, at int64) Observation {
	o := Observation{At: at, Cost: 1, LeftKnown: true}
	for _, ch := range s.job.Charges {
		if ch.Limit == name {
			o.Slot, o.Cost = ch.Slot, max(ch.Cost, 1)
		}
	}
	left := said.Left
	// Where tokens or the like are used up first, that is what counts.
	if u := said.LeftUnits; u.Known && (!left.Known || u.N/o.Cost < left.N && u.ResetIn > 0) {
		left, o.LeftByCost = u, true
	}
	o.Left, o.Whole = left.N, left.Of
	if left.ResetStated {
		o.ResetAt = later(at, min(left.ResetIn, maxPause))
	}
	return o
}

// answered is what the answers to a start's calls said that went through Transport.
type answered struct {
	host  string // whose answers they were
	mixed bool   // several hosts said something: nobody knows whose limit it is
	at    int64
	said  header.Observation
}

// answeredBy notes what an answer says.
func (s *start) answeredBy(host string, said header.Observation) {
	if said.Limited || !said.Left.Known && !said.LeftUnits.Known {
		return
	}
	at := s.w.c.clock.toStore(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	mixed := s.answered.mixed || s.answered.host != "" && s.answered.host != host
	s.answered = answered{host, mixed, at, said}
}

// left are the observations of what is left that are to be stored with the outcome.
// Most are not worth it: a start that leaves nothing to remember ends faster.
func (w *worker) left(s *start, v verdictOn, d verdict) (out []store.Observed) {
	s.mu.Lock()
	left, answered := s.left, s.answered
	s.mu.Unlock()
	if v.began == 0 || d.Outcome == store.OutcomeThrottled || len(left) == 0 && (answered.host == "" || answered.mixed) {
		return nil
	}
	if answered.host != "" && !answered.mixed {
		name, _ := v.refusing("")
		if _, told := left[name]; !told && name != "" {
			out = append(out, store.Observed{Limit: name, Observation: s.leftOf(name, answered.said, answered.at)})
		}
	}
	for _, o := range left {
		out = append(out, o)
	}
	out = slices.DeleteFunc(out, func(o store.Observed) bool {
		sp, known := v.spec(o.Limit)
		return known && !w.c.lows.matters(sp, o)
	})
	for _, o := range out {
		if o.Left <= 0 && o.ResetAt > v.now { // what waits for its slot would be refused
			w.giveBackWaiting(o.Limit)
		}
	}
	return out
}

// lows remembers of which limits this process has told that little is left. The
// answer that says otherwise matters then, too.
type lows struct {
	mu    sync.Mutex
	until map[string]int64 // the reset, by limit
}

const lowsMax = 10_000

func (l *lows) matters(sp limit.Spec, o store.Observed) bool {
	matters := o.Matters(sp)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !matters {
		low := l.until[o.Limit] > o.At
		delete(l.until, o.Limit)
		return low
	}
	if l.until == nil || len(l.until) >= lowsMax {
		l.until = map[string]int64{}
	}
	if o.ResetAt != 0 {
		l.until[o.Limit] = min(o.ResetAt, later(o.At, maxPause))
	}
	return true
}
