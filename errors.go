package penstock

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/store"
)

// The facts a caller may test for with errors.Is.
var (
	// ErrNotFound: there is no such job or limit.
	ErrNotFound = store.ErrNotFound
	// ErrUniqueTaken: another waiting or running job has the unique key.
	ErrUniqueTaken = store.ErrUniqueTaken
	// ErrOtherDatabase: the transaction given to EnqueueTx or OnceTx is on another
	// database than the client's store.
	ErrOtherDatabase = store.ErrOtherDatabase
	// ErrLeaseLost is the cause of a handler's context when the job was, or may
	// soon be, given to another worker.
	ErrLeaseLost = store.ErrLeaseLost
	// ErrCancelled is the cause of a handler's context when somebody cancelled
	// the job. Whatever error the handler then returns, the job is cancelled.
	ErrCancelled = errors.New("the job was cancelled")
	// ErrTimeout is the cause of a handler's context when its time is up.
	ErrTimeout = errors.New("the start ran out of time")
	// ErrStopped is the cause of a handler's context when its process stops
	// before the handler was done. The job is run again, without an attempt spent.
	ErrStopped = errors.New("the worker was told to stop")
	// ErrNoJob: a function that needs a handler's context, or its job, was called
	// without one.
	ErrNoJob = errors.New("this is not a running job: pass on the context, and the job, that the handler was given")
)

// A RetryError asks for another attempt after Wait.
type RetryError struct {
	Wait time.Duration
	Err  error
}

// RetryIn has the job fail with err and tried again after d, if it has attempts left.
func RetryIn(d time.Duration, err error) error { return &RetryError{Wait: max(d, 0), Err: err} }

func (e *RetryError) Error() string { return text(e.Err, "to be tried again in "+e.Wait.String()) }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// A PermanentError says that no further attempt can help.
type PermanentError struct{ Err error }

// Permanent makes the job a dead letter at once, for the reason "rejected", also if
// err is nil.
func Permanent(err error) error { return &PermanentError{Err: err} }

func (e *PermanentError) Error() string { return text(e.Err, "failed for good") }

// Unwrap returns the cause.
func (e *PermanentError) Unwrap() error { return e.Err }

// A RateLimitedError says that the API refused the call because of a limit. It
// is no failure: no attempt is spent, the limit is paused for everybody, and
// the job keeps its place in line.
type RateLimitedError struct {
	// Wait is how long the API asked to wait, counted from now; 0: not stated.
	Wait time.Duration
	// Until is the instant the API named, on this machine's clock; zero: see Wait.
	Until time.Time
	// Limit names the limit that was hit; "": the first limit of the job that
	// has a rate.
	Limit string
	// Err is what the call returned, if anything.
	Err error
}

// RateLimited says that the API refused the call and asked to wait (0 or less:
// it did not say how long). To name the limit that was hit, or to keep the
// API's answer, use a *[RateLimitedError]. Package limit/header reads from a response
// whether it is a refusal, and the wait, in all the forms that APIs use.
func RateLimited(wait time.Duration) error { return &RateLimitedError{Wait: max(wait, 0)} }

// RateLimitedUntil is [RateLimited] with an instant.
func RateLimitedUntil(t time.Time) error { return &RateLimitedError{Until: t} }

func (e *RateLimitedError) Error() string {
	s := "rate limited by the API"
	switch {
	case !e.Until.IsZero():
		s += " until " + e.Until.Format(time.RFC3339)
	case e.Wait > 0:
		s += " for " + e.Wait.String()
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *RateLimitedError) Unwrap() error { return e.Err }

// A SnoozeError asks to be started again later, which is no failure.
type SnoozeError struct{ Wait time.Duration }

// Snooze has the job started again after d. No attempt is spent.
func Snooze(d time.Duration) error { return &SnoozeError{Wait: max(d, 0)} }

func (e *SnoozeError) Error() string { return "snoozed for " + e.Wait.String() }

// A NotSentError says that the effect is known not to have happened.
type NotSentError struct{ Err error }

// NotSent is a failure that proves that nothing was sent, such as a connection
// that could not be made. It is retried like any other, and clears what [Once]
// had noted as begun. It can wrap the other errors of this package:
// NotSent(Permanent(err)).
func NotSent(err error) error { return &NotSentError{Err: err} }

func (e *NotSentError) Error() string { return text(e.Err, "nothing was sent") }

// Unwrap returns the cause.
func (e *NotSentError) Unwrap() error { return e.Err }

// An InDoubtError says that an effect which may happen at most once was begun
// and that nobody knows its end. The job becomes a dead letter for the reason
// "in_doubt", for a person to decide.
type InDoubtError struct {
	Key string
	Err error // the failure that left it in doubt; nil if its process was lost
}

func (e *InDoubtError) Error() string {
	s := fmt.Sprintf("the effect %q was begun and may have happened; replay the job to run it again", e.Key)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *InDoubtError) Unwrap() error { return e.Err }

// A PanicError is a handler's panic.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the panic's value if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func text(err error, without string) string {
	if err == nil {
		return without
	}
	return err.Error()
}
