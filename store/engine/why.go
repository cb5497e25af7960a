package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// Why lists what keeps a waiting job from its start.
func (s *Store) Why(ctx context.Context, id int64) (out []dispatch.Wait, err error) {
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	err = s.db.View(ctx, func(tx Tx) error {
		j, ok, err := tx.Job(id)
		if err != nil {
			return err
		}
		if !ok {
			if _, err := stateOf(tx, id); err != nil {
				return fmt.Errorf("job %d: %w", id, err)
			}
			return nil
		}
		if j.State != store.Waiting {
			return nil
		}
		q, err := s.question(tx, j)
		if err != nil {
			return err
		}
		out = dispatch.Explain(q)
		return nil
	})
	return out, err
}

// question gathers what the explanation depends on.
func (s *Store) question(tx Tx, j *Job) (dispatch.Question, error) {
	now, err := tx.Now()
	if err != nil {
		return dispatch.Question{}, err
	}
	lanes, err := tx.Lanes([]int64{j.Lane})
	if err != nil {
		return dispatch.Question{}, err
	}
	l := lanes[0]
	q := dispatch.Question{Now: now, At: j.At, Staged: l.Band.Load != "", Successor: awaits(j), Limits: map[string]*dispatch.Limit{},
		Lane: dispatch.Lane{ID: l.ID, Priority: l.Band.Priority, Suspect: l.Band.Suspect, Draws: l.Draws}}
	paused, ok, err := tx.Queue(l.Band.Queue)
	if err != nil {
		return q, err
	}
	q.QueuePaused, q.PausedReason = ok, paused.Reason
	ls := newLimits(tx)
	for _, d := range l.Draws {
		lim, err := ls.get(d.Limit)
		if err != nil {
			return q, err
		}
		q.Limits[d.Limit] = &dispatch.Limit{Spec: lim.Spec, State: &lim.State}
	}
	workers, err := tx.Workers()
	if err != nil {
		return q, err
	}
	for _, w := range workers {
		if slices.Contains(w.Kinds, l.Band.Kind) && (w.Run == "" || w.Run == l.Band.Run) && !s.dead(w, now) {
			q.Workers++
		}
	}
	if !q.Successor {
		q.Ahead, err = tx.CountAhead(j.Lane, j.At, j.ID)
	}
	return q, err
}
