package penstock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
)

// A OnceOption changes how Once guards an effect.
type OnceOption interface{ applyOnce(o *onceSettings) }

type onceSettings struct{ atMostOnce bool }

// AtMostOnceOption is what AtMostOnce returns: it fits both Enqueue and Once.
type AtMostOnceOption struct{}

func (AtMostOnceOption) applyEnqueue(j *NewJob)    { j.AtMostOnce = true }
func (AtMostOnceOption) applyOnce(o *onceSettings) { o.atMostOnce = true }

// AtMostOnce has an effect never run a second time while it may have happened:
// the job becomes a dead letter ("in_doubt") for a person to decide. Given to
// [Once] it holds for that effect. Given to Enqueue it holds for everything the
// handler does: once the handler has begun, only a success, an error that proves
// that nothing happened ([NotSent], [RateLimited]), or a word of the handler's
// own ([Permanent], [Snooze]) says that nothing is in doubt.
func AtMostOnce() AtMostOnceOption { return AtMostOnceOption{} }

// Once runs fn so that its effect happens once for the key, and returns its
// result; a repeat gets the kept result and does not run fn. It must be called
// with the context of a running job. The result is kept as JSON; one that cannot
// be is returned this once, and a repeat is dead (rejected) for want of it.
//
// Keys are shared by all jobs of the store: begin them with what they are
// about, as "charge/order-17". While another start runs the same effect, Once
// waits for it.
//
// If fn fails with an error that proves that nothing was sent (NotSent,
// RateLimited, a connection that was not made), the effect counts as not begun.
// After any other failure, and when a process died inside fn, nobody knows
// whether the effect happened. The next start then runs fn again, which is
// right where the API removes duplicates by a key; with [AtMostOnce] it returns
// an *[InDoubtError] instead, which the handler must return.
func Once[T any](ctx context.Context, key string, fn func(ctx context.Context) (T, error), opts ...OnceOption) (T, error) {
	var none T
	s := startOf(ctx)
	if s == nil {
		return none, fmt.Errorf("once %q: %w", key, ErrNoJob)
	}
	if err := checkEffect(key); err != nil {
		return none, err
	}
	var o onceSettings
	for _, opt := range opts {
		if opt != nil {
			opt.applyOnce(&o)
		}
	}
	var result T
	kept, err := s.once(ctx, key, o.atMostOnce, func(ctx context.Context) ([]byte, error) {
		var err error
		if result, err = fn(ctx); err != nil {
			return nil, err
		}
		b, err := resultOf(result)
		if err != nil {
			// The effect has happened: better no result kept than a repeat.
			s.w.log.Error("the effect happened, but its result cannot be kept: a job that meets it again is dead", "job", s.job.ID, "key", key, "error", err)
		}
		return b, nil
	})
	switch {
	case err != nil:
		return none, err
	case kept == nil:
		return result, nil
	case len(kept) == 0:
		return none, Permanent(fmt.Errorf("once %q: the effect happened in an earlier start, but its result, a %T, could not be kept as JSON: have it return something that can", key, none))
	}
	return decodeKept[T](key, kept)
}

// checkEffect refuses what can be no effect's key.
func checkEffect(key string) error {
	if key == "" {
		return errors.New("once: the effect needs a key")
	}
	if err := checkOwn("effect", key); err != nil {
		return fmt.Errorf("once: %w", err)
	}
	return nil
}

// resultOf is the kept form of an effect's result. A result's own methods are
// code of the handler's: a panic in them must not have the effect repeated.
func resultOf(result any) (b []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			b, err = nil, fmt.Errorf("writing it as JSON panicked: %v", v)
		}
	}()
	if b, err = json.Marshal(result); err == nil && len(b) > maxKept {
		return nil, fmt.Errorf("it has %d bytes, the most is %d", len(b), maxKept)
	}
	return b, err
}

