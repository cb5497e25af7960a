package penstock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
)

const (
	finishMost   = 1024                   // outcomes in one commit
	finishLinger = time.Millisecond       // how long a small batch waits for more
	finishSmall  = 16                     // what a small batch is
	congestedAt  = 4096                   // outcomes not stored that stop claims
	failingAt    = 4                      // the same, while the store fails or is slow
	finishSlow   = 250 * time.Millisecond // a write that takes longer is slow
	finishAgain  = 50 * time.Millisecond  // first wait after the store failed
)

// ending is an outcome on its way to the store.
type ending struct {
	start     *start
	finish    store.Finish
	at        time.Time
	paused    string
	swallowed string
	urgent    bool // others may be waiting for its permit
	tries     int
}

// finisher stores outcomes in batches. What the store does not take is kept and
// tried again, and no new jobs are claimed meanwhile.
type finisher struct {
	w    *worker
	kick chan struct{}

	mu      sync.Mutex
	pending []*ending
	urgent  bool
	failing bool
	since   time.Time     // when the write under way began; zero: none is
	telling bool          // of outcomes that are stored
	empty   chan struct{} // closed when nothing is pending and all is told, while somebody waits for it
}

func newFinisher(w *worker) *finisher { return &finisher{w: w, kick: make(chan struct{}, 1)} }

func (f *finisher) add(e *ending) {
	f.mu.Lock()
	f.pending = append(f.pending, e)
	f.urgent = f.urgent || e.urgent
	f.mu.Unlock()
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// congested says that outcomes pile up: claiming more would make it worse. A
// few that the store does not take are no reason to stand still. A store that
// hangs is no better than one that fails.
func (f *finisher) congested() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.piling()
}

// piling is congested, for those who have the lock. Once it is true it stays so
// until stored.
func (f *finisher) piling() bool {
	stuck := f.failing || !f.since.IsZero() && time.Since(f.since) > finishSlow
	return stuck && len(f.pending) > failingAt || len(f.pending) >= congestedAt
}

// run stores outcomes until ctx ends.
func (f *finisher) run(ctx context.Context) {
	size, wait := finishMost, finishAgain
	for {
		f.mu.Lock()
		n, urgent := len(f.pending), f.urgent
		f.mu.Unlock()
		if n == 0 {
			select {
			case <-f.kick:
			case <-ctx.Done():
				return
			}
			continue
		}
		if n < finishSmall && !urgent && f.w.busy() > finishSmall {
			_ = sleep(ctx, finishLinger) // what came meanwhile goes along
		}
		batch := f.take(size)
		call, over := context.WithTimeout(ctx, callWithin)
		done, err := f.w.st.Finish(call, finishes(batch))
		over()
		if err == nil {
			f.stored(batch, done)
			size, wait = finishMost, finishAgain
			continue
		}
		// The commit may have gone through all the same, so the order may change,
		// but nothing may be dropped. Smaller batches isolate an outcome that the
		// store will never take; it then does not hold up the others.
		f.putBack(batch, size == 1)
		size = max(min(size, len(batch))/2, 1)
		f.w.c.trouble.set(f.w, "store outcomes", err)
		if sleep(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, retryMost)
	}
}

func finishes(batch []*ending) []store.Finish {
	out := make([]store.Finish, len(batch))
	for i, e := range batch {
		out[i] = e.finish
	}
	return out
}

// take removes the first pending outcomes; until they are stored or put back,
// stop sees that they are under way.
func (f *finisher) take(n int) []*ending {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = min(n, len(f.pending))
	batch := append([]*ending(nil), f.pending[:n]...)
	f.since = time.Now()
	return batch
}

// stored removes a batch that the store took and tells what became of it.
func (f *finisher) stored(batch []*ending, done []store.Finished) {
	f.mu.Lock()
	was := f.failing || f.piling()
	f.since = time.Time{}
	f.pending = f.pending[len(batch):]
	f.urgent = false
	for _, e := range f.pending {
		f.urgent = f.urgent || e.urgent
	}
	f.failing = false
	if len(f.pending) == 0 {
		f.pending = nil
	}
	f.telling = true
	congested := len(f.pending) >= congestedAt
	f.mu.Unlock()
	f.w.c.trouble.clear(f.w, "store outcomes")
	for i, e := range batch {
		f.w.recorded(e, done[i])
	}
	f.told()
	f.w.mayBeDrained()
	if was && !congested {
		f.w.signal()
	}
}

