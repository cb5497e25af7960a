package engine

import (
	"context"
	"time"
)

// Wake announces that a job due at At was put into a lane, or that starts which
// drew on a limit have ended.
type Wake struct {
	Lane Lane // its id and its key: ID, Band without id, Group, Draws
	At   int64

	Limit    string // "" for a lane's
	Ended    int64  // how many starts
	PassedAt int64  // when the last of them that was let through was seen to be; 0 if none was
	Slot     int64  // the latest slot of those
}

// What Announced asks for besides a lane.
const (
	AnyLane int64 = 0
	AnyWake int64 = -1
)

// QuietFor is how long the end of starts may stay announced before it is a reason
// to claim: mostly nobody waits for it.
const QuietFor = 200 * time.Millisecond

// wakesAtOnce is how many lanes and limits are brought up to date in one transaction by
// those who start nothing, while claims wait for it.
const wakesAtOnce = 128

// Wakes are how a transaction that others overlap tells of what it put into a
// lane: it must not read the lane, which would be stale at its commit, nor write
// it, which would make others wait for that commit. So it appends a row, and the
// next claim, which is alone, brings the lane up to date.
type Wakes interface {
	// Overlaps reports whether others may overlap this transaction. FindLane then
	// returns the lane's id and key; its state means nothing.
	Overlaps() bool
	// AddWake appends an announcement.
	AddWake(w Wake) error
	// TakeWakes removes announcements, of up to n lanes and limits, and returns them, those
	// of one lane as one with the earliest At, those of one limit as one with the sum, and
	// whether more may be left.
	TakeWakes(n int) (wakes []Wake, more bool, err error)
	// RestoreLane makes the lane with this id an empty one, and makes it if it is not there.
	RestoreLane(l Lane) (Lane, error)
	// Announced reports whether there is an announcement for the lane; AnyLane: for any
	// lane, or of starts that ended QuietFor ago; AnyWake: any at all.
	Announced(lane int64) (bool, error)
}

// NoWakes is for stores on this machine, whose write transactions never overlap.
type NoWakes struct{}

// Overlaps is false.
func (NoWakes) Overlaps() bool { return false }

// AddWake is never called.
func (NoWakes) AddWake(Wake) error { return nil }

// TakeWakes finds none.
func (NoWakes) TakeWakes(int) ([]Wake, bool, error) { return nil, false, nil }

// Announced finds none.
func (NoWakes) Announced(int64) (bool, error) { return false, nil }

// RestoreLane is never called.
func (NoWakes) RestoreLane(l Lane) (Lane, error) { return l, nil }

// Ahead does nothing.
func (NoWakes) Ahead(Ahead) error { return nil }

// arrive makes a job that was put into the lane servable, now or by the next claim.
func arrive(tx Tx, l *Lane, at, now int64) error {
	if !tx.Overlaps() {
		return enter(tx, l, at, now)
	}
	if err := tx.AddWake(Wake{Lane: *l, At: at}); err != nil {
		return err
	}
	return tx.Notify()
}

// takeWakes brings lanes up to date with what was announced, a bounded number of
// announcements, and returns those lanes that are servable sooner than before, and
// whether more may be left.
func takeWakes(tx Tx, now int64, n int) (lanes []Lane, more bool, err error) {
	wakes, more, err := tx.TakeWakes(n)
	if err != nil || len(wakes) == 0 {
		return nil, false, err
	}
	var ahead Ahead
	var ended, put []Wake
	for _, w := range wakes {
		if w.Limit != "" {
			ended, ahead.Limits = append(ended, w), append(ahead.Limits, w.Limit)
		} else {
			put, ahead.Lanes = append(put, w), append(ahead.Lanes, w.Lane.ID)
		}
	}
	if err := tx.Ahead(ahead); err != nil {
		return nil, more, err
	}
	if lanes, err = enterAll(tx, put, ahead.Lanes, now); err != nil {
		return nil, more, err
	}
	return lanes, more, releaseEnded(tx, ended, now)
}

// wakeAll takes announcements for those who start nothing themselves, and tells those who do.
func wakeAll(tx Tx, now int64) (more bool, err error) {
	woken, more, err := takeWakes(tx, now, wakesAtOnce)
	if err == nil && len(woken) > 0 {
		err = tx.Notify()
	}
	return more, err
}

// releaseEnded gives back the calls in flight of starts that ended.
func releaseEnded(tx Tx, ended []Wake, now int64) error {
	e := ender{tx: tx, now: now, limits: newLimits(tx)}
	for _, w := range ended {
		if err := e.releaseAll(w); err != nil {
			return err
		}
	}
	return e.limits.save()
}

// enterAll makes servable what was put into lanes, and returns the lanes that are so
// sooner than before.
func enterAll(tx Tx, wakes []Wake, ids []int64, now int64) (woken []Lane, err error) {
	lanes, err := tx.Lanes(ids)
	if err != nil {
		return nil, err
	}
	gates := make([]GateKey, 0, len(lanes))
	for i := range lanes {
		if lanes[i].ID == 0 || lanes[i].State == LaneRetired { // removed, or about to be, before the job was to be seen
			if lanes[i], err = tx.RestoreLane(wakes[i].Lane); err != nil {
				return nil, err
			}
		}
		gates = append(gates, GateKey{lanes[i].Band.ID, lanes[i].Gate})
	}
	if err := tx.Ahead(Ahead{Gates: gates}); err != nil {
		return nil, err
	}
	for i := range lanes {
		sooner, err := admit(tx, &lanes[i], wakes[i].At, now)
		if err != nil {
			return nil, err
		}
		if sooner {
			woken = append(woken, lanes[i])
		}
	}
	return woken, nil
}

// catchUp brings all lanes and limits up to date with what was announced, for
// those who look at them.
func (s *Store) catchUp(ctx context.Context) error {
	if !s.db.Overlaps() {
		return nil
	}
	announced := false
	err := s.db.Peek(ctx, func(tx Tx) (err error) {
		announced, err = tx.Announced(AnyWake)
		return err
	})
	for more := announced; more && err == nil; {
		err = s.db.Update(ctx, func(tx Tx) error {
			now, err := tx.Now()
			if err != nil {
				return err
			}
			more, err = wakeAll(tx, now)
			return err
		})
	}
	return err
}
