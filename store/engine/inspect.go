package engine

import (
	"context"
	"fmt"

	"github.com/penstockhq/penstock/store"
)

// Job returns a job with its bodies.
func (s *Store) Job(ctx context.Context, id int64) (out store.Job, err error) {
	found, err := s.found(ctx, store.Filter{IDs: []int64{id}, N: 1, Bodies: true})
	switch {
	case err != nil:
		return out, err
	case len(found) == 0:
		return out, fmt.Errorf("job %d: %w", id, store.ErrNotFound)
	}
	return found[0], nil
}

// Jobs lists jobs in the order of their ids, or in the opposite one.
func (s *Store) Jobs(ctx context.Context, f store.Filter) (out []store.Job, err error) {
	if f.N <= 0 {
		f.N = 100
	}
	return s.found(ctx, f)
}

// found lists jobs. Where there seem to be none, they may be in a lane that was
// removed before they were to be seen, and that their announcement brings back.
func (s *Store) found(ctx context.Context, f store.Filter) (out []store.Job, err error) {
	for caught := false; ; caught = true {
		announced := false
		err = s.db.View(ctx, func(tx Tx) (err error) {
			if out, err = find(tx, f); err == nil && len(out) == 0 && !caught {
				announced, err = tx.Announced(AnyWake)
			}
			return err
		})
		if err != nil || !announced {
			return out, err
		}
		if err := s.catchUp(ctx); err != nil {
			return nil, err
		}
	}
}

func find(tx Tx, f store.Filter) ([]store.Job, error) {
	jobs, err := tx.Find(f)
	if err != nil {
		return nil, err
	}
	return views(tx, jobs, f.Bodies)
}

// CountRun counts the jobs of a run by state.
func (s *Store) CountRun(ctx context.Context, run string) (out map[store.State]int64, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		out, err = tx.CountRun(run)
		return err
	})
	return out, err
}

// CallIDs returns whose the run's call ids are.
func (s *Store) CallIDs(ctx context.Context, run string, refs []string) (out map[string]int64, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		out = make(map[string]int64)
		if err := tx.Ahead(Ahead{Run: run, Refs: refs}); err != nil {
			return err
		}
		for _, ref := range refs {
			c, ok, err := tx.Call(run, ref)
			if err != nil {
				return err
			}
			if ok {
				out[ref] = c.Job
			}
		}
		return nil
	})
	return out, err
}

// Events returns a job's history, oldest first.
func (s *Store) Events(ctx context.Context, id int64) (out []store.Event, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		out, err = tx.Events(id)
		return err
	})
	return out, err
}

