package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstockhq/penstock/store"
)

const (
	flowLooksAt = 10_000 // ended jobs
	notesKept   = 1000
)

// The names of counters.
const (
	sweepFinds   = "sweep finds"
	sweepFoundAt = "sweep found at"
)

// Lines counts the due jobs in line at each limit.
func (s *Store) Lines(ctx context.Context) (out map[string]int64, err error) {
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	err = s.db.View(ctx, func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		out, err = tx.CountAtGates(now)
		return err
	})
	return out, err
}

// Flow says how jobs came to an end lately.
func (s *Store) Flow(ctx context.Context, since int64) (out map[string]store.Flow, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		out, err = tx.RecentEnds(since, flowLooksAt)
		return err
	})
	return out, err
}

// Unserved counts the due jobs that no live worker can run.
func (s *Store) Unserved(ctx context.Context) (out []store.Unserved, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		workers, err := tx.Workers()
		if err != nil {
			return err
		}
		workers = slices.DeleteFunc(workers, func(w WorkerRow) bool { return s.dead(w, now) })
		if out, err = tx.CountDue(now); err != nil {
			return err
		}
		out = slices.DeleteFunc(out, func(u store.Unserved) bool {
			return slices.ContainsFunc(workers, func(w WorkerRow) bool {
				return slices.Contains(w.Kinds, u.Kind) && (w.Run == "" || w.Run == u.Run)
			})
		})
		return nil
	})
	return out, err
}

// Checkup tells what the store knows of its own condition.
func (s *Store) Checkup(ctx context.Context) (c store.Checkup, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		if c.Now, err = tx.Now(); err != nil {
			return err
		}
		if c.SweepFinds, err = tx.Counter(sweepFinds); err != nil {
			return err
		}
		if c.LastFind, err = tx.Counter(sweepFoundAt); err != nil {
			return err
		}
		c.Newest, err = tx.Newest()
		return err
	})
	return c, err
}

// countFinds keeps what a sweep found, for Checkup.
func countFinds(tx Tx, finds int, now int64) error {
	n, err := tx.Counter(sweepFinds)
	if err != nil {
		return err
	}
	if err := tx.SetCounter(sweepFinds, n+int64(finds)); err != nil {
		return err
	}
	return tx.SetCounter(sweepFoundAt, now)
}

// Notes lists what was changed by hand.
func (s *Store) Notes(ctx context.Context, subject string, n int) (out []store.Note, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		out, err = tx.Notes(subject, n)
		return err
	})
	return out, err
}

// note writes down a change.
func note(tx Tx, now int64, subject, format string, args ...any) error {
	return tx.AddNote(store.Note{At: now, Subject: subject, Text: clean(fmt.Sprintf(format, args...))}, notesKept)
}

// because is a reason as a note's text ends with it.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// paceLine begins the names of counters that say until when a line is taken.
const paceLine = "pace "

// Pace has fn say until when lines are taken.
func (s *Store) Pace(ctx context.Context, lines []string, fn func(now int64, taken []int64)) error {
	return s.db.Update(ctx, func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		names := make([]string, len(lines))
		for i, line := range lines {
			names[i] = paceLine + line
		}
		were, err := tx.Counters(names)
		if err != nil {
			return err
		}
		taken := make([]int64, len(lines))
		for i, name := range names {
			taken[i] = max(now, were[name])
		}
		fn(now, taken)
		for i, name := range names {
			if at := min(taken[i], MaxInstant); at != were[name] {
				if err := tx.SetCounter(name, at); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Prune removes jobs that ended in one of the states before the instant.
func (s *Store) Prune(ctx context.Context, states []store.State, before int64, n int) (removed int, err error) {
	return s.prune(ctx, states, before, n, dropEnded)
}

// PruneCalls is Prune, and frees the call ids, too.
func (s *Store) PruneCalls(ctx context.Context, states []store.State, before int64, n int) (removed int, err error) {
	return s.prune(ctx, states, before, n, dropWithCalls)
}

func (s *Store) prune(ctx context.Context, states []store.State, before int64, n int, drop func(Tx, []int64) error) (removed int, err error) {
	for _, st := range states {
		if !st.Ended() {
			return 0, fmt.Errorf("prune: a job that is %v has not ended: expected done, dead or cancelled", st)
		}
	}
	if len(states) == 0 || n <= 0 {
		return 0, nil
	}
	err = s.db.Update(ctx, func(tx Tx) error {
		ids, err := tx.EndedBefore(states, before, n)
		if err != nil {
			return err
		}
		removed = len(ids)
		return drop(tx, ids)
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// dropWithCalls removes ended jobs, and frees their runs' call ids.
func dropWithCalls(tx Tx, ids []int64) error {
	if err := dropEnded(tx, ids); err != nil {
		return err
	}
	return tx.DropCalls(ids)
}

// dropEnded removes ended jobs with all that belongs to them. Their call ids stay: a
// file that is run once more must not be called once more.
func dropEnded(tx Tx, ids []int64) error {
	for _, id := range ids {
		if err := tx.DropEffect(store.JobEffect(id)); err != nil {
			return err
		}
	}
	return tx.DropEnded(ids)
}
