package engine

import "github.com/penstockhq/penstock/store"

// Ahead lists reads that are about to come: of each method's name, its arguments.
// A zero field stands for no read.
type Ahead struct {
	Worker    string // Worker
	TakeWakes int    // TakeWakes(n)
	Announced bool   // Announced(AnyLane)
	Bands     *BandAsk
	Sleepers  int // SleepingLanes(Now(), n)

	OpenGates *GateAsk
	Ready     []GateKey // ReadyLanes of each, up to ReadyMost in all
	ReadyMost int
	Heads     []HeadAsk // Heads of each, due at HeadsAt
	HeadsAt   int64
	FreeMost  int      // heads of lanes without limits in all, but one of each at least
	FirstDue  []int64  // FirstDue of each lane
	Next      *NextAsk // NextSleeper and NextGate

	NewJobs  int             // AddJobs
	NewLanes []store.LaneKey // FindLane
	Jobs     []int64         // Job of each
	Lanes    []int64         // Lanes, each by itself or together
	Gates    []GateKey       // Gate of each
	Limits   []string        // LimitState of each, LimitRow of it and of its pattern
	Unique   []string        // UniqueHolder of each
	Run      string          // Call of each of the Refs
	Refs     []string
}

// BandAsk are the arguments of Bands.
type BandAsk struct {
	Kinds  []string
	Run    string
	Queues []string
}

// GateAsk asks for OpenGates(band, At, n) of several bands in turn, n at most Most
// less what was found before.
type GateAsk struct {
	Bands []int64
	At    int64
	Most  int
}

// GateKey names a gate.
type GateKey struct {
	Band  int64
	Limit string
}

// HeadAsk are the arguments of Heads, without the instant.
type HeadAsk struct {
	Lane int64
	N    int
	Free bool // the lane draws on no limit
}

// NextAsk asks for NextSleeper(Bands) and NextGate(Bands, After).
type NextAsk struct {
	Bands []int64
	After int64
}
