package store

import "context"

// Operator is what people and their tools need to keep a store in order.
type Operator interface {
	// Lines counts the due jobs in line at each limit: those that the limit
	// refused last, or that were not looked at yet. It looks at all waiting jobs.
	Lines(ctx context.Context) (map[string]int64, error)
	// Flow says how jobs came to an end lately, by queue. It looks at the newest
	// jobs only, a bounded number, which ended at or after the instant.
	Flow(ctx context.Context, since int64) (map[string]Flow, error)
	// Unserved counts the due jobs that no live worker can run, by queue, kind and
	// run, in this order.
	Unserved(ctx context.Context) ([]Unserved, error)
	// Checkup tells what the store knows of its own condition.
	Checkup(ctx context.Context) (Checkup, error)
	// Notes lists what was changed by hand, or by code that declares a limit anew,
	// newest first, at most n; of everything where the subject is "". A bounded
	// number of them is kept.
	Notes(ctx context.Context, subject string, n int) ([]Note, error)
	// Pace is for those who put many jobs in line one after the other, in several
	// portions, so that they go on behind each other: each of the named lines is taken
	// until an instant, which is now if it was taken until an earlier one. fn, which may
	// be run again and must not use the store, says until when they are taken after it.
	Pace(ctx context.Context, lines []string, fn func(now int64, taken []int64)) error
	// Prune removes jobs that ended in one of the states before the instant, with
	// their history, at most n, and returns how many. The call ids of their runs stay
	// taken: whoever inserts such a call again gets a Duplicate of state 0.
	Prune(ctx context.Context, states []State, before int64, n int) (int, error)
	// PruneCalls is Prune, and frees the call ids of what it removes: the same call of
	// the run is a new one after it.
	PruneCalls(ctx context.Context, states []State, before int64, n int) (int, error)
	// Tidy removes what no job needs any more: lanes, gates and bands that were
	// left empty, and the states of keyed limits that are as good as new. It works
	// in bounded commits beside everything else. An interrupted one leaves nothing
	// half done; of several at a time all but the last one end early.
	Tidy(ctx context.Context) (Tidied, error)
}

// Flow is how jobs of a queue came to an end.
type Flow struct {
	Ended int64 // done or dead
	First int64 // when the first one ended
}

// Unserved is due jobs that no live worker can run.
type Unserved struct {
	Queue, Kind, Run string
	Due              int64
}

// Checkup is a store's condition.
type Checkup struct {
	Now        int64
	Newest     int64 // the latest instant at which a job is said to have come or ended
	SweepFinds int64 // lanes that a sweep found asleep though they had work, ever: bugs of the store
	LastFind   int64 // when the last one was found
}

// The subjects of notes are a kind of thing and its name.
const (
	NoteLimit = "limit "
	NoteQueue = "queue "
)

// Note says what somebody changed.
type Note struct {
	ID      int64 // ascending
	At      int64
	Subject string // "limit NAME", "queue NAME"
	Text    string
}

// Tidied counts what a Tidy removed.
type Tidied struct {
	Lanes, Gates, Bands, LimitStates int
}