// told is called when all that is stored was told.
func (f *finisher) told() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.telling = false
	if len(f.pending) == 0 && f.empty != nil {
		close(f.empty)
		f.empty = nil
	}
}

// putBack leaves a batch pending after a failure; with rotate its one outcome
// goes to the end.
func (f *finisher) putBack(batch []*ending, rotate bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing, f.since = true, time.Time{}
	for _, e := range batch {
		e.tries++
	}
	if rotate {
		f.pending = append(f.pending[1:], batch[0])
	}
}

// flush waits until nothing is pending and all is told, or ctx ends.
func (f *finisher) flush(ctx context.Context) error {
	f.mu.Lock()
	if len(f.pending) == 0 && !f.telling {
		f.mu.Unlock()
		return nil
	}
	if f.empty == nil {
		f.empty = make(chan struct{})
	}
	empty := f.empty
	f.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.pending) == 0 {
			return nil // a hook that was told of one does not return
		}
		return fmt.Errorf("the outcomes of %d starts could not be stored; their jobs run again when the lease is over", len(f.pending))
	}
}

// recorded takes in the store's answer to one outcome.
func (w *worker) recorded(e *ending, done store.Finished) {
	s := e.start
	w.mu.Lock()
	if w.held[s.job.ID] == s {
		delete(w.held, s.job.ID)
	}
	w.mu.Unlock()
	if s.recorded != nil {
		close(s.recorded)
	}
	end := &End{
		Job: s.job.Job, Outcome: e.finish.Outcome, State: done.State, Reason: e.finish.Reason, Error: e.finish.Error,
		Started: s.beganAt, Ended: e.at, Result: e.finish.Result, Detail: e.finish.Detail,
		Refused: e.paused, Pause: e.finish.Pause, Swallowed: e.swallowed, Recorded: done.Err == nil,
	}
	if done.State == store.Cancelled {
		end.Outcome = store.OutcomeCancelled
	}
	switch {
	case errors.Is(done.Err, store.ErrLeaseLost) && e.tries > 0:
		w.confirm(e, end)
	case done.Err != nil:
		w.log.Warn("outcome refused by the store: the job was given to another worker or ended meanwhile",
			"kind", s.job.Kind, "job", s.job.ID, "outcome", e.finish.Outcome.String(), "error", done.Err)
	case done.State == store.Waiting:
		end.NextAt = time.UnixMicro(done.At)
	}
	w.ended(end)
}

// confirm finds out whether an outcome whose commit went unanswered is stored.
func (w *worker) confirm(e *ending, end *End) {
	job, err := w.st.Job(w.life, end.Job.ID)
	switch {
	case err != nil:
		end.Recorded = errors.Is(err, store.ErrNotFound) && e.finish.Outcome == store.OutcomeDiscarded
	default:
		end.State = job.State
		end.Recorded = job.State == stateAfter(e.finish.Outcome) && sinceUntouched(&end.Job, job, e.finish.Outcome)
		if job.State == store.Waiting {
			end.NextAt = time.UnixMicro(job.At)
		}
	}
	if !end.Recorded {
		w.log.Warn("outcome refused by the store after a try that went unanswered", "kind", end.Job.Kind, "job", end.Job.ID, "outcome", end.Outcome.String())
	}
}

// sinceUntouched says that nobody lost the job or started it anew since it was
// claimed: then its state is what our outcome made of it, and not another's.
func sinceUntouched(claimed *JobInfo, now JobInfo, o store.Outcome) bool {
	starts := claimed.Starts
	if o == store.OutcomeReturned {
		starts-- // the start that never was does not count
	}
	return now.Starts == starts && now.Losses == claimed.Losses && (claimed.Suspect || !now.Suspect)
}

// stateAfter is the state a job has after an outcome.
func stateAfter(o store.Outcome) store.State {
	switch o {
	case store.OutcomeDone:
		return store.Done
	case store.OutcomeDead:
		return store.Dead
	case store.OutcomeCancelled:
		return store.Cancelled
	}
	return store.Waiting
}
