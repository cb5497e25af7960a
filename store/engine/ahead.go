package engine

import (
	"math"
	"slices"

	"github.com/penstockhq/penstock/store"
)

// Ahead lists reads that are about to come: of each method's name, its arguments.
// A zero field stands for no read.
type Ahead struct {
	Worker    string // Worker
	Announced bool   // Announced(AnyLane)
	Bands     *BandAsk
	Soon      *PictureAsk // the Picture of a later call, as far as it is known; TakeWakes and Sleepers come before it
	TakeWakes int         // TakeWakes(n); of what they tell of: Lanes, Gate and Queue, or limits
	Sleepers  int         // SleepingLanes(Now(), n), and Gate of each

	Picture  *PictureAsk
	Heads    []HeadAsk // Heads of each, due at HeadsAt
	HeadsAt  int64
	FreeMost int     // heads of lanes without limits in all, but one of each at least
	FirstDue []int64 // FirstDue of each lane
	Later    []int64 // FirstAfter(lane, HeadsAt) of each

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

// BandAsk are the arguments of Bands. NextSleeper of the bands, and NextGate of them
// after Always, come next.
type BandAsk struct {
	Kinds  []string
	Run    string
	Queues []string
}

// includes says whether the band is one of those, as far as its key tells.
func (a *BandAsk) includes(b Band) bool {
	return b.Load == "" && slices.Contains(a.Kinds, b.Kind) && (a.Run == "" || a.Run == b.Run) && (a.Queues == nil || slices.Contains(a.Queues, b.Queue))
}

// PictureAsk asks for what a plan is made of: OpenGates(band, At(), n) of several bands
// in turn, n at most Lanes less what was found before; of these gates in turn
// ReadyLanes, up to Lanes in all; what these lanes draw on, and NextGates of it between
// At() and Until(); and of each lane some Heads and FirstAfter, due at Now. How many
// heads is a guess, which Heads of Ahead corrects. Times are in microseconds.
type PictureAsk struct {
	Bands []int64 // in serving order; of Soon: nil, a store may guess them
	Now   int64   // Now(); of Soon: 0
	Open  int64   // gates count as open until so long after Now
	Reach int64   // and what opens until so long after it is waited for
	Lanes int
	Heads int // in all that can be granted
}

// At is the last instant of gates that count as open.
func (p *PictureAsk) At() int64 { return p.Now + p.Open }

// Until is the last instant of gates that are waited for.
func (p *PictureAsk) Until() int64 { return p.Now + p.Reach }

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

// Always comes before all instants.
const Always = math.MinInt64
