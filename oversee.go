package penstock

import (
	"context"
	"time"
)

const overseeEvery = 500 * time.Millisecond

// oversee looks after what runs, twice a second until ctx ends: it passes on
// cancellations, ends starts whose handler ignores its context, gives back jobs
// fetched ahead in vain, and adds places where that is automatic.
func (w *worker) oversee(ctx context.Context) {
	full := 0
	for sleep(ctx, overseeEvery) == nil {
		now := time.Now()
		w.mu.Lock()
		starts := make([]*start, 0, len(w.held))
		for _, s := range w.held {
			starts = append(starts, s)
		}
		id := w.id
		if w.places.free() == 0 {
			full++
		} else {
			full = 0
		}
		w.mu.Unlock()
		if len(starts) > 0 {
			w.passOnCancels(ctx, id)
		} else {
			w.c.trouble.clear(w, askCancels) // nobody wants to know
		}
		for _, s := range starts {
			if s.overdue(now, w.leakGrace()) {
				w.abandon(s)
			}
		}
		w.giveBackAhead(now)
		if full >= 2 {
			w.grow()
		}
	}
}

const askCancels = "ask for cancelled jobs"

// leakGrace is how long a handler may ignore the end of its context.
func (w *worker) leakGrace() time.Duration { return w.grace() }

// passOnCancels stops the handlers of jobs that somebody cancelled.
func (w *worker) passOnCancels(ctx context.Context, id string) {
	call, over := context.WithTimeout(ctx, beatWithin)
	ids, err := w.st.Cancels(call, id)
	over()
	if err != nil {
		if ctx.Err() == nil {
			w.c.trouble.set(w, askCancels, err)
		}
		return
	}
	w.c.trouble.clear(w, askCancels)
	for _, id := range ids {
		w.mu.Lock()
		s := w.held[id]
		w.mu.Unlock()
		if s != nil {
			s.stop(ErrCancelled)
		}
	}
}

// giveBackAhead gives back jobs that were claimed beyond the places and found none for
// too long: other processes may have one. Some handler takes long then, so no more are
// fetched ahead until handlers have shown anew that they are short.
func (w *worker) giveBackAhead(now time.Time) {
	w.mu.Lock()
	var back []*start
	if w.places.inVain(now.Add(-aheadPatience), w.c.clock.now()) {
		back = w.places.takeWaiting()
		w.places.forget()
	}
	w.mu.Unlock()
	for _, s := range back {
		w.giveBack(s)
	}
}

// giveBack ends a start that never had a place.
func (w *worker) giveBack(s *start) {
	s.cancel(errNotBegun)
	w.settle(s, errNotBegun)
}

// grow adds places, or says that there are not enough.
func (w *worker) grow() {
	w.mu.Lock()
	grown := w.o.Concurrency == 0 && w.places.grow()
	all := w.places.all
	limited := false
	if !grown && !w.saidFull && w.places.mean >= autoSlow {
		for _, s := range w.held {
			limited = limited || len(s.job.Draws) > 0 && !s.settled.Load()
		}
		w.saidFull = limited
	}
	w.mu.Unlock()
	switch {
	case grown:
		w.log.Debug("all places were taken: there are more now", "places", all)
		w.signal()
	case limited:
		w.log.Warn("all places are taken by handlers that wait: it may be they, not the limit, that hold the rate down; raise the concurrency", "places", all)
	}
}
