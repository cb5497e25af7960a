package penstock

import (
	"context"
	"time"

	"github.com/penstockhq/penstock/store"
)

const takeBack = "take back the jobs of dead processes"

const (
	rescueOften  = 250 * time.Millisecond // where a death is seen at once
	rescueSeldom = time.Second            // where it is seen when a lease is over
	sweepEvery   = time.Minute
)

// rescue takes back the jobs of processes that died, until ctx ends. It asks
// often only where the store sees a death at once: the question is one small
// read, but all processes ask it all the time.
func (w *worker) rescue(ctx context.Context) {
	every := rescueSeldom
	if w.st.SeesDeaths() {
		every = rescueOften
	}
	for sleep(ctx, every) == nil {
		if !w.mayJudge() {
			w.c.trouble.clear(w, takeBack) // heartbeats tell whether the store works
			continue
		}
		call, over := context.WithTimeout(ctx, callWithin)
		jobs, err := w.st.Rescue(call, w.c.cfg.LostMax)
		over()
		if err != nil && ctx.Err() == nil {
			w.c.trouble.set(w, takeBack, err)
		} else {
			w.c.trouble.clear(w, takeBack)
		}
		for _, j := range jobs {
			w.ended(&End{Job: j, Outcome: store.OutcomeLost, State: j.State, Reason: j.Reason, Error: j.Error,
				Ended: time.Now(), NextAt: w.nextOf(j), Recorded: true})
		}
		if len(jobs) > 0 {
			w.signal()
		}
	}
}

func (w *worker) nextOf(j JobInfo) time.Time {
	if j.State != store.Waiting {
		return time.Time{}
	}
	return time.UnixMicro(j.At)
}

// mayJudge says whether this process may call others dead: not while, or for a
// lease after, its own heartbeats failed. Then it was the store, or this
// process itself, that stood still, and the others get the time to say so.
func (w *worker) mayJudge() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	lease := w.c.cfg.Lease
	now := time.Now()
	late := now.Sub(w.beat) > lease*2/beatsPerLease
	if late {
		w.badBeat = now
	}
	return !late && (w.badBeat.IsZero() || now.Sub(w.badBeat) > lease)
}

// sweep has the store look for what it overlooked, until ctx ends.
func (w *worker) sweep(ctx context.Context) {
	var orphans map[int64]bool
	for sleep(ctx, sweepEvery) == nil {
		orphans = w.sweepWishes(ctx, orphans)
		finds, err := w.st.Sweep(ctx)
		if err != nil && ctx.Err() == nil {
			w.log.Error("sweep failed", "error", err)
		}
		if finds > 0 {
			w.log.Error("the sweep found lanes that should have been awake: a fault of the store, please report it", "finds", finds)
			w.signal()
		}
	}
}
