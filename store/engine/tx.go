// Package engine holds the transactions that every store runs (insert, claim,
// finish, rescue, …), written once over a small set of row operations. A store
// for one technology implements DB and Tx, and gets the whole contract.
//
// Policy is in dispatch and limit; rows are in Tx; what is left, and is here, is
// which rows change together.
package engine

import (
	"context"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// DB runs transactions.
type DB interface {
	// Update runs fn in a write transaction that no other write transaction
	// overlaps, and commits durably if fn returns nil. It may run fn again after
	// a rollback, so fn must not keep anything from an earlier run. Several
	// updates may share one commit.
	Update(ctx context.Context, fn func(Tx) error) error
	// Append runs fn in a write transaction that others may overlap, if the store has
	// such; else it is Update. fn adds rows, and of those that are there it changes
	// only workers and effects. All else that is said of Update holds.
	Append(ctx context.Context, fn func(Tx) error) error
	// Overlaps reports whether the store has write transactions that others overlap.
	Overlaps() bool
	// Told reports whether this process has committed something that may be startable
	// since it was last asked: a look before a claim would tell nothing new. It may
	// always be false.
	Told() bool
	// View runs fn in a read-only transaction on one snapshot.
	View(ctx context.Context, fn func(Tx) error) error
	// Peek is View, but each read may be on a later snapshot than the one before.
	Peek(ctx context.Context, fn func(Tx) error) error
	// Alive tells what the store knows at first hand about a worker's process,
	// without waiting for its lease.
	Alive(w store.Worker) Liveness
	// SeesDeaths reports whether Alive may ever tell that a process is gone.
	SeesDeaths() bool
	Watch(ctx context.Context) <-chan struct{}
	Close() error
}

// Guest is a store that can work inside a transaction of the caller's on the same
// database.
type Guest interface {
	// Within runs fn in the transaction, which the caller commits; fn may be run again.
	Within(ctx context.Context, transaction any, fn func(Tx) error) error
}

// Liveness is what a store knows at first hand of a process.
type Liveness uint8

// Liveness values. Unknown means: judge by heartbeats.
const (
	Unknown Liveness = iota
	Living
	Gone
)

// Held and Empty are the opening times of gates that no passing of time opens.
const (
	Held  = dispatch.Held
	Empty = dispatch.Empty
)

// Band is the part of a lane's key that a claim selects by. Bands are few and
// are kept when nothing waits in them.
type Band struct {
	ID       int64
	Queue    string
	Kind     string
	Priority int
	Run      string
	Load     string
	Suspect  bool
}

// LaneState says whether a lane can be served.
type LaneState uint8

// The states of a lane.
const (
	LaneEmpty    LaneState = iota // nothing waits in it
	LaneReady                     // it waits at its gate
	LaneSleeping                  // its first job is due at NextAt
)

// Lane is a lane's row. ID, Band, Group and Draws never change.
type Lane struct {
	ID     int64
	Band   Band
	Group  string
	Draws  []dispatch.Draw
	State  LaneState
	NextAt int64 // sleeping: when it wakes
	Gate   string
	VTime  int64
	// No waiting job of the lane comes before this one in the order of (At, ID). Where
	// rows that are gone are slow to go, readers need not walk over them. A store may
	// forget it: 0 is always true.
	FloorAt, FloorID int64
}

// Gate is a gate's row: keyed by band and limit.
type Gate struct {
	Band    int64
	Limit   string
	OpensAt int64
	VClock  int64
}

// Job is the hot row of a waiting or running job, and, with the End fields, the
// row of an ended one.
type Job struct {
	ID          int64
	Lane        int64
	State       store.State
	At          int64
	EnqueuedAt  int64
	ExpiresAt   int64
	Unique      string
	Run, Ref    string
	Attempts    int
	Starts      int
	Throttles   int
	Losses      int // as a suspect
	RefusedRun  int
	RefusedAt   int64
	ThrottledAt int64
	ThrottleSum int64
	Events      int // how many events were written
	Cancel      bool
	Next        int64 // the job that waits for this one's end, 0 if none
	Error       string

	Worker  string
	Token   int64
	Slot    int64
	LeaseAt int64
	Charges []dispatch.Charge

	FinishedAt int64
	Reason     store.Reason
	Result     []byte
}

// Body is the write-once part of a job.
type Body struct {
	Payload []byte
	Options string
}

// LimitRow is a limit's or a pattern's configuration.
type LimitRow struct {
	Name     string
	Declared string
	Set      string
}

// Call is the row that keeps a run's call id for ever, longer than the job.
type Call struct {
	Run, Ref string
	Job      int64
	Hash     string
	Line     int64
}

// WorkerRow is a registered worker.
type WorkerRow struct {
	store.Worker
	SeenAt int64
}

// EffectRow is a guarded effect.
type EffectRow struct {
	Key    string
	Job    int64
	Token  int64
	Done   bool
	Result []byte
	At     int64
}

// QueueRow is a paused queue.
type QueueRow struct {
	Name   string
	Reason string
	At     int64
}

// Tx is the set of row operations within one transaction. Lists are returned in
// the stated order; "up to n" is a bound the caller relies on. A missing row is
// (zero, false, nil). Slices passed in are not kept, slices returned are owned by
// the caller.
type Tx interface {
	Upkeep
	Wakes

	// Ahead says what the caller will read next, so that a store on a network can
	// fetch it in one go. It has no other effect, and may do nothing.
	Ahead(a Ahead) error

	// Now is the store's clock, read when called.
	Now() (int64, error)

	// Notify says that the transaction makes something startable, or makes it so
	// earlier than a worker may know: those who watch are told after the commit.
	Notify() error

	// FindLane returns the lane of the key, creating it (empty, at the gate of its
	// first draw) and its band if it is not there. It may be retired.
	FindLane(key store.LaneKey) (Lane, error)
	// Lanes returns the lanes by id; the result has the order of ids.
	Lanes(ids []int64) ([]Lane, error)
	// SaveLane writes State, NextAt, Gate, VTime and, if the store keeps it, the floor.
	SaveLane(l Lane) error
	// SleepingLanes returns sleeping lanes with NextAt <= at, earliest first, up to n.
	SleepingLanes(at int64, n int) ([]Lane, error)
	// NextSleeper is the earliest NextAt of sleeping lanes of these bands (nil: of
	// all), limit.Never if none sleeps.
	NextSleeper(bands []int64) (int64, error)
	// ReadyLanes returns the ready lanes at a gate by (VTime, ID), up to n.
	ReadyLanes(band int64, limit string, n int) ([]Lane, error)
	// LanePage returns lanes with id above after, by id, up to n.
	LanePage(after int64, n int) ([]Lane, error)
	// FirstDue returns the At of the first waiting job of the lane by (At, ID).
	FirstDue(lane int64) (int64, bool, error)
	// FirstAfter returns the At of the first waiting job of the lane with At > at.
	FirstAfter(lane, at int64) (int64, bool, error)
	// CountAhead counts the lane's waiting jobs before (at, id) in the order of (At, ID).
	CountAhead(lane, at, id int64) (int64, error)

	// Bands returns the bands of the kinds (nil: all), of the run ("": all), with
	// no load, whose queue is not paused and is one of queues (nil: all), that have
	// a gate other than Empty or a sleeping lane. Order is free.
	Bands(kinds []string, run string, queues []string) ([]Band, error)
	// LoadBands returns the bands staged under load, or with load "" all staged
	// bands of the run.
	LoadBands(load, run string) ([]Band, error)
	// ReleaseBands makes the bands' load empty.
	ReleaseBands(ids []int64) error
	// BandLanes returns lanes of the band, by id, after the id, up to n.
	BandLanes(band, after int64, n int) ([]Lane, error)

	Gate(band int64, limit string) (Gate, bool, error)
	SaveGate(g Gate) error
	// OpenGates returns gates of the band with OpensAt <= at, earliest first, up to n.
	OpenGates(band, at int64, n int) ([]Gate, error)
	// NextGate is the earliest OpensAt above at of the gates of the bands, Held and
	// Empty ones included.
	NextGate(bands []int64, at int64) (int64, error)
	// NextGates returns of each of the limits the earliest OpensAt above at, and not
	// above until, of its gates in the bands, if it has such.
	NextGates(limits []string, bands []int64, at, until int64) (map[string]int64, error)
	// NextLater calls then with NextSleeper(bands) and NextGate(bands, at) as they are
	// when the transaction commits: at once, if nothing is written any more, or with
	// the commit, where that is faster.
	NextLater(bands []int64, at int64, then func(sleeper, gate int64)) error
	// WakeGates sets OpensAt to at on the limit's gates that are later and not
	// Empty. A name ending in "/*" stands for all names with that prefix.
	WakeGates(limit string, at int64) error

	// AddJobs writes new jobs with their bodies and sets their IDs, ascending.
	AddJobs(jobs []*Job, bodies []Body) error
	// Job returns a waiting or running job.
	Job(id int64) (*Job, bool, error)
	// Jobs returns waiting and running jobs by id; missing ones are nil, order as ids.
	Jobs(ids []int64) ([]*Job, error)
	// SaveJobs writes all columns of waiting and running jobs that exist.
	SaveJobs(jobs []*Job) error
	// Lease marks the waiting jobs as running with the given leases: State, Worker,
	// Token, Slot, LeaseAt, Charges and Starts are written from jobs.
	Lease(jobs []*Job) error
	// Heads returns the lane's waiting jobs with At <= at by (At, ID), up to n.
	Heads(lane, at int64, n int) ([]*Job, error)
	// DropJob removes a waiting or running job's hot row; the body stays.
	DropJobs(ids []int64) error
	// EndJobs moves jobs from the hot rows to the ended ones.
	EndJobs(jobs []*Job) error
	// EndDone ends as done, at the instant (0: now), those running jobs that match the worker
	// and the token and are plain: never ended before, and not to be cancelled. It calls
	// then with their ids and charges. In a transaction that others overlap, it
	// announces the end of what they were charged, and calls then perhaps after
	// the commit, without charges.
	EndDone(worker string, leases []DoneLease, at int64, then func([]DoneJob) error) error
	// EndedJobs returns ended jobs by id, without results; missing ones are nil,
	// order as ids.
	EndedJobs(ids []int64) ([]*Job, error)
	// UnendJobs moves ended jobs back to the hot rows, with the columns given.
	UnendJobs(jobs []*Job) error
	// DropEnded removes ended jobs with their bodies and events.
	DropEnded(ids []int64) error
	// DropBodies removes bodies and events of jobs.
	DropBodies(ids []int64) error
	// EndedBefore returns ids of jobs ended in one of the states before the
	// instant, up to n.
	EndedBefore(states []store.State, before int64, n int) ([]int64, error)
	// HeldBy returns the running jobs of a worker by id, after the id, up to n.
	HeldBy(worker string, after int64, n int) ([]*Job, error)
	// CancelsOf returns the running jobs of a worker that are to be cancelled.
	CancelsOf(worker string) ([]int64, error)
	// Bodies returns the bodies by job id, order as ids, zero for missing ones.
	Bodies(ids []int64) ([]Body, error)
	// BodiesLater calls then with the bodies as Bodies returns them, at once or, where
	// that is faster, after the commit.
	BodiesLater(ids []int64, then func([]Body) error) error
	// SaveBody replaces a body.
	SaveBody(id int64, b Body) error
	// UniqueHolder returns the waiting or running job that has the unique key.
	UniqueHolder(key string) (*Job, bool, error)

	Call(run, ref string) (Call, bool, error)
	AddCall(c Call) error
	// DropCalls removes the calls of jobs.
	DropCalls(jobs []int64) error

	AddEvent(e store.Event) error
	// DropEvent removes one event of a job, if it is there.
	DropEvent(job int64, n int) error
	Events(job int64) ([]store.Event, error)

	LimitRow(name string) (LimitRow, bool, error)
	SaveLimitRow(r LimitRow) error
	// LimitRows returns rows with name > after by name, up to n.
	LimitRows(after string, n int) ([]LimitRow, error)
	// LimitState returns the encoded state, nil if there is none.
	LimitState(name string) ([]byte, error)
	// SaveLimitState writes it; nil removes it.
	SaveLimitState(name string, state []byte) error
	// LimitStates returns names with a stored state, after the name, by name, up to n.
	LimitStates(after string, n int) ([]string, error)

	Workers() ([]WorkerRow, error)
	Worker(id string) (WorkerRow, bool, error)
	SaveWorker(w WorkerRow) error
	DropWorker(id string) error

	Effect(key string) (EffectRow, bool, error)
	SaveEffect(e EffectRow) error
	DropEffect(key string) error
	// DropBegun removes the effects that the job began and did not finish.
	DropBegun(job int64) error

	Queue(name string) (QueueRow, bool, error)
	SaveQueue(q QueueRow) error
	DropQueue(name string) error
	// QueueInfos counts visible jobs per queue; paused queues are included.
	QueueInfos(now int64) ([]store.QueueInfo, error)
	// CountRun counts a run's visible jobs by state.
	CountRun(run string) (map[store.State]int64, error)
	// Find returns jobs that match the filter, hot and ended, by id (Newest: from the
	// largest down); with results if it asks for bodies. Staged jobs are never found.
	Find(f store.Filter) ([]*Job, error)
}
