package dispatch

import (
	"fmt"
	"time"

	"github.com/penstockhq/penstock/limit"
)

// Cause is a kind of reason why a job is not running.
type Cause string

// The causes for which a job waits.
const (
	CauseStaged    Cause = "staged"       // its load is not released
	CauseSuccessor Cause = "successor"    // an older job with its unique key still runs
	CauseScheduled Cause = "scheduled"    // it is not due
	CauseQueue     Cause = "queue_paused" // somebody paused its queue
	CauseNoWorker  Cause = "no_worker"    // no live worker runs its kind
	CauseSuspect   Cause = "suspect"      // it is started only alone among suspects
	CauseLimit     Cause = "limit"        // a limit it draws on has no room
	CausePlace     Cause = "place"        // others of its lane are before it
	CauseReady     Cause = "ready"        // the next free place is its own
)

// Wait is one reason why a job waits.
type Wait struct {
	Cause Cause
	Limit string        // CauseLimit
	Why   limit.Why     // CauseLimit
	Until limit.Instant // when it lapses by itself; limit.Never: only an event ends it; 0: unknown
	Ahead int64         // CausePlace
	Text  string        // for people
}

// Question is what Explain has to know of a waiting job.
type Question struct {
	Now          limit.Instant
	Lane         Lane // Draws, Priority, ID, Suspect
	At           limit.Instant
	Staged       bool
	Successor    bool // it waits for another job's end
	QueuePaused  bool
	PausedReason string
	Workers      int   // live workers that run its kind
	Ahead        int64 // due jobs before it in its lane
	Limits       map[string]*Limit
}

// Explain lists all that keeps a waiting job from its start, what must be done by
// people first. If nothing does, the one reason is CauseReady. It changes nothing.
func Explain(q Question) []Wait {
	var all []Wait
	add := func(w Wait, text string, args ...any) {
		w.Text = fmt.Sprintf(text, args...)
		all = append(all, w)
	}
	if q.Staged {
		add(Wait{Cause: CauseStaged, Until: limit.Never}, "it was staged, and its load has not been released")
	}
	if q.QueuePaused {
		reason := ""
		if q.PausedReason != "" {
			reason = ": " + q.PausedReason
		}
		add(Wait{Cause: CauseQueue, Until: limit.Never}, "its queue is paused%s", reason)
	}
	if q.Workers == 0 {
		add(Wait{Cause: CauseNoWorker, Until: limit.Never}, "no live worker runs its kind")
	}
	if q.Successor {
		add(Wait{Cause: CauseSuccessor, Until: limit.Never}, "an older job with its unique key still runs")
	} else if q.At > q.Now {
		add(Wait{Cause: CauseScheduled, Until: q.At}, "it is not due yet")
	}
	for _, d := range q.Lane.Draws {
		lim := q.Limits[d.Limit]
		if lim == nil {
			continue
		}
		ask := limit.Ask{Cost: d.Cost, Priority: q.Lane.Priority, Holder: uint64(q.Lane.ID)}
		at, why := lim.State.Earliest(lim.Spec, ask, q.Now)
		if at > q.Now {
			text := why.String()
			if l, ok := lim.State.Left(q.Now); ok && why == limit.Announced {
				text = fmt.Sprintf("the API said that %d are left until %s", l.N, time.UnixMicro(l.Until).UTC().Format("15:04:05 UTC"))
			}
			add(Wait{Cause: CauseLimit, Limit: d.Limit, Why: why, Until: at}, "limit %s (%s): %s", d.Limit, lim.Spec, text)
		}
	}
	if q.Ahead > 0 {
		add(Wait{Cause: CausePlace, Ahead: q.Ahead}, "%d due jobs of its lane are before it", q.Ahead)
	}
	if q.Lane.Suspect {
		add(Wait{Cause: CauseSuspect}, "its process was lost before: it is started only where no other such job runs")
	}
	if len(all) == 0 {
		add(Wait{Cause: CauseReady, Until: q.Now}, "nothing holds it: the next free worker starts it")
	}
	return all
}
