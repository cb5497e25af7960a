package engine

import "github.com/penstockhq/penstock/limit"

// enter makes a lane servable after a job due at the instant was put in it.
func enter(tx Tx, l *Lane, at, now int64) error {
	if sooner, err := admit(tx, l, at, now); err != nil || !sooner {
		return err
	}
	return tx.Notify()
}

// admit is enter, and reports whether others must hear of it: the lane is servable
// sooner than they may know. A ready lane needs nothing: whoever serves it finds the job.
func admit(tx Tx, l *Lane, at, now int64) (sooner bool, err error) {
	lower := at < l.FloorAt || at == l.FloorAt && l.FloorID > 0 // its id may be any
	if lower {
		l.FloorAt, l.FloorID = at, 0
	}
	switch {
	case l.State == LaneReady, l.State == LaneSleeping && at >= l.NextAt:
		if lower {
			return false, tx.SaveLane(*l)
		}
		return false, nil
	case at <= now:
		return true, wake(tx, l, now)
	}
	l.State, l.NextAt = LaneSleeping, at
	return true, tx.SaveLane(*l)
}

// wake puts a lane at its gate and opens the gate for a look.
func wake(tx Tx, l *Lane, now int64) error {
	g, err := gateOf(tx, l.Band.ID, l.Gate)
	if err != nil {
		return err
	}
	l.State, l.NextAt = LaneReady, 0
	// A lane that was away gets no credit for the time it did not use.
	l.VTime = max(l.VTime, g.VClock)
	if g.OpensAt == Empty {
		// Nobody else waits here, so nobody is behind or ahead.
		g.VClock = l.VTime
	}
	if err := tx.SaveLane(*l); err != nil {
		return err
	}
	if g.OpensAt <= now {
		return nil
	}
	g.OpensAt = now
	return tx.SaveGate(g)
}

// loosened opens the limit's gates for a look: something gave it room.
func loosened(tx Tx, name string, now int64) error {
	if err := tx.WakeGates(name, now); err != nil {
		return err
	}
	return tx.Notify()
}

// gateOf returns the gate's row, or an empty one to be saved.
func gateOf(tx Tx, band int64, name string) (Gate, error) {
	g, ok, err := tx.Gate(band, name)
	if err != nil || ok {
		return g, err
	}
	return Gate{Band: band, Limit: name, OpensAt: Empty}, nil
}

// rest gives a lane that has nothing due its new state, by its next due job, if
// there is one.
func (l *Lane) rest(at int64, found bool) {
	l.State, l.NextAt = LaneEmpty, 0
	if found && at < awaitsEnd {
		l.State, l.NextAt = LaneSleeping, at
	}
}

// NextNow is NextLater for stores that are near: it looks at once.
func NextNow(tx Tx, bands []int64, at int64, then func(sleeper, gate int64)) error {
	sleeper, err := tx.NextSleeper(bands)
	if err != nil {
		return err
	}
	gate, err := tx.NextGate(bands, at)
	if err == nil {
		then(sleeper, gate)
	}
	return err
}

// wakeSleepers wakes lanes whose time has come, and reports whether some may be left.
// Nobody needs to hear of it: those who may serve them know their time.
func wakeSleepers(tx Tx, now int64, n int) (more bool, err error) {
	lanes, err := tx.SleepingLanes(now, n)
	if err != nil {
		return false, err
	}
	for i := range lanes {
		if err := wake(tx, &lanes[i], now); err != nil {
			return false, err
		}
	}
	return len(lanes) == n, nil
}

// limits is the set of limits that one transaction reads and changes. Everything
// in a transaction that touches a limit must draw on the one working copy.
type limits struct {
	tx     Tx
	loaded map[string]*loadedLimit
}

type loadedLimit struct {
	Spec    limit.Spec
	State   limit.State
	Known   bool // declared, itself or by its pattern
	changed bool
}

func newLimits(tx Tx) *limits { return &limits{tx: tx, loaded: map[string]*loadedLimit{}} }

// get loads a limit. An undeclared one has an unlimited spec and Known false.
func (ls *limits) get(name string) (*loadedLimit, error) {
	if l, ok := ls.loaded[name]; ok {
		return l, nil
	}
	l := &loadedLimit{}
	row, ok, err := configOf(ls.tx, name)
	if err != nil {
		return nil, err
	}
	if l.Known = ok; ok {
		if l.Spec, err = row.spec(); err != nil {
			return nil, err
		}
	}
	data, err := ls.tx.LimitState(name)
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		if err := l.State.UnmarshalBinary(data); err != nil {
			return nil, err
		}
	}
	ls.loaded[name] = l
	return l, nil
}

// save writes the states that changed.
func (ls *limits) save() error {
	for name, l := range ls.loaded {
		if !l.changed {
			continue
		}
		data, err := l.State.MarshalBinary()
		if err != nil {
			return err
		}
		if err := ls.tx.SaveLimitState(name, data); err != nil {
			return err
		}
	}
	return nil
}
