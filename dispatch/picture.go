// Package dispatch decides which waiting jobs are started next. It is pure: a
// store shows it a bounded picture of what waits and of the limits, and it
// returns a plan that the store commits. It reads no clock and does no I/O.
//
// Order of service: queue place, then priority, then fairness between groups
// by cost, then age. A job is planned together with one permit from each limit
// it draws on, or not at all.
package dispatch

import (
	"time"

	"github.com/penstockhq/penstock/limit"
)

// Held is the opening time of a gate that only an event can open (a release, a
// resume, a changed spec), Empty that of a gate where no lane waits. Both are
// later than any instant.
const (
	Held  = limit.Never - 1
	Empty = limit.Never
)

// Draw says that a job takes Cost permits of a limit at each start.
type Draw struct {
	Limit string `json:"limit"`
	Cost  int64  `json:"cost"`
}

// Charge is a permit that was granted: what a release has to give back.
type Charge struct {
	Limit string        `json:"l"`
	Cost  int64         `json:"c"`
	Slot  limit.Instant `json:"s"`
}

// Head is one of the first due jobs of a lane.
type Head struct {
	ID        int64
	At        limit.Instant
	ExpiresAt limit.Instant // 0: never
}

// Lane is a set of waiting jobs that share queue, kind, priority, limits and
// group, so that either all of them may run or none.
type Lane struct {
	ID       int64
	Band     int64  // the band it belongs to: queue, kind, priority, run
	Queue    string // for the queue's cap
	Place    int    // the queue's place for this worker, 0 first
	Priority int    // larger first
	Suspect  bool   // at most one of these jobs is planned
	Gate     string // the limit it waits at; "": none
	VTime    int64  // its share of service so far, in cost
	Draws    []Draw
	Heads    []Head // by (at, id)
	More     bool   // there may be further due jobs behind Heads
}

// Gate is where the lanes of a band wait for one limit (or, with Limit "", for
// a free place only).
type Gate struct {
	Band   int64
	Limit  string
	VClock int64 // the virtual time of its last service
	Whole  bool  // all its ready lanes are in the picture
}

// Limit is a limit as the planner uses it. Plan changes State.
type Limit struct {
	Spec  limit.Spec
	State *limit.State
	// Awaited is when the first gate opens, within the horizon, behind which lanes
	// wait that are not in the picture; 0: there is none. From then on permits are
	// theirs as well, so that none is granted before they are looked at.
	Awaited limit.Instant
}

// Picture is what a store shows the planner.
type Picture struct {
	Now      limit.Instant
	Lead     time.Duration // how far ahead of Now slots of limits lie at least
	Horizon  time.Duration // how much further ahead they may lie
	Early    time.Duration // how far ahead slots lie, if Lead is not more, under limits that are far from used up; starts may begin before them. 0: none do
	Places   int           // places free for any job
	Prefetch int           // further places for jobs without limits
	QueueMax map[string]int
	Gates    []Gate
	Lanes    []*Lane
	Limits   map[string]*Limit
}

// Plan is what a store is to commit.
type Plan struct {
	Grants  []Grant
	Expired []int64 // jobs past their expiry
	Lanes   []LaneChange
	Gates   []GateChange
	Changed map[string]bool // limits whose state the plan changed
	// Again says that more may be possible at once: the picture was cut.
	Again bool
}

// Grant is a job with its slot and permits.
type Grant struct {
	Job     int64
	Lane    int64
	Slot    limit.Instant
	Early   bool // it may begin before the slot, at once
	Charges []Charge
}

// LaneChange is a lane's new place. VTime is relative to the clock of its gate.
type LaneChange struct {
	ID    int64
	Gate  string
	Lag   int64 // its virtual time less its gate's clock
	Moved bool  // Gate is another one than before
	// Short says that all its heads are used up and none was known behind them:
	// look again for its next due job.
	Short bool
	// OpensAt is when a moved lane may run at the earliest.
	OpensAt limit.Instant
}

// GateChange is a gate's new opening time: Picture.Now or before means that
// something can be served now. Empty says that no lane known to the plan is left.
type GateChange struct {
	Band    int64
	Limit   string
	OpensAt limit.Instant
	VClock  int64
}
