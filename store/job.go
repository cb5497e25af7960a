package store

import (
	"encoding/json"
	"fmt"

	"github.com/penstockhq/penstock/dispatch"
)

// A State says where a job is. A job is in exactly one state at any time.
type State uint8

// The states of a job. Waiting covers everything that will still be started:
// due now, due later, or held back by a limit.
const (
	Waiting   State = 1 + iota // in line, perhaps for a later time
	Running                    // leased to a worker
	Done                       // ended with success
	Dead                       // ended without success; kept, replayable
	Cancelled                  // ended because somebody said so
)

var stateNames = [...]string{"", "waiting", "running", "done", "dead", "cancelled"}

// String returns the state's lower-case name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Ended reports whether no start will follow, unless somebody replays the job.
func (s State) Ended() bool { return s >= Done }

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseState reads a state's name.
func ParseState(name string) (State, error) {
	for i, n := range stateNames {
		if i > 0 && n == name {
			return State(i), nil
		}
	}
	return 0, fmt.Errorf("state %q: expected waiting, running, done, dead or cancelled", name)
}

// PrivateKind begins the kinds that end with their worker: such a job means
// nothing to anybody else, so a rescue removes it.
const PrivateKind = "penstock:"

// A Reason says why a job is dead.
type Reason string

// The reasons of dead letters.
const (
	Exhausted Reason = "exhausted" // failed on its last attempt
	Rejected  Reason = "rejected"  // known to fail on every attempt
	Throttled Reason = "throttled" // refused by the API until its throttle budget was spent
	Expired   Reason = "expired"   // not started before its expiry
	Lost      Reason = "lost"      // its process died under it too often
	InDoubt   Reason = "in_doubt"  // an effect that may happen at most once was begun, its end is unknown
)

// An Outcome says how a start ended.
type Outcome uint8

// The outcomes of a start. Only OutcomeRetry counts as an attempt, and
// OutcomeDead where the handler had begun.
const (
	OutcomeDone      Outcome = 1 + iota
	OutcomeRetry             // failed, to be tried again at Finish.At
	OutcomeThrottled         // the API said "not now"
	OutcomeDead              // failed for good
	OutcomeSnoozed           // the handler asked for a later time
	OutcomeCancelled         // stopped because the job was cancelled
	OutcomeReturned          // the handler is known never to have begun
	OutcomeLost              // the worker vanished; only a store sets it
	OutcomeDiscarded         // ended, and nothing is kept of the job
	OutcomeReplayed          // no end: put back in line by a person; only a store writes it
)

var outcomeNames = [...]string{"", "done", "retry", "throttled", "dead", "snoozed", "cancelled", "returned", "lost", "discarded", "replayed"}

// String returns the outcome's lower-case name.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// MarshalText writes the outcome's name.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Options are the settings of a job that no query looks at. They are written
// once, with the payload.
type Options struct {
	MaxAttempts    int    `json:"attempts,omitempty"`        // 0: the kind's
	Timeout        int64  `json:"timeout,omitempty"`         // of a start, µs; 0: the kind's
	ThrottleBudget int64  `json:"throttle_budget,omitempty"` // µs; 0: the kind's
	IdempotencyKey string `json:"key,omitempty"`
	AtMostOnce     bool   `json:"at_most_once,omitempty"`
}

func (o Options) encode() string {
	if o == (Options{}) {
		return ""
	}
	b, _ := json.Marshal(o) // strings and numbers only: cannot fail
	return string(b)
}

// EncodeOptions returns the stored form of o; the zero value is "".
func EncodeOptions(o Options) string { return o.encode() }

// DecodeOptions reads what EncodeOptions wrote.
func DecodeOptions(s string) (Options, error) {
	var o Options
	if s == "" {
		return o, nil
	}
	if err := json.Unmarshal([]byte(s), &o); err != nil {
		return o, fmt.Errorf("stored job options %q: %w", s, err)
	}
	return o, nil
}

