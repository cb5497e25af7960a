package engine

import (
	"context"
	"slices"
	"strings"
)

// sweepPage is how many lanes and limits one sweep looks at.
const sweepPage = 256

// Sweep checks a page of lanes against their jobs, and drops the states of keyed
// limits that are as good as new. The next call goes on where it ended.
func (s *Store) Sweep(ctx context.Context) (finds int, err error) {
	if err := s.catchUp(ctx); err != nil { // while all places are taken nobody claims
		return 0, err
	}
	s.sweepMu.Lock()
	defer s.sweepMu.Unlock()
	lane, name := s.sweepLane, s.sweepName
	err = s.db.Update(ctx, func(tx Tx) error {
		finds = 0
		now, err := tx.Now()
		if err != nil {
			return err
		}
		if _, err := wakeAll(tx, now); err != nil {
			return err
		}
		lanes, err := tx.LanePage(s.sweepLane, sweepPage)
		if err != nil {
			return err
		}
		if lane = 0; len(lanes) == sweepPage {
			lane = lanes[len(lanes)-1].ID
		}
		for i := range lanes {
			found, err := mend(tx, &lanes[i], now)
			if err != nil {
				return err
			}
			if found {
				finds++
			}
		}
		if finds > 0 {
			if err := countFinds(tx, finds, now); err != nil {
				return err
			}
		}
		name, _, err = dropIdle(tx, s.sweepName, now)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.sweepLane, s.sweepName = lane, name
	return finds, nil
}

// mend wakes a lane whose state hides a job, and reports whether it did.
func mend(tx Tx, l *Lane, now int64) (bool, error) {
	if l.State == LaneReady {
		g, err := gateOf(tx, l.Band.ID, l.Gate)
		if err != nil || g.OpensAt != Empty {
			return false, err
		}
		g.OpensAt = now
		if err := tx.SaveGate(g); err != nil {
			return true, err
		}
		return true, tx.Notify()
	}
	at, ok, err := tx.FirstDue(l.ID)
	if err != nil || !ok || at >= awaitsEnd {
		return false, err
	}
	if l.State == LaneSleeping && l.NextAt <= at {
		return false, nil
	}
	if announced, err := tx.Announced(l.ID); err != nil || announced {
		return false, err
	}
	l.State = LaneEmpty
	return true, enter(tx, l, at, now)
}

// dropIdle removes states of keyed limits that carry no information any more,
// and returns the name to go on behind and how many it removed.
func dropIdle(tx Tx, after string, now int64) (next string, dropped int, err error) {
	names, err := tx.LimitStates(after, sweepPage)
	if err != nil {
		return "", 0, err
	}
	keyed := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.Contains(name, "/") })
	if err := tx.Ahead(Ahead{Limits: keyed}); err != nil {
		return "", 0, err
	}
	for _, name := range keyed {
		l, err := newLimits(tx).get(name)
		if err != nil {
			return "", 0, err
		}
		if l.State.Idle(l.Spec, now) {
			if err := tx.SaveLimitState(name, nil); err != nil {
				return "", 0, err
			}
			dropped++
		}
	}
	if len(names) < sweepPage {
		return "", dropped, nil
	}
	return names[len(names)-1], dropped, nil
}
