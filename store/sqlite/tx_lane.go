package sqlite

import (
	"database/sql/driver"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

const laneColumns = `l.id, l.band, l.grp, l.draws, l.state, l.next_at, l.gate, l.vtime`

// readLane leaves the band but for its id to fillBands.
func readLane(r row) (l engine.Lane, err error) {
	l = engine.Lane{
		ID: r.int(0), Band: engine.Band{ID: r.int(1)}, Group: r.text(2), State: engine.LaneState(r.int(4)),
		NextAt: r.int(5), Gate: r.text(6), VTime: r.int(7),
	}
	l.Draws, err = decodeDraws(r.text(3))
	return l, err
}

func (t *tx) listLanes(sql string, args ...driver.Value) ([]engine.Lane, error) {
	var lanes []engine.Lane
	var bad error
	err := t.query(func(r row) {
		l, err := readLane(r)
		if err != nil {
			bad = err
		}
		lanes = append(lanes, l)
	}, sql, args...)
	if err == nil {
		err = bad
	}
	for i := range lanes {
		if err != nil {
			return nil, err
		}
		lanes[i].Band, err = t.band(lanes[i].Band.ID)
	}
	return lanes, err
}

func (t *tx) FindLane(key store.LaneKey) (engine.Lane, error) {
	draws := encodeDraws(key.Draws)
	args := []driver.Value{key.Load, key.Kind, key.Run, key.Queue, int64(key.Priority), flag(key.Suspect)}
	lanes, err := t.listLanes(sqlFindLane, append(args, key.Group, draws)...)
	if err != nil || len(lanes) > 0 {
		if err != nil {
			return engine.Lane{}, err
		}
		return lanes[0], nil
	}

	band := engine.Band{Queue: key.Queue, Kind: key.Kind, Priority: key.Priority, Run: key.Run, Load: key.Load, Suspect: key.Suspect}
	found, err := one(t, func(r row) { band.ID = r.int(0) }, sqlFindBand, args...)
	if err != nil {
		return engine.Lane{}, err
	}
	if !found {
		if _, err := one(t, func(r row) { band.ID = r.int(0) },
			`INSERT INTO penstock_band (load, kind, run, queue, priority, suspect) VALUES (?, ?, ?, ?, ?, ?) RETURNING id`, args...); err != nil {
			return engine.Lane{}, err
		}
	}
	t.remember(band)

	l := engine.Lane{Band: band, Group: key.Group, Draws: append([]dispatch.Draw(nil), key.Draws...)}
	if len(key.Draws) > 0 {
		l.Gate = key.Draws[0].Limit
	}
	_, err = one(t, func(r row) { l.ID = r.int(0) },
		`INSERT INTO penstock_lane (band, grp, draws, state, next_at, gate, vtime) VALUES (?, ?, ?, 0, 0, ?, 0) RETURNING id`,
		band.ID, l.Group, draws, l.Gate)
	return l, err
}

const (
	sqlBandIs   = `b.load = ? AND b.kind = ? AND b.run = ? AND b.queue = ? AND b.priority = ? AND b.suspect = ?`
	sqlFindBand = `SELECT b.id FROM penstock_band b WHERE ` + sqlBandIs + ` ORDER BY b.id LIMIT 1`
	// A released band may stand beside a visible one with the same key: the first
	// that has the lane is meant.
	sqlFindLane = `SELECT ` + laneColumns + ` FROM penstock_band b CROSS JOIN penstock_lane l ON l.band = b.id
		WHERE ` + sqlBandIs + ` AND l.grp = ? AND l.draws = ? ORDER BY b.id LIMIT 1`
)

func (t *tx) Lanes(ids []int64) ([]engine.Lane, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := t.listLanes(sqlLanes, encodeIDs(ids))
	if err != nil {
		return nil, err
	}
	at := make(map[int64]int, len(found))
	for i := range found {
		at[found[i].ID] = i
	}
	lanes := make([]engine.Lane, len(ids))
	for i, id := range ids {
		if k, ok := at[id]; ok {
			lanes[i] = found[k]
			lanes[i].Draws = append([]dispatch.Draw(nil), found[k].Draws...)
		}
	}
	return lanes, nil
}

const sqlLanes = `SELECT ` + laneColumns + ` FROM json_each(?) e CROSS JOIN penstock_lane l ON l.id = e.value`

func (t *tx) SaveLane(l engine.Lane) error {
	return t.exec(`UPDATE penstock_lane SET state = ?, next_at = ?, gate = ?, vtime = ? WHERE id = ?`,
		int64(l.State), l.NextAt, l.Gate, l.VTime, l.ID)
}

func (t *tx) SleepingLanes(at int64, n int) ([]engine.Lane, error) {
	return t.listLanes(sqlSleepingLanes, at, int64(n))
}

const sqlSleepingLanes = `SELECT ` + laneColumns + ` FROM penstock_lane l WHERE l.state = 2 AND l.next_at <= ? ORDER BY l.next_at, l.id LIMIT 0+?`

func (t *tx) NextSleeper(bands []int64) (int64, error) {
	if bands == nil {
		return t.earliest(sqlNextSleeper)
	}
	return t.earliest(sqlNextSleeperOf, encodeIDs(bands))
}

const (
	sqlNextSleeper   = `SELECT min(l.next_at) FROM penstock_lane l WHERE l.state = 2`
	sqlNextSleeperOf = `SELECT min((SELECT min(l.next_at) FROM penstock_lane l WHERE l.band = e.value AND l.state = 2)) FROM json_each(?) e`
)

func (t *tx) ReadyLanes(band int64, limit string, n int) ([]engine.Lane, error) {
	return t.listLanes(sqlReadyLanes, band, limit, int64(n))
}

const sqlReadyLanes = `SELECT ` + laneColumns + ` FROM penstock_lane l WHERE l.band = ? AND l.gate = ? AND l.state = 1 ORDER BY l.vtime, l.id LIMIT 0+?`

func (t *tx) LanePage(after int64, n int) ([]engine.Lane, error) {
	return t.listLanes(`SELECT `+laneColumns+` FROM penstock_lane l WHERE l.id > ? ORDER BY l.id LIMIT 0+?`, after, int64(n))
}

func (t *tx) BandLanes(band, after int64, n int) ([]engine.Lane, error) {
	return t.listLanes(sqlBandLanes, band, after, int64(n))
}

const sqlBandLanes = `SELECT ` + laneColumns + ` FROM penstock_lane l INDEXED BY penstock_lane_band WHERE l.band = ? AND l.id > ? ORDER BY l.id LIMIT 0+?`

func (t *tx) FirstDue(lane int64) (at int64, found bool, err error) {
	found, err = one(t, func(r row) { at = r.int(0) }, sqlFirstDue, lane)
	return at, found, err
}

func (t *tx) FirstAfter(lane, after int64) (at int64, found bool, err error) {
	found, err = one(t, func(r row) { at = r.int(0) }, sqlFirstAfter, lane, after)
	return at, found, err
}

func (t *tx) CountAhead(lane, at, id int64) (n int64, err error) {
	_, err = one(t, func(r row) { n = r.int(0) }, sqlCountAhead, lane, at, id)
	return n, err
}

const sqlCountAhead = `SELECT count(*) FROM penstock_job WHERE lane = ? AND state = 1 AND (at, id) < (?, ?)`

const (
	sqlFirstDue   = `SELECT at FROM penstock_job WHERE lane = ? AND state = 1 ORDER BY at, id LIMIT 1`
	sqlFirstAfter = `SELECT at FROM penstock_job WHERE lane = ? AND state = 1 AND at > ? ORDER BY at, id LIMIT 1`
)
