package engine

import (
	"context"
	"fmt"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// The events kept of a job: the first and the last ones.
const (
	eventsFirst = 5
	eventsLast  = 15
)

// Finish ends starts. Each stands for itself: one whose lease is lost changes
// nothing and does not disturb the others.
func (s *Store) Finish(ctx context.Context, fs []store.Finish) (out []store.Finished, err error) {
	out = make([]store.Finished, len(fs))
	handled, err := s.finishBeside(ctx, fs, out)
	if err != nil {
		return nil, err
	}
	if handled {
		return s.finishLeft(ctx, fs, out)
	}
	err = s.db.Update(ctx, func(tx Tx) error {
		out, err = finish(tx, fs)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// finishLeft ends those of the starts that are not in out yet.
func (s *Store) finishLeft(ctx context.Context, fs []store.Finish, out []store.Finished) ([]store.Finished, error) {
	var left []store.Finish
	for i := range fs {
		if out[i].State != store.Done {
			left = append(left, fs[i])
		}
	}
	if len(left) == 0 {
		return out, nil
	}
	var done []store.Finished
	err := s.db.Update(ctx, func(tx Tx) (err error) {
		done, err = finish(tx, left)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range fs {
		if out[i].State != store.Done {
			out[i], done = done[0], done[1:]
		}
	}
	return out, nil
}

func finish(tx Tx, fs []store.Finish) ([]store.Finished, error) {
	now, err := tx.Now()
	if err != nil {
		return nil, err
	}
	e := ender{tx: tx, now: now, limits: newLimits(tx)}
	out := make([]store.Finished, len(fs))
	done := tally{}
	err = endDone(tx, fs, out, now, done.add)
	if err != nil {
		return nil, err
	}
	rest := make([]int, 0, len(fs))
	ids := make([]int64, 0, len(fs))
	for i := range fs {
		if out[i].State != store.Done {
			rest, ids = append(rest, i), append(ids, fs[i].ID)
		}
	}
	jobs, err := tx.Jobs(ids)
	if err != nil {
		return nil, err
	}
	if err := tx.Ahead(finishAhead(fs, rest, jobs, done.names())); err != nil {
		return nil, err
	}
	for _, name := range done.names() {
		if err := e.releaseAll(done[name]); err != nil {
			return nil, err
		}
	}
	seen := make(map[int64]bool, len(fs))
	for k, i := range rest {
		f, j := &fs[i], jobs[k]
		if j == nil || seen[f.ID] || j.State != store.Running || j.Worker != f.Worker || j.Token != f.Token {
			out[i].Err = store.ErrLeaseLost
			continue
		}
		seen[f.ID] = true
		if err := e.observe(j.ID, f.Observations); err != nil {
			return nil, err
		}
		if err := e.finish(j, f); err != nil {
			return nil, err
		}
		if out[i].State = j.State; j.State == store.Waiting {
			out[i].At = j.At
		}
	}
	return out, e.write()
}

// finishAhead lists what finishing the jobs reads besides them.
func finishAhead(fs []store.Finish, rest []int, jobs []*Job, limits []string) (a Ahead) {
	a.Limits = limits
	for k, j := range jobs {
		if j == nil {
			continue
		}
		f := &fs[rest[k]]
		for _, ch := range j.Charges {
			a.Limits = append(a.Limits, ch.Limit)
		}
		for _, o := range f.Observations {
			a.Limits = append(a.Limits, o.Limit)
		}
		switch f.Outcome {
		case store.OutcomeDone, store.OutcomeDiscarded, store.OutcomeDead, store.OutcomeCancelled:
		default:
			a.Lanes = append(a.Lanes, j.Lane)
		}
		if j.Next != 0 {
			a.Jobs = append(a.Jobs, j.Next)
		}
	}
	return a
}

// ender ends starts and jobs within one transaction.
type ender struct {
	tx     Tx
	now    int64
	limits *limits

	kept    []*Job // back in line
	ended   []*Job
	dropped []int64
	freed   []int64 // jobs that waited for the end of an ended one
	looser  map[string]bool
}

// finish applies one outcome.
func (e *ender) finish(j *Job, f *store.Finish) error {
	outcome := f.Outcome
	if j.Cancel && (outcome == store.OutcomeRetry || outcome == store.OutcomeThrottled || outcome == store.OutcomeSnoozed || outcome == store.OutcomeReturned) {
		outcome = store.OutcomeCancelled
	}
	neverBegan := f.Outcome == store.OutcomeReturned || f.Started == 0 && (f.Outcome == store.OutcomeDead || f.Outcome == store.OutcomeCancelled)
	if err := e.release(j.Charges, neverBegan); err != nil {
		return err
	}
	for _, ch := range j.Charges {
		if err := e.passed(ch.Limit, f.Passed, ch.Slot); err != nil {
			return err
		}
	}
	j.Charges = nil
	if outcome == store.OutcomeReturned {
		j.Starts--
		return e.keep(j, j.At)
	}
	if outcome != store.OutcomeThrottled {
		j.RefusedRun, j.RefusedAt, j.ThrottledAt, j.ThrottleSum = 0, 0, 0, 0
	}
	j.Error, j.Result = clean(f.Error), f.Result
	next := int64(0)
	switch outcome {
	case store.OutcomeDiscarded:
		e.dropped = append(e.dropped, j.ID)
		e.free(j)
		return nil
	case store.OutcomeDone:
		j.Error = ""
		j.State = store.Done
	case store.OutcomeCancelled:
		j.State = store.Cancelled
	case store.OutcomeDead:
		if f.Started != 0 && f.Reason != store.Throttled {
			j.Attempts++
		}
		j.State, j.Reason = store.Dead, f.Reason
	case store.OutcomeRetry:
		j.Attempts++
		next = max(f.At, e.now)
	case store.OutcomeSnoozed:
		next = max(f.At, e.now)
	case store.OutcomeThrottled:
		j.Throttles++
		j.RefusedRun++
		j.RefusedAt = e.now
		if j.ThrottledAt == 0 {
			j.ThrottledAt = e.now
		}
		j.ThrottleSum += f.Pause.Microseconds()
		if next = j.At; f.At != 0 {
			next = max(f.At, e.now)
		}
	default:
		return fmt.Errorf("outcome %v of job %d: expected one that a worker may report", outcome, j.ID)
	}
	if outcome != store.OutcomeDone || len(f.Detail) > 0 {
		if err := e.event(j, store.Event{Started: f.Started, Outcome: outcome, Error: j.Error, NextAt: next, Detail: f.Detail}); err != nil {
			return err
		}
	}
	if next != 0 {
		if superseded, err := e.superseded(j); err != nil {
			return err
		} else if superseded {
			e.end(j, store.Cancelled, "", supersededText)
			return nil
		}
		return e.keep(j, min(next, MaxInstant))
	}
	e.end(j, j.State, j.Reason, j.Error)
	return nil
}

// superseded reports whether a newer version waits for the job's end: it takes
// over, and the older one is not tried again.
func (e *ender) superseded(j *Job) (bool, error) {
	if j.Next == 0 {
		return false, nil
	}
	next, ok, err := e.tx.Job(j.Next)
	return ok && awaits(next), err
}

// awaits reports whether the job waits for another one's end.
func awaits(j *Job) bool { return j.State == store.Waiting && j.At == awaitsEnd }

const supersededText = "a newer version with the same unique key took over"

// keep puts a job back in line. A suspect that came to an end of its own accord
// is none any more.
func (e *ender) keep(j *Job, at int64) error {
	j.State, j.At = store.Waiting, at
	j.Worker, j.Token, j.Slot, j.LeaseAt, j.Charges, j.Result = "", 0, 0, 0, nil, nil
	lanes, err := e.tx.Lanes([]int64{j.Lane})
	if err != nil {
		return err
	}
	l := lanes[0]
	if l.Band.Suspect {
		key := laneKey(l)
		key.Suspect = false
		if l, err = findLane(e.tx, key); err != nil {
			return err
		}
		j.Lane = l.ID
	}
	e.kept = append(e.kept, j)
	return enter(e.tx, &l, at, e.now)
}

// end ends a job for good.
func (e *ender) end(j *Job, s store.State, r store.Reason, text string) {
	j.State, j.Reason, j.Error, j.FinishedAt = s, r, clean(text), e.now
	j.Worker, j.Token, j.Slot, j.LeaseAt, j.Charges = "", 0, 0, 0, nil
	e.ended = append(e.ended, j)
	e.free(j)
}

// free notes the job that waited for j's end.
func (e *ender) free(j *Job) {
	if j.Next != 0 {
		e.freed = append(e.freed, j.Next)
		j.Next = 0
	}
}

// release gives back what a start was charged. Only the update that matched the
// lease gets here, so nothing is given back twice.
func (e *ender) release(charges []dispatch.Charge, refund bool) error {
	for _, ch := range charges {
		l, err := e.limits.get(ch.Limit)
		if err != nil {
			return err
		}
		full := l.Spec.InFlight > 0 && l.State.InFlight() >= l.Spec.InFlight
		l.State.Release(l.Spec, ch.Cost, ch.Slot, e.now, refund)
		l.changed = true
		if full || refund {
			if err := e.loosened(ch.Limit); err != nil {
				return err
			}
		}
	}
	return nil
}

// loosened opens the limit's gates, once: of a batch that is given back, each start
// gives the limit room.
func (e *ender) loosened(name string) error {
	if e.looser[name] {
		return nil
	}
	if e.looser == nil {
		e.looser = map[string]bool{}
	}
	e.looser[name] = true
	return loosened(e.tx, name, e.now)
}

// observe applies what was learned by the job's call; job 0: by nobody's.
func (e *ender) observe(job int64, obs []store.Observed) error {
	for _, o := range obs {
		l, err := e.limits.get(o.Limit)
		if err != nil {
			return err
		}
		if !l.Known && job != 0 {
			continue // what a handler got wrong must not keep its outcome out of the store
		}
		if !l.Known {
			return unknownLimit(e.tx, o.Limit)
		}
		if o.At == 0 {
			o.At = e.now
		}
		o.Reason, o.Job = clean(o.Reason), job
		l.changed = true
		if l.State.Observe(l.Spec, o.Observation, o.Random) {
			if err := e.loosened(o.Limit); err != nil {
				return err
			}
		}
	}
	return nil
}

// event writes the next event of a job and drops the one in the middle that is
// now neither among the first nor among the last.
func (e *ender) event(j *Job, ev store.Event) error {
	j.Events++
	ev.JobID, ev.N, ev.At = j.ID, j.Events, e.now
	if err := e.tx.AddEvent(ev); err != nil {
		return err
	}
	if old := j.Events - eventsLast; old > eventsFirst {
		return e.tx.DropEvent(j.ID, old)
	}
	return nil
}

// write writes what was gathered, and then lets successors go.
func (e *ender) write() error {
	if err := e.limits.save(); err != nil {
		return err
	}
	freed, err := e.tx.Jobs(e.freed)
	if err != nil {
		return err
	}
	for _, j := range freed {
		if j == nil || !awaits(j) { // cancelled meanwhile, perhaps replayed
			continue
		}
		if err := e.keep(j, e.now); err != nil {
			return err
		}
	}
	if err := e.tx.SaveJobs(e.kept); err != nil {
		return err
	}
	if err := e.tx.EndJobs(e.ended); err != nil {
		return err
	}
	return removeJobs(e.tx, e.dropped)
}
