package penstock

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/penstockhq/penstock/store"
)

// A wish is a place that an idle worker of this process keeps for a job that is being
// enqueued here, so that the insert may start it at once: the store then writes it as
// claimed by the worker, and no claim is needed.
type wish struct {
	w     *worker
	as    string // the worker's identity when it wished
	token int64  // of the lease, if it is granted
	queue string
}

// insertOrStart inserts jobs. A single one is started at once where a worker is idle and the
// store grants it.
func (c *Client) insertOrStart(ctx context.Context, rows []store.NewJob) (out []store.Inserted, err error) {
	var r *wish
	if len(rows) == 1 {
		r = c.wish(&rows[0])
	}
	if r == nil {
		return c.st.Insert(ctx, rows)
	}
	var granted *store.Claimed
	defer func() { r.end(granted) }() // also when the store panics
	rows[0].Start = &store.Starter{Worker: r.as, Token: r.token}
	if out, err = c.st.Insert(ctx, rows); err == nil {
		granted = out[0].Started
	}
	return out, err
}

// wish takes a place for the job with a worker that would claim it at once, if there is
// one. What makes a job wait, or more than a row of its own, is not worth a wish.
func (c *Client) wish(n *store.NewJob) *wish {
	if n.At != 0 || len(n.Draws) > 0 || n.Unique != "" || n.Run != "" {
		return nil
	}
	c.mu.RLock()
	workers := make([]*worker, 0, 4)
	for w := range c.workers {
		workers = append(workers, w)
	}
	c.mu.RUnlock() // a worker's lock is never taken under the client's
	for _, w := range workers {
		if r := w.wish(n); r != nil {
			return r
		}
	}
	return nil
}

// wish takes a place for the job if the worker is idle: its last claims left nothing, no
// others are under way, and it is not ending.
func (w *worker) wish(n *store.NewJob) *wish {
	if w.private || w.o.Run != "" || !slices.Contains(w.kinds, n.Kind) || w.fin.congested() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending || w.asking || w.c.clock.now() >= w.idleUntil || !w.places.reserve(w.o.Queues, n.Queue) {
		return nil
	}
	r := &wish{w: w, as: w.id, token: rand.Int64N(1<<62) + 1, queue: n.Queue}
	w.wishes[r.token] = true
	w.running.Add(1) // shutDown waits for it as for a handler
	return r
}

// end starts the job in the place that was kept, if the wish was granted; else it gives
// the place back.
func (r *wish) end(granted *store.Claimed) {
	w := r.w
	w.mu.Lock()
	delete(w.wishes, r.token)
	var s *start
	// Under an identity that is no more, it was taken back, or is about to be.
	if granted != nil && r.as == w.id {
		s, _ = w.hold(*granted, r.as) // its id is new, so nothing else is held of it
		if w.ending {                 // perhaps it has said goodbye: then it was taken back, and does not begin either
			s.stopWaiting(errNotBegun)
		}
	} else if s = w.places.giveUp(r.queue); s == nil {
		w.freed = true
		if w.worthAClaim() {
			w.signal()
		}
	}
	w.mu.Unlock()
	w.mayBeDrained()
	if s == nil {
		w.running.Done()
		return
	}
	go w.runFrom(s)
}
