package penstock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// errNotBegun is the cause that gives back a start that has not begun.
var errNotBegun = errors.New("given back before it began")

// errGoexit is the failure of a handler that ended its goroutine.
var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// runFrom runs a start in its place, and then what waits for the place, until
// nothing does.
func (w *worker) runFrom(s *start) {
	defer w.running.Done()
	defer func() {
		if s == nil {
			return
		}
		// A handler is ending this goroutine (runtime.Goexit): another one goes on.
		if next := w.leave(s); next != nil {
			w.running.Add(1)
			go w.runFrom(next)
		}
	}()
	for s != nil {
		w.runOne(s)
		s = w.leave(s)
	}
}

// runOne makes one start.
func (w *worker) runOne(s *start) {
	defer s.cancel(nil)
	if err := w.beforeStart(s); err != nil {
		w.settle(s, err)
		return
	}
	if h := w.o.OnStart; h != nil {
		w.guard("OnStart", func() { h(&s.job.Job) })
	}
	err := errGoexit // unless the handler returns
	defer func() { w.settle(s, err) }()
	err = s.call()
}

// beforeStart waits for the slot and checks that the start may still be made.
// Its error says why not; the handler then never begins.
func (w *worker) beforeStart(s *start) error {
	if len(s.job.Charges) > 0 {
		if err := w.awaitSlot(s); err != nil {
			return err
		}
	}
	if s.job.ExpiresAt != 0 && w.c.clock.now() >= s.job.ExpiresAt {
		return errExpired
	}
	if !s.begin(s.kind.timeout(s.job.Job)) {
		return context.Cause(s.ctx)
	}
	return nil
}

// rated says whether a late start can break a window: it can where a limit has a
// rate. One without, or a cap on calls in flight, has no windows.
func (w *worker) rated(s *start) bool {
	for _, ch := range s.job.Charges {
		if sp, ok := w.c.specs.get(w.life, ch.Limit); !ok || sp.HasRate() {
			return true
		}
	}
	return false
}

// awaitSlot waits until the start's slot. A start that comes too late for it is
// given back, since others were planned on its being in time.
func (w *worker) awaitSlot(s *start) error {
	// In steps, since a clock may jump meanwhile: slots lie so far ahead at most, but for the lead.
	for d := w.c.clock.until(s.job.Slot); d > 0 && !s.job.Early; d = w.c.clock.until(s.job.Slot) {
		if err := sleep(s.ctx, min(d, 2*horizonMost)); err != nil {
			return err
		}
	}
	if !w.rated(s) {
		return nil
	}
	late := -w.c.clock.until(s.job.Slot)
	w.mu.Lock()
	w.places.met(s.job.Token, late <= limit.Delta)
	w.mu.Unlock()
	if late > limit.Delta {
		return errNotBegun
	}
	return nil
}

// call runs the handler. A panic is an error like any other.
func (s *start) call() (err error) {
	ctx := context.WithValue(s.ctx, startKey{}, s)
	if !s.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, s.deadline, ErrTimeout)
		defer cancel()
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		err = tame(err)
		if err != nil && errors.Is(context.Cause(ctx), ErrTimeout) && s.ctx.Err() == nil {
			err = &timeoutError{after: s.kind.timeout(s.job.Job), err: err}
		}
	}()
	raw := &RawJob{JobInfo: s.job.Job, Args: s.job.Payload, start: s}
	if s.job.Options.AtMostOnce && !s.w.private {
		return s.callAtMostOnce(ctx, raw)
	}
	return s.kind.run(ctx, raw)
}

// callAtMostOnce guards the whole handler as one effect.
func (s *start) callAtMostOnce(ctx context.Context, raw *RawJob) error {
	_, err := s.once(ctx, store.JobEffect(s.job.ID), true, func(ctx context.Context) ([]byte, error) {
		return nil, s.kind.run(ctx, raw)
	})
	return err
}

// timeoutError is the failure of a handler that returned an error when its time
// was up. What the error says of itself still counts.
type timeoutError struct {
	after time.Duration
	err   error
}

func (e *timeoutError) Error() string { return fmt.Sprintf("timed out after %v: %v", e.after, e.err) }

func (e *timeoutError) Unwrap() error { return e.err }

// abandon ends a start whose handler ignores its context. Its place stays taken
// until the handler returns, if it ever does.
func (w *worker) abandon(s *start) {
	err := fmt.Errorf("the handler did not return within %v after its context ended", w.leakGrace())
	if s.ctx.Err() == nil {
		err = &timeoutError{after: s.kind.timeout(s.job.Job), err: err}
	}
	if w.settle(s, err) {
		w.log.Error("handler ignores its context: its place is lost until it returns",
			"kind", s.job.Kind, "job", s.job.ID, "running", time.Since(s.beganAt).Round(time.Millisecond), "goroutines", runtime.NumGoroutine())
	}
}

// settle decides the outcome of a start, once, and has it stored. It returns
// false if that was done before.
func (w *worker) settle(s *start, err error) bool {
	if !s.settled.CompareAndSwap(false, true) {
		return false
	}
	s.mu.Lock()
	result, detail, observed := s.result, s.detail, s.observed
	began, lost := s.began, s.lost
	s.mu.Unlock()
	if s.recorded != nil && lost {
		close(s.recorded)
	}
	if lost {
		w.log.Warn("a start ended whose lease was lost: its outcome is not stored",
			"kind", s.job.Kind, "job", s.job.ID, "error", oneLine(err))
		w.endedInVain(s, began, err)
		return true
	}
	d := w.decide(s, began, err)
	f := d.Finish
	f.ID, f.Worker, f.Token, f.Started = s.job.ID, s.worker, s.job.Token, began
	swallowed := s.swallowing(err)
	f.Result, f.Detail = result, detailWith(swallowed, detail)
	f.Observations = append(observed, f.Observations...)
	if d.paused != "" {
		w.giveBackWaiting(d.paused)
	}
	f.Scarce = w.freesInFlight(s.job.Charges)
	w.fin.add(&ending{start: s, finish: f, at: time.Now(), paused: d.paused, swallowed: swallowed, urgent: f.Scarce})
	return true
}

// freesInFlight says whether others may be waiting for the end of this start.
func (w *worker) freesInFlight(charges []chargeOf) bool {
	for _, ch := range charges {
		if sp, ok := w.c.specs.get(w.life, ch.Limit); !ok || sp.InFlight > 0 {
			return true
		}
	}
	return false
}

// giveBackWaiting gives back the starts that wait for a slot of a limit that
// was just paused.
func (w *worker) giveBackWaiting(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = true
	for _, s := range w.held {
		for _, ch := range s.job.Charges {
			if ch.Limit == name {
				s.stopWaiting(errNotBegun)
			}
		}
	}
}
