// Package store is the contract that every store of Penstock keeps: what is
// kept of jobs, limits, workers and effects, and which promises hold.
//
// Times are int64 microseconds since the Unix epoch, of the store's own clock.
// All methods are safe for concurrent use, by many processes where the store
// allows many processes. A method that returns an error has changed nothing,
// with one exception that no store on a network can rule out: a commit whose
// reply was lost. Claim and Finish can be repeated safely in that case.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
)

// The facts a caller may test for with errors.Is.
var (
	ErrNotFound      = errors.New("not found")
	ErrLeaseLost     = errors.New("lease lost: the job was given to another worker or ended meanwhile")
	ErrUnknownWorker = errors.New("worker is not registered or was declared dead: register again")
	ErrNewerSchema   = errors.New("the database was written by a newer version")
	ErrNotOurs       = errors.New("not a Penstock database")
	ErrBusy          = errors.New("the database is locked by somebody else")
	ErrUniqueTaken   = errors.New("a waiting or running job already has the unique key")
	ErrClosed        = errors.New("the store is closed")
	ErrOtherDatabase = errors.New("the transaction is not on the store's database")
)

// Store is what the root package needs of a store.
type Store interface {
	Inserter
	Leaser
	Limits
	Effects
	Inspector
	Operator

	// Now is the store's clock.
	Now(ctx context.Context) (int64, error)
	// Watch returns a channel that gets a value, never blocking the sender,
	// soon after another process made something startable, or startable earlier
	// than an earlier claim's NextAt said (within 100 ms on a file), and at once
	// after this one did. Spurious values are allowed, a missed one is not. It
	// works until ctx ends.
	Watch(ctx context.Context) <-chan struct{}
	// Ping reports whether the store can be read and written at the moment.
	Ping(ctx context.Context) error
	// Close frees what the store holds. It waits for writes under way.
	Close() error
}

// Inserter puts jobs in.
type Inserter interface {
	// Insert writes all jobs or none. Results are in the order of jobs. An unknown
	// limit, an impossible cost or a time that cannot be stored refuses the whole
	// call with an *InsertError that names the job's index.
	Insert(ctx context.Context, jobs []NewJob) ([]Inserted, error)
	// Release makes all jobs staged under load visible, in one commit.
	Release(ctx context.Context, load string) error
	// DropLoads removes what was staged and never released for the run, a
	// bounded chunk per commit, and returns how many jobs were removed.
	DropLoads(ctx context.Context, run string) (int, error)
}

// InsertError says which of the jobs of one Insert was refused.
type InsertError struct {
	Index int
	Err   error
}

func (e *InsertError) Error() string { return fmt.Sprintf("job %d: %v", e.Index, e.Err) }

// Unwrap returns the cause.
func (e *InsertError) Unwrap() error { return e.Err }

// Worker describes a process that claims jobs.
type Worker struct {
	ID    string // random per start, never reused
	Host  string // for people
	PID   int
	Kinds []string // for people and for "why": what it can run
	Run   string
	Lease time.Duration
}

// QueueAsk is one queue a worker serves.
type QueueAsk struct {
	Name  string
	Place int // 0 is served first; equal places are served alike
	Max   int // how many more jobs of this queue it can take
}

// ClaimRequest says what a worker can take.
type ClaimRequest struct {
	Worker string
	// Token is made by the caller, unique per claim. Repeat says that the same
	// token was sent before and no answer came: the jobs then leased are returned.
	Token  int64
	Repeat bool

	Queues   []QueueAsk // none: every queue, all at place 0, up to Places each
	Kinds    []string
	Run      string // only jobs of this run; "": all jobs
	Places   int    // places free for any job
	Prefetch int    // how many jobs without limits may come on top
	// Lead is how far ahead slots lie at least: what the worker needs to be in time.
	// Horizon is how much further ahead they may lie.
	Lead, Horizon time.Duration
	// Early is how far ahead slots lie, if Lead is not more, under limits that are far from
	// used up. Starts may begin before them, at once, so that it does not matter when
	// between now and then they do. 0: none do, and none where the horizon is shorter.
	Early time.Duration
	// Stagger is how much later the worker comes for permits than it could. Where each
	// draws it by chance, less than Ahead, the others mostly find at a look that one of
	// them has taken the permits.
	Stagger time.Duration
	// SuspectFree says that the worker runs no suspect. A suspect is a job whose
	// process vanished; a claim returns at most one, and only to such a worker.
	SuspectFree bool
	// More says that the worker's last claim left something that could be started, so
	// that a look whether there is anything is not worth a store's while.
	More bool
}

// Ahead is how long before its instant a gate counts as open for the worker. It is the
// smaller part of the horizon, so that slots close to one another are claimed together, and
// there is time left to commit. Whoever needs more time comes earlier, but not who needs
// just some: it would always be there before the others.
func (r ClaimRequest) Ahead() time.Duration {
	return max(min(r.Horizon/2, aheadLeast), r.Lead+r.Horizon/4)
}

