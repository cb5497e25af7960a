package penstock

import (
	"context"
	"errors"
	"time"

	"github.com/penstockhq/penstock/store"
)

// beatsPerLease is how many heartbeats fall into a lease.
const beatsPerLease = 3

// beatWithin is how long a heartbeat may take before the next one is tried: it must
// not have to wait for a connection that a router has forgotten.
const beatWithin = 5 * time.Second

// clockJump is how far, in µs, the mapping of the store's clock must have moved
// for a clock to have jumped.
const clockJump = 100_000

// heartbeat keeps the leases alive until ctx ends, and compares what the store
// believes this worker holds with what it holds. When heartbeats fail for
// nearly a lease, it stops all handlers: others may take the jobs soon.
func (w *worker) heartbeat(ctx context.Context) {
	lease := w.c.cfg.Lease
	every := lease / beatsPerLease
	// At most one heartbeat is under way. The alarm runs beside it, since a store
	// that hangs must not keep the alarm from ringing.
	alarm := time.AfterFunc(w.leaseLeft(), w.stopForLease)
	defer alarm.Stop()
	next := every
	for sleep(ctx, next) == nil {
		next = every
		w.c.clock.age()
		was := w.c.clock.offset.Load()
		call, over := context.WithTimeout(ctx, beatWithin)
		_ = w.c.readClock(call) // the old mapping goes on; the heartbeat tells what is wrong
		over()
		if moved := w.c.clock.offset.Load() - was; moved > clockJump || moved < -clockJump {
			w.signal() // fetch may be asleep until an instant of the clock as it was
		}
		began := time.Now()
		w.mu.Lock()
		id := w.id
		w.mu.Unlock()
		call, over = context.WithTimeout(ctx, beatWithin)
		leases, err := w.st.Heartbeat(call, id)
		over()
		switch {
		case err == nil:
			w.c.trouble.clear(w, "say that it lives")
			w.mu.Lock()
			if w.leaseOver() {
				w.signal() // fetch claimed nothing meanwhile
			}
			w.beat = began
			w.mu.Unlock()
			alarm.Reset(w.leaseLeft())
			w.reconcile(leases, began)
		case errors.Is(err, store.ErrUnknownWorker):
			w.c.trouble.clear(w, "say that it lives") // it answered
			w.reregister(ctx, id)
			alarm.Reset(w.leaseLeft())
		case ctx.Err() == nil:
			w.mu.Lock()
			w.badBeat = time.Now()
			w.mu.Unlock()
			w.c.trouble.set(w, "say that it lives", err)
			next = min(every, retryMost)
		}
		w.sayBeat()
	}
}

// leaseLeft is how long the handlers may go on without another heartbeat: the
// lease less a margin for them to hear of it.
func (w *worker) leaseLeft() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(time.Until(w.leaseUntil()), 0)
}

// leaseUntil is until when handlers may go on, and begin, without another heartbeat. w.mu
// is held.
func (w *worker) leaseUntil() time.Time {
	lease := w.c.cfg.Lease
	return w.beat.Add(lease - lease/5)
}

// leaseOver reports whether that has passed. w.mu is held.
func (w *worker) leaseOver() bool { return time.Now().After(w.leaseUntil()) }

// stopForLease stops every handler, since the lease is nearly over.
func (w *worker) stopForLease() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.badBeat = time.Now()
	if len(w.held) == 0 {
		return
	}
	w.log.Error("no heartbeat has arrived for nearly a lease: handlers are stopped, since others may take their jobs", "handlers", len(w.held))
	for _, s := range w.held {
		s.stop(ErrLeaseLost)
	}
}

// reconcile compares leases. What the store says we hold and we do not, twice
// in a row, is given back: it was never begun here. What we hold and the store
// does not know is stopped.
func (w *worker) reconcile(leases []store.Lease, asked time.Time) {
	theirs := make(map[int64]int64, len(leases))
	var strange []store.Finish
	w.mu.Lock()
	unknown := map[store.Lease]bool{}
	for _, l := range leases {
		theirs[l.ID] = l.Token
		s := w.held[l.ID]
		if s != nil && s.job.Token == l.Token || l.Token == w.claiming || w.wishes[l.Token] {
			continue
		}
		// An answer or an outcome may be under way; the next heartbeat tells.
		if unknown[l] = true; w.unknown[l] {
			strange = append(strange, store.Finish{ID: l.ID, Worker: w.id, Token: l.Token, Outcome: store.OutcomeReturned})
		}
	}
	w.unknown = unknown
	var lost []*start
	for id, s := range w.held {
		if token, ok := theirs[id]; (!ok || token != s.job.Token) && s.at.Before(asked) && !s.settled.Load() {
			lost = append(lost, s)
			delete(w.held, id)
		}
	}
	w.mu.Unlock()
	for _, s := range lost {
		w.log.Warn("lease lost: the handler is stopped", "kind", s.job.Kind, "job", s.job.ID)
		s.lose()
	}
	if len(lost) > 0 {
		w.mayBeDrained()
	}
	if len(strange) > 0 {
		w.log.Warn("the store says this worker holds jobs that it never got: they are given back", "jobs", len(strange))
		if _, err := w.st.Finish(w.life, strange); err != nil {
			w.log.Error("giving back failed; the next heartbeat tries again", "error", err)
		}
	}
}

// reregister takes on a new identity after the old one was declared dead. All
// that was held under the old one is somebody else's now. It tries until ctx ends.
func (w *worker) reregister(ctx context.Context, old string) {
	w.mu.Lock()
	if w.id != old {
		w.mu.Unlock()
		return // done already
	}
	id := newWorkerID()
	lost := make([]*start, 0, len(w.held))
	for jobID, s := range w.held {
		lost = append(lost, s)
		delete(w.held, jobID)
	}
	w.unknown = nil
	w.badBeat = time.Now()
	w.mu.Unlock()
	w.log.Error("this worker was declared dead, perhaps because the process or the store stood still: it goes on under a new identity", "old", old, "new", id, "lost", len(lost))
	for _, s := range lost {
		s.lose()
	}
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		began := time.Now()
		call, over := context.WithTimeout(ctx, callWithin)
		err := w.st.Register(call, w.describe(id))
		over()
		if err == nil {
			w.mu.Lock()
			w.id, w.beat = id, began
			w.mu.Unlock()
			w.c.trouble.clear(w, "register")
			w.signal()
			return
		}
		w.c.trouble.set(w, "register", err)
		if sleep(ctx, wait) != nil {
			return
		}
	}
}