// LaneKey holds the parts that all jobs of a lane share.
type LaneKey struct {
	Queue    string
	Kind     string
	Priority int    // 1 to 9, larger first
	Run      string // the run of calls it belongs to, "" for none
	Load     string // while set, the job is staged: stored, not yet visible to anybody
	Suspect  bool   // its process was lost under it; see ClaimRequest.SuspectFree
	Group    string // fairness is between groups
	Draws    []dispatch.Draw
}

// NewJob is a job to be inserted.
type NewJob struct {
	LaneKey
	At        int64 // when it is due; 0 or past: now
	ExpiresAt int64 // dead (Expired) if not started by then; 0: never
	Payload   []byte
	Options   Options
	Unique    string // at most one waiting or running job has it; "": no such check
	Replace   bool   // with Unique: a waiting holder gets the new payload, a running one a successor
	Ref       string // with Run: the call's id, unique within the run for ever
	Hash      string // with Ref: a digest of the content; the same Ref with another Hash is a conflict
	Line      int64  // with Ref: where it stood in its file, for messages
	// Start says who would start the job at once; nil: nobody. It is a wish: see Starter.
	Start *Starter
}

// A Starter is a worker that would start a new job at once, since it has a free place
// for it and knows of nothing else to start. The store then writes the job as claimed by
// the worker, in the same commit, and Inserted.Started says so. It does so only for the
// only job of a call, and only if no claim would be kept from it: the job is new and due,
// has not expired, and has no draws, no Unique, Run or Load; its queue is not paused; the
// worker is registered and was not declared dead; and no other job of its lane waits and
// is due. Otherwise, or where the store would have to wait to know all this, the job is
// inserted as any other.
type Starter struct {
	Worker string
	Token  int64 // the lease's, made at random, not 0
}

// Verdict says what became of a NewJob.
type Verdict uint8

// The verdicts on an inserted job.
const (
	Created   Verdict = 1 + iota // a new job
	Duplicate                    // its Unique or its Ref is taken by Inserted.ID, with the same content; nothing was written
	Replaced                     // Replace gave a waiting job the new payload
	Conflict                     // its Ref is taken with another Hash; nothing was written
)

// Inserted tells what became of one NewJob.
type Inserted struct {
	ID      int64 // of the new job, or of the one that was there first
	State   State // of that job; 0: it ended and was pruned
	Verdict Verdict
	Line    int64 // of the first one, for Duplicate and Conflict by Ref
	// Started is the job as a claim would have returned it, if it was started at once as
	// NewJob.Start wished; else nil.
	Started *Claimed
}

// Job is all a store knows of a job.
type Job struct {
	ID int64
	LaneKey
	State      State
	At         int64 // when it is or was due
	EnqueuedAt int64
	ExpiresAt  int64
	Options    Options
	Unique     string
	Ref        string
	Payload    []byte // nil where a list was asked for without bodies

	Attempts    int // failures that count against the maximum
	Starts      int // handler starts that are known to have begun or may have
	Throttles   int // starts refused by the API
	Losses      int // starts whose process vanished
	RefusedRun  int // refusals since the last start that was not refused
	RefusedAt   int64
	ThrottledAt int64 // first refusal since the last other outcome; the throttle budget counts from here
	ThrottleSum int64 // announced pauses since then, µs; not counted by the budget
	Cancel      bool  // somebody asked for the running start to stop

	Worker string // Running: who holds it
	Token  int64  // Running: the lease
	Slot   int64  // Running: not to be started before this instant
	// LeasedAt is when the worker took it; Running.
	LeasedAt int64

	FinishedAt int64 // ended jobs
	Reason     Reason
	Error      string // last failure
	Result     []byte // what the handler returned or the API answered
}

// Event is one ended start, or another turn in a job's life, for people to read.
type Event struct {
	JobID   int64
	N       int   // 1, 2, 3… within the job
	At      int64 // when it was written
	Started int64 // when the handler began; 0 if it did not
	Outcome Outcome
	Error   string
	NextAt  int64  // when the job is due again
	Detail  []byte // JSON of the kind's making: status, headers, first bytes of an answer
}