// aheadLeast is time for a claim to commit, and for workers to come apart.
const aheadLeast = 25 * time.Millisecond

// Claimed is a job with its permits and its lease.
type Claimed struct {
	Job
	// Charges are the permits it holds.
	Charges []dispatch.Charge
	// Early says that the start may begin before its slot. A repeated claim forgets it.
	Early bool
}

// ClaimResult is what a claim took.
type ClaimResult struct {
	Jobs []Claimed
	// NextAt is when it is worth asking again if nothing else happens: when the
	// next job is due, or Ahead less Stagger before the next slot. limit.Never if only
	// a change elsewhere can help.
	NextAt int64
	Now    int64 // the store's clock during the claim
	// ExpiredJobs are jobs that the claim found past their expiry and made dead.
	ExpiredJobs []Job
}

// Finish ends one start. Exactly one of the outcomes applies.
type Finish struct {
	ID      int64
	Worker  string
	Token   int64
	Outcome Outcome
	// At is when the job is due again (retry, snoozed; throttled: only when the
	// job itself is to wait, 0 keeps its place in line).
	At      int64
	Started int64 // when the handler began, 0 if never
	// Scarce says that others may be waiting for a call in flight that it gives back.
	// Without it a store may take a moment longer to give it to them.
	Scarce bool
	Reason Reason
	Error  string
	Result []byte
	Detail []byte // for the event
	// Pause is how long the API asked to wait; the throttle budget leaves it out.
	Pause time.Duration
	// Passed is when the call was seen to be let through by the limits that it was
	// charged by, 0 if it was not: it ends their runs of back-offs and lets guards shrink.
	Passed int64
	// Observations are applied to their limits in the same commit.
	Observations []Observed
}

// Observed is an observation and the limit it belongs to.
type Observed struct {
	Limit string
	limit.Observation
	// Random in [0,1) jitters a pause that the API did not state.
	Random float64
}

// Finished is the answer to one Finish.
type Finished struct {
	// Err is nil, or ErrLeaseLost: the write was refused and nothing changed.
	Err   error
	State State
	At    int64 // when it is due again, for a Waiting job
}

// Leaser hands jobs to workers and takes them back.
type Leaser interface {
	// Register makes a worker known; its liveness starts now.
	Register(ctx context.Context, w Worker) error
	// Deregister forgets a worker that holds nothing any more. What it still
	// holds is rescued at once.
	Deregister(ctx context.Context, worker string) error
	// Heartbeat says that the worker lives, and returns what the store believes
	// it holds. ErrUnknownWorker if it was declared dead.
	Heartbeat(ctx context.Context, worker string) ([]Lease, error)
	// Claim takes jobs together with their permits, in one transaction.
	Claim(ctx context.Context, r ClaimRequest) (ClaimResult, error)
	// Finish ends starts; each stands for itself. A repeated Finish whose first
	// commit went through gets ErrLeaseLost.
	Finish(ctx context.Context, f []Finish) ([]Finished, error)
	// Rescue takes back the jobs of workers that are dead: known to be gone, or
	// silent for longer than their lease plus a margin. A lost job becomes a
	// suspect; one lost lostMax times as a suspect is dead. It works in bounded
	// chunks and returns the jobs taken back.
	Rescue(ctx context.Context, lostMax int) ([]Job, error)
	// SeesDeaths reports whether the store can see at first hand that a process died,
	// as one on a single machine can, so that it is worth asking Rescue often. Else a
	// death shows when a lease is over, and not before. It asks nobody, and never changes.
	SeesDeaths() bool
	// Cancels returns the jobs that the worker runs and somebody cancelled.
	Cancels(ctx context.Context, worker string) ([]int64, error)
	// Sweep looks for lanes that should be awake and are not: a safety net. Every
	// find is a bug of the store, and is counted. It also removes the state of
	// idle keyed limits. Bounded work per call.
	Sweep(ctx context.Context) (finds int, err error)
}

// Lease is one job that a worker holds.
type Lease struct {
	ID    int64
	Token int64
	Since int64
}

// LimitInfo is a limit as people see it.
type LimitInfo struct {
	Name     string // or the pattern "name/*"
	Declared string // spec declared by code or flags
	Set      string // spec set by a person, wins until reset; "" if none
	Spec     limit.Spec
	State    limit.State // zero for a pattern
}

// Limits keeps named budgets.
type Limits interface {
	// DeclareLimit creates a limit or changes what code declares of it. A spec set
	// by a person goes on winning. The name "x/*" declares a pattern.
	DeclareLimit(ctx context.Context, name string, spec limit.Spec) error
	// SetLimit overrides what is declared, at once and for all processes.
	SetLimit(ctx context.Context, name string, spec limit.Spec) error
	// ResetLimit takes the override away.
	ResetLimit(ctx context.Context, name string) error
	// PauseLimit stops a limit until the instant, which must be to come; limit.Never:
	// until ResumeLimit.
	PauseLimit(ctx context.Context, name string, until int64, reason string) error
	// ResumeLimit lifts a person's pause and the API's.
	ResumeLimit(ctx context.Context, name string) error
	// Limit returns one limit, ErrNotFound or *UnknownLimitError.
	Limit(ctx context.Context, name string) (LimitInfo, error)
	// ListLimits returns limits in name order, after the given name, at most n.
	ListLimits(ctx context.Context, after string, n int) ([]LimitInfo, error)
	// Observe applies observations that belong to no job.
	Observe(ctx context.Context, o []Observed) error
}

