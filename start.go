package penstock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstockhq/penstock/store"
)

// start is one claimed job in this process, from the claim to the stored outcome.
type start struct {
	w      *worker
	worker string // the identity that claimed it
	kind   *kindEntry
	job    store.Claimed
	at     time.Time // when it was claimed

	// ctx ends when the start is to stop, with the reason as its cause.
	ctx    context.Context
	cancel context.CancelCauseFunc

	settled  atomic.Bool   // somebody has decided its outcome
	recorded chan struct{} // closed when the outcome is stored, or refused; nil if nobody waits for it

	mu         sync.Mutex
	began      int64     // store's clock, 0: the handler has not begun
	beganAt    time.Time // the same on ours
	deadline   time.Time // of the handler, zero for none
	stoppedAt  time.Time // when it was first told to stop
	lost       bool      // its lease is lost: whatever comes of it is not stored
	result     []byte
	detail     []byte
	failedCall string // how the last watched call failed; "": it did not, see Transport
	observed   []store.Observed
	left       map[string]store.Observed // what is said to be left, by limit: the last word
	answered   answered                  // the same of answers that nobody said the limit of
	effects    map[string]bool           // keys of the effects it is running
	begun      map[string]bool           // effects that it has begun, ended or not
}

type startKey struct{}

// startOf returns the start whose handler was given ctx, or nil.
func startOf(ctx context.Context) *start {
	s, _ := ctx.Value(startKey{}).(*start)
	return s
}

func (w *worker) newStart(job store.Claimed, worker string) *start {
	s := &start{w: w, worker: worker, kind: w.kindOf(job.Kind), job: job, at: time.Now()}
	s.ctx, s.cancel = context.WithCancelCause(w.handlers)
	return s
}

// begin marks that the handler begins now. It returns false if the start was
// told to stop before.
func (s *start) begin(timeout time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.beganAt = time.Now()
	s.began = s.w.c.clock.toStore(s.beganAt)
	if timeout > 0 {
		s.deadline = s.beganAt.Add(timeout)
	}
	return true
}

// stop ends the start's context. A start that has not begun will not begin.
func (s *start) stop(cause error) {
	s.mu.Lock()
	if s.stoppedAt.IsZero() {
		s.stoppedAt = time.Now()
	}
	s.mu.Unlock()
	s.cancel(cause)
}

// stopWaiting stops the start only if its handler has not begun.
func (s *start) stopWaiting(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began == 0 {
		s.cancel(cause)
	}
}

// lose stops the start because the job is, or may be, somebody else's.
func (s *start) lose() {
	s.mu.Lock()
	s.lost = true
	s.mu.Unlock()
	s.stop(ErrLeaseLost)
}

// overdue says whether a handler has ignored the end of its context for longer
// than grace.
func (s *start) overdue(now time.Time, grace time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began == 0 || s.settled.Load() {
		return false
	}
	return !s.deadline.IsZero() && now.Sub(s.deadline) > grace || !s.stoppedAt.IsZero() && now.Sub(s.stoppedAt) > grace
}

func (s *start) setResult(b []byte) {
	s.mu.Lock()
	s.result = b
	s.mu.Unlock()
}

func (s *start) setDetail(b []byte) {
	s.mu.Lock()
	s.detail = b
	s.mu.Unlock()
}

func (s *start) observe(o store.Observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !o.LeftKnown || o.Refused {
		s.observed = append(s.observed, o)
		return
	}
	if s.left == nil {
		s.left = map[string]store.Observed{}
	}
	s.left[o.Limit] = o
}