// once is Once for bytes. It returns the kept result of an earlier run, or nil
// if fn ran now.
func (s *start) once(ctx context.Context, key string, atMostOnce bool, fn func(ctx context.Context) ([]byte, error)) (kept []byte, err error) {
	if !s.enterEffect(key) {
		return nil, fmt.Errorf("once %q: this start is running that effect already: give an effect within it, or beside it, a key of its own", key)
	}
	defer s.leaveEffect(key)
	begun, err := s.beginEffect(ctx, key, atMostOnce)
	if err != nil {
		return nil, err
	}
	if begun.State == store.EffectDone {
		return append([]byte{}, begun.Result...), nil
	}
	if atMostOnce {
		fn = panicInDoubt(fn)
	}
	result, err := fn(ctx)
	// What is known about the effect is written even if the handler's time is up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), effectWrite)
	defer cancel()
	st, id, token := s.w.st, s.job.ID, s.job.Token
	switch {
	case err == nil:
		err := insist(ctx, func() error { return st.FinishEffect(ctx, key, id, token, result) })
		if err != nil {
			return nil, fmt.Errorf("once %q: the effect happened, but that could not be recorded: %w", key, err)
		}
		return nil, nil
	case provesNothingSent(err), atMostOnce && saysNothingHappened(err):
		if e := insist(ctx, func() error { return st.ClearEffect(ctx, key, id, token) }); e != nil {
			s.w.log.Warn("effect known not to have happened could not be cleared", "job", id, "key", key, "error", e)
		}
		return nil, err
	case atMostOnce:
		return nil, &InDoubtError{Key: key, Err: err}
	}
	return nil, err
}

// enterEffect notes that this start runs the effect; false if it does so already.
func (s *start) enterEffect(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.effects[key] {
		return false
	}
	if s.effects == nil {
		s.effects, s.begun = map[string]bool{}, map[string]bool{}
	}
	s.effects[key] = true
	return true
}

func (s *start) leaveEffect(key string) {
	s.mu.Lock()
	delete(s.effects, key)
	s.mu.Unlock()
}

const (
	effectWrite = 10 * time.Second // how long a record about an effect is insisted on
	effectPoll  = 50 * time.Millisecond
	effectSlow  = time.Second
)

// beginEffect records that the effect begins, or tells why it does not. While
// another start runs it, it waits.
func (s *start) beginEffect(ctx context.Context, key string, atMostOnce bool) (store.Effect, error) {
	for wait := effectPoll; ; wait = min(2*wait, effectSlow) {
		e, err := s.w.st.BeginEffect(ctx, key, s.job.ID, s.job.Token, !atMostOnce)
		switch {
		case err != nil:
			// Nothing was begun as far as this start knows.
			s.withdraw(ctx, key, err)
			return e, NotSent(fmt.Errorf("once %q: %w", key, err))
		case e.State == store.EffectInDoubt && atMostOnce:
			return e, &InDoubtError{Key: key}
		case e.State != store.EffectRunning:
			s.mu.Lock()
			s.begun[key] = true
			s.mu.Unlock()
			return e, nil
		}
		if err := sleep(ctx, wait); err != nil {
			return e, NotSent(fmt.Errorf("once %q: another start is still running it: %w", key, err))
		}
	}
}

// withdraw sees to it that an effect does not count as begun whose beginning
// failed: it may have been recorded all the same, and only the answer was lost. An
// effect that this start began before stays, and so does another's.
func (s *start) withdraw(ctx context.Context, key string, failed error) {
	s.mu.Lock()
	before := s.begun[key]
	s.mu.Unlock()
	if before || errors.Is(failed, store.ErrLeaseLost) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), effectWrite)
	defer cancel()
	_ = insist(ctx, func() error { return s.w.st.ClearEffect(ctx, key, s.job.ID, s.job.Token) }) // in vain: then it is in doubt, which is safe
}

// provesNothingSent says whether an effect that failed with err did not happen.
func provesNothingSent(err error) bool {
	var limited *RateLimitedError
	var unsent *NotSentError
	return errors.As(err, &limited) || errors.As(err, &unsent) || retry.Classify(err) == retry.NeverBegan
}

// saysNothingHappened says whether the handler itself said that the effect is
// still to come, or never will.
func saysNothingHappened(err error) bool {
	var permanent *PermanentError
	var snooze *SnoozeError
	return errors.As(err, &permanent) || errors.As(err, &snooze)
}

// panicInDoubt turns a panic within an effect into an error: how far it got is
// not known.
func panicInDoubt(fn func(context.Context) ([]byte, error)) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) (b []byte, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
		}()
		return fn(ctx)
	}
}

// insist repeats a write while the store fails, until ctx ends.
func insist(ctx context.Context, write func() error) error {
	for wait := effectPoll; ; wait = min(2*wait, effectSlow) {
		err := write()
		if err == nil || errors.Is(err, store.ErrLeaseLost) {
			return err
		}
		if sleep(ctx, wait) != nil {
			return err
		}
	}
}

// sleep waits for d or until ctx ends, whose cause it returns then.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