// EffectState says what is known of an effect.
type EffectState uint8

// The states of an effect.
const (
	EffectNew     EffectState = 1 + iota // begun by this call
	EffectDone                           // happened before; the result is kept
	EffectRunning                        // begun by a start that still lives
	EffectInDoubt                        // begun by a start that is gone; nobody knows its end. Now begun by this call
)

// Effect is what BeginEffect found.
type Effect struct {
	State  EffectState
	Result []byte
}

// Effects keeps guarded side effects.
type Effects interface {
	// BeginEffect records that the job's start begins the effect. The token must
	// be the job's lease (ErrLeaseLost). With takeOver false an effect in doubt
	// is reported and left as it is.
	BeginEffect(ctx context.Context, key string, job, token int64, takeOver bool) (Effect, error)
	// FinishEffect records the effect as done, with its result, if the same start began it.
	FinishEffect(ctx context.Context, key string, job, token int64, result []byte) error
	// ClearEffect forgets that the start began the effect: it is known not to have happened.
	ClearEffect(ctx context.Context, key string, job, token int64) error
}

// Filter selects jobs. Zero fields do not filter.
type Filter struct {
	IDs    []int64
	States []State
	Queue  string
	Kind   string
	Limit  string // draws on this limit; "name/*": on any key of it
	Run    string
	Refs   []string // with Run
	Reason Reason
	Text   string // part of the error
	Before int64  // ended (or, not ended, enqueued) before this instant
	After  int64  // ended (or, not ended, enqueued) at or after this instant
	// For paging: ids above AfterID, and below BeforeID.
	AfterID, BeforeID int64
	Newest            bool // from the largest id down
	N                 int  // at most so many; 0: 100
	Bodies            bool // with payload and result
}

// QueueInfo counts a queue.
type QueueInfo struct {
	Name                    string
	Paused                  bool
	PausedReason            string
	PausedAt                int64 // since when; 0 if it is not
	Due, Scheduled, Running int64 // Due: waiting and due now
	Dead, Done, Cancelled   int64
	OldestDue               int64 // the At of the oldest due job, 0 if none
}

// WorkerInfo is a registered worker.
type WorkerInfo struct {
	Worker
	SeenAt int64
	Holds  int64
	Dead   bool // known to be gone, or silent for too long: its jobs are there to be taken back
}

// Inspector lets people look and act.
type Inspector interface {
	// Job returns a job with its bodies, or ErrNotFound.
	Job(ctx context.Context, id int64) (Job, error)
	// Why lists what keeps a waiting job from its start; nil for one that runs or
	// ended. ErrNotFound for an unknown one.
	Why(ctx context.Context, id int64) ([]dispatch.Wait, error)
	// Jobs lists jobs in the order of their ids, or in the opposite one.
	Jobs(ctx context.Context, f Filter) ([]Job, error)
	// CountRun counts the jobs of a run by state.
	CountRun(ctx context.Context, run string) (map[State]int64, error)
	// CallIDs returns, of those of the run's call ids that are taken, whose they are: the
	// ids of jobs, also of such as were pruned.
	CallIDs(ctx context.Context, run string, refs []string) (map[string]int64, error)
	// Events returns a job's history, oldest first.
	Events(ctx context.Context, id int64) ([]Event, error)
	// Cancel ends a waiting job and asks a running one to stop. It returns the
	// state after the call: Cancelled, Running (asked), or the end it had before.
	Cancel(ctx context.Context, id int64) (State, error)
	// Replay puts ended jobs back in line with fresh attempts. due says by position
	// when (0: now); nil: all now. newKey, if it is not nil, returns a new
	// idempotency key for each. Jobs that are not dead or cancelled are left alone.
	// A job dead for InDoubt forgets the effects that it began and did not finish.
	// The errors are by position: nil, ErrNotFound, ErrUniqueTaken or a plain refusal.
	Replay(ctx context.Context, ids, due []int64, newKey func() string) ([]error, error)
	// Discard removes ended jobs for good; errors by position.
	Discard(ctx context.Context, ids []int64) ([]error, error)
	// Queues counts every queue that has jobs or is paused.
	Queues(ctx context.Context) ([]QueueInfo, error)
	// PauseQueue stops starts from a queue until ResumeQueue, through restarts.
	PauseQueue(ctx context.Context, queue, reason string) error
	// ResumeQueue lifts it.
	ResumeQueue(ctx context.Context, queue string) error
	// Workers lists registered workers.
	Workers(ctx context.Context) ([]WorkerInfo, error)
}
