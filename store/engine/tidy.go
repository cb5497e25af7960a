package engine

import (
	"context"

	"github.com/penstockhq/penstock/store"
)

// tidyChunk is how many rows one commit of a Tidy looks at or removes.
const tidyChunk = 500

// tidyTurn names the counter that tells Tidies apart.
const tidyTurn = "tidy"

// Tidy removes what no job needs any more.
//
// A lane must not vanish while a job refers to it, and no index tells which do.
// So lanes where nothing waits are first marked as retired; then, on a snapshot taken after
// that, those that no job refers to are listed; then they are removed if they
// are retired still. A job can come to a lane in between only through
// findLane, which takes the mark away. A later Tidy could put it back, so an
// earlier one gives up when it sees that a later one has begun.
func (s *Store) Tidy(ctx context.Context) (t store.Tidied, err error) {
	turn, err := s.beginTidy(ctx)
	if err != nil {
		return t, err
	}
	if err := s.retireLanes(ctx, turn); err != nil {
		return t, err
	}
	var lanes []int64
	err = s.db.View(ctx, func(tx Tx) error {
		lanes, err = tx.UnusedLanes()
		return err
	})
	if err != nil {
		return t, err
	}
	t.Lanes, err = inChunks(ctx, s, turn, lanes, func(tx Tx, ids []int64) (int, error) { return tx.DropLanes(ids) })
	if err != nil {
		return t, err
	}
	// What is left hangs on lanes, and is checked by the removal itself. A gate
	// that goes a moment too early takes no more along than its clock.
	var gates []Gate
	err = s.db.View(ctx, func(tx Tx) error {
		gates, err = tx.UnusedGates()
		return err
	})
	if err != nil {
		return t, err
	}
	t.Gates, err = inChunks(ctx, s, turn, gates, func(tx Tx, gates []Gate) (int, error) { return tx.DropGates(gates) })
	if err != nil {
		return t, err
	}
	err = s.db.Update(ctx, func(tx Tx) error {
		t.Bands, err = tx.DropBands()
		return err
	})
	if err != nil {
		return t, err
	}
	if t.LimitStates, err = s.dropIdleStates(ctx); err != nil {
		return t, err
	}
	return t, s.db.Update(ctx, func(tx Tx) error { // lines that nobody need go on behind
		now, err := tx.Now()
		if err != nil {
			return err
		}
		return tx.DropCounters(paceLine, now)
	})
}

func (s *Store) beginTidy(ctx context.Context) (turn int64, err error) {
	err = s.db.Update(ctx, func(tx Tx) error {
		if turn, err = tx.Counter(tidyTurn); err != nil {
			return err
		}
		turn++
		return tx.SetCounter(tidyTurn, turn)
	})
	return turn, err
}

// isTurn reports whether no later Tidy has begun.
func isTurn(tx Tx, turn int64) (bool, error) {
	now, err := tx.Counter(tidyTurn)
	return now == turn, err
}

// retireLanes marks the empty lanes, page by page.
func (s *Store) retireLanes(ctx context.Context, turn int64) error {
	for after, more := int64(0), true; more; {
		next := after
		err := s.db.Update(ctx, func(tx Tx) error {
			mine, err := isTurn(tx, turn)
			if more = mine; err != nil || !mine {
				return err
			}
			lanes, err := tx.LanePage(after, tidyChunk)
			if err != nil {
				return err
			}
			if err := tx.Ahead(retireAhead(lanes)); err != nil {
				return err
			}
			for _, l := range lanes {
				next = l.ID
				if err := retire(tx, l); err != nil {
					return err
				}
			}
			more = len(lanes) == tidyChunk
			return nil
		})
		if err != nil {
			return err
		}
		after = next
	}
	return nil
}

// retireAhead lists what marking the lanes reads.
func retireAhead(lanes []Lane) (a Ahead) {
	for _, l := range lanes {
		if l.State == LaneReady {
			a.FirstDue = append(a.FirstDue, l.ID)
		}
	}
	return a
}

// retire marks a lane if nothing waits in it. That of a lane that a claim left at
// its gate since it took no more than it could run, only a look tells.
func retire(tx Tx, l Lane) error {
	switch l.State {
	case LaneReady:
		if _, waits, err := tx.FirstDue(l.ID); err != nil || waits {
			return err
		}
	case LaneEmpty:
	default:
		return nil
	}
	wasReady := l.State == LaneReady
	l.State = LaneRetired
	if err := tx.SaveLane(l); err != nil || !wasReady {
		return err
	}
	rest, err := tx.ReadyLanes(l.Band.ID, l.Gate, 1)
	if err != nil || len(rest) > 0 {
		return err
	}
	g, ok, err := tx.Gate(l.Band.ID, l.Gate)
	if err != nil || !ok {
		return err
	}
	g.OpensAt = Empty
	return tx.SaveGate(g)
}

// inChunks removes rows, a bounded number in each commit.
func inChunks[T any](ctx context.Context, s *Store, turn int64, all []T, drop func(Tx, []T) (int, error)) (total int, err error) {
	for len(all) > 0 {
		chunk := all[:min(tidyChunk, len(all))]
		n, mine := 0, false
		err := s.db.Update(ctx, func(tx Tx) (err error) {
			if mine, err = isTurn(tx, turn); err != nil || !mine {
				return err
			}
			n, err = drop(tx, chunk)
			return err
		})
		if err != nil || !mine {
			return total, err
		}
		total, all = total+n, all[len(chunk):]
	}
	return total, nil
}

// dropIdleStates drops states of keyed limits that are as good as new.
func (s *Store) dropIdleStates(ctx context.Context) (total int, err error) {
	for after := ""; ; {
		next, n := "", 0
		err := s.db.Update(ctx, func(tx Tx) error {
			now, err := tx.Now()
			if err != nil {
				return err
			}
			next, n, err = dropIdle(tx, after, now)
			return err
		})
		if total += n; err != nil || next == "" {
			return total, err
		}
		after = next
	}
}

// findLane returns the lane of the key for a job that is to go there.
func findLane(tx Tx, key store.LaneKey) (Lane, error) {
	l, err := tx.FindLane(key)
	if err != nil || l.State != LaneRetired {
		return l, err
	}
	l.State = LaneEmpty
	return l, tx.SaveLane(l)
}