// Cancel ends a waiting job and asks a running one to stop.
func (s *Store) Cancel(ctx context.Context, id int64) (state store.State, err error) {
	err = s.db.Update(ctx, func(tx Tx) error {
		j, ok, err := tx.Job(id)
		if err != nil {
			return err
		}
		if !ok {
			if state, err = stateOf(tx, id); err != nil {
				return fmt.Errorf("job %d: %w", id, err)
			}
			return nil
		}
		if j.State == store.Running {
			state, j.Cancel = store.Running, true
			return tx.SaveJobs([]*Job{j})
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		e := ender{tx: tx, now: now, limits: newLimits(tx)}
		state = store.Cancelled
		if err := e.event(j, store.Event{Outcome: store.OutcomeCancelled}); err != nil {
			return err
		}
		e.end(j, store.Cancelled, "", "")
		return e.write()
	})
	return state, err
}

// Replay puts dead or cancelled jobs back in line with fresh attempts.
func (s *Store) Replay(ctx context.Context, ids, due []int64, newKey func() string) (errs []error, err error) {
	if due != nil && len(due) != len(ids) {
		return nil, fmt.Errorf("replay: expected an instant for each of %d jobs, got %d", len(ids), len(due))
	}
	err = s.db.Update(ctx, func(tx Tx) error {
		errs = make([]error, len(ids))
		now, err := tx.Now()
		if err != nil {
			return err
		}
		jobs, err := tx.EndedJobs(ids)
		if err != nil {
			return err
		}
		seen := map[int64]bool{}
		for i, j := range jobs {
			switch {
			case j == nil:
				errs[i] = fmt.Errorf("job %d: %w among the ended jobs", ids[i], store.ErrNotFound)
				continue
			case j.State != store.Dead && j.State != store.Cancelled:
				errs[i] = fmt.Errorf("job %d is %v: only dead and cancelled jobs can be replayed", j.ID, j.State)
				continue
			case seen[j.ID]:
				continue
			}
			seen[j.ID] = true
			at := now
			if due != nil {
				at = min(max(at, due[i]), MaxInstant)
			}
			if errs[i], err = replay(tx, j, at, now, newKey); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

func replay(tx Tx, j *Job, at, now int64, newKey func() string) (refused, err error) {
	if j.Unique != "" {
		h, taken, err := tx.UniqueHolder(j.Unique)
		if err != nil {
			return nil, err
		}
		if taken {
			return fmt.Errorf("job %d: %w: job %d has %q", j.ID, store.ErrUniqueTaken, h.ID, j.Unique), nil
		}
	}
	lanes, err := tx.Lanes([]int64{j.Lane})
	if err != nil {
		return nil, err
	}
	l := lanes[0]
	if l.Band.Suspect {
		key := laneKey(l)
		key.Suspect = false
		if l, err = findLane(tx, key); err != nil {
			return nil, err
		}
	}
	if newKey != nil {
		if err := renewKey(tx, j.ID, newKey()); err != nil {
			return nil, err
		}
	}
	if j.Reason == store.InDoubt {
		// Whoever replays it says that the effect is to be taken as not happened.
		if err := tx.DropBegun(j.ID); err != nil {
			return nil, err
		}
	}
	e := ender{tx: tx, now: now}
	if err := e.event(j, store.Event{Outcome: store.OutcomeReplayed, NextAt: at}); err != nil {
		return nil, err
	}
	*j = Job{ID: j.ID, Lane: l.ID, State: store.Waiting, At: at, EnqueuedAt: j.EnqueuedAt, ExpiresAt: j.ExpiresAt,
		Unique: j.Unique, Run: j.Run, Ref: j.Ref, Starts: j.Starts, Throttles: j.Throttles, Events: j.Events}
	if j.ExpiresAt <= at {
		j.ExpiresAt = 0 // whoever replays it wants it to run
	}
	if err := tx.UnendJobs([]*Job{j}); err != nil {
		return nil, err
	}
	return nil, enter(tx, &l, at, now)
}

func renewKey(tx Tx, id int64, key string) error {
	bodies, err := tx.Bodies([]int64{id})
	if err != nil {
		return err
	}
	opts, err := store.DecodeOptions(bodies[0].Options)
	if err != nil {
		return err
	}
	opts.IdempotencyKey = key
	bodies[0].Options = store.EncodeOptions(opts)
	return tx.SaveBody(id, bodies[0])
}

// Discard removes ended jobs for good.
func (s *Store) Discard(ctx context.Context, ids []int64) (errs []error, err error) {
	err = s.db.Update(ctx, func(tx Tx) error {
		errs = make([]error, len(ids))
		jobs, err := tx.EndedJobs(ids)
		if err != nil {
			return err
		}
		var drop []int64
		for i, j := range jobs {
			if j == nil {
				errs[i] = fmt.Errorf("job %d: %w among the ended jobs", ids[i], store.ErrNotFound)
				continue
			}
			drop = append(drop, j.ID)
		}
		return dropWithCalls(tx, drop)
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// Queues counts every queue that has jobs or is paused.
func (s *Store) Queues(ctx context.Context) (out []store.QueueInfo, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		out, err = tx.QueueInfos(now)
		return err
	})
	return out, err
}

// PauseQueue stops starts from a queue.
func (s *Store) PauseQueue(ctx context.Context, queue, reason string) error {
	if queue == "" {
		return fmt.Errorf("queue is empty: expected a name")
	}
	return s.db.Update(ctx, func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		reason = clean(reason)
		if err := tx.SaveQueue(QueueRow{Name: queue, Reason: reason, At: now}); err != nil {
			return err
		}
		return note(tx, now, store.NoteQueue+queue, "paused%s", because(reason))
	})
}

// ResumeQueue lets a queue's jobs start again. Its gates kept their times, so
// nothing has to be woken.
func (s *Store) ResumeQueue(ctx context.Context, queue string) error {
	return s.db.Update(ctx, func(tx Tx) error {
		if _, paused, err := tx.Queue(queue); err != nil || !paused {
			return err
		}
		if err := tx.DropQueue(queue); err != nil {
			return err
		}
		if err := tx.Notify(); err != nil {
			return err
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		return note(tx, now, store.NoteQueue+queue, "resumed")
	})
}
