package engine

import "github.com/penstockhq/penstock/store"

// LaneRetired marks a lane that was empty and that may be removed if no job refers to
// it. In all else it is an empty lane. Whoever finds it for a new job makes it
// an empty lane again.
const LaneRetired LaneState = 3

// Upkeep is the set of row operations that keep a store in order. None is needed
// to run jobs.
type Upkeep interface {
	// Counter returns a named number, 0 if it was never set.
	Counter(name string) (int64, error)
	SetCounter(name string, n int64) error

	// Counters returns those of the named numbers that were set.
	Counters(names []string) (map[string]int64, error)
	// DropCounters removes numbers below n whose names begin with the prefix.
	DropCounters(prefix string, n int64) error

	// AddNote writes a note under the next id and removes all but the newest
	// notesKept.
	AddNote(n store.Note, notesKept int) error
	// Notes returns the notes on the subject ("": all), newest first, up to n.
	Notes(subject string, n int) ([]store.Note, error)

	// CountAtGates counts the visible jobs with At <= at in ready lanes, by the
	// limit of their gate; "" is left out.
	CountAtGates(at int64) (map[string]int64, error)
	// CountDue counts the visible waiting jobs with At <= at by queue, kind and run.
	CountDue(at int64) ([]store.Unserved, error)
	// RecentEnds looks at the n ended jobs with the largest ids, and counts by
	// queue those that are done or dead and ended at or after the instant.
	RecentEnds(since int64, n int) (map[string]store.Flow, error)
	// Newest is the latest FinishedAt of done and cancelled jobs or EnqueuedAt of
	// the job with the largest id; 0 if there is none.
	Newest() (int64, error)

	// UnusedLanes returns the ids of retired lanes that no job refers to.
	UnusedLanes() ([]int64, error)
	// DropLanes removes those of the lanes that are retired, and returns how many.
	DropLanes(ids []int64) (int, error)
	// UnusedGates returns Empty gates that no lane of their band can wait at.
	UnusedGates() ([]Gate, error)
	// DropGates removes those of the gates that are Empty, and returns how many.
	DropGates(gates []Gate) (int, error)
	// DropBands removes the bands without lanes and gates, and returns how many.
	DropBands() (int, error)
}
