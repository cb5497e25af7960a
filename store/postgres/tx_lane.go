package postgres

import (
	"cmp"
	"slices"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// A lane is read together with its band.
const (
	bandColumns = `b.id, b.queue, b.kind, b.priority, b.run, b.load, b.suspect`
	laneColumns = `l.id, l.grp, l.draws, l.state, l.next_at, l.gate, l.vtime, l.floor_at, l.floor_id, ` + bandColumns
	sqlLanesOf  = `SELECT ` + laneColumns + ` FROM penstock.lane l JOIN penstock.band b ON b.id = ANY (ARRAY[l.band])`
)

func readLane(s scan) (l engine.Lane, err error) {
	var draws string
	var state int16
	b := &l.Band
	if err := s(&l.ID, &l.Group, &draws, &state, &l.NextAt, &l.Gate, &l.VTime, &l.FloorAt, &l.FloorID,
		&b.ID, &b.Queue, &b.Kind, &b.Priority, &b.Run, &b.Load, &b.Suspect); err != nil {
		return l, err
	}
	l.State = engine.LaneState(state)
	l.Draws, err = decodeDraws(draws)
	return l, err
}

// lanes is a query for lanes, which it also keeps.
func (t *tx) lanes(into *[]engine.Lane, sql string, args ...any) statement {
	return statement{sql: sql, args: args, each: func(s scan) error {
		l, err := readLane(s)
		if err != nil {
			return err
		}
		*into = append(*into, l)
		put(&t.kept.lanes, l.ID, l)
		return nil
	}}
}

func (t *tx) listLanes(sql string, args ...any) (lanes []engine.Lane, err error) {
	err = t.ask([]statement{t.lanes(&lanes, sql, args...)})
	return lanes, err
}

// FindLane looks the lane up by the hash of its key. In a transaction that others
// overlap, the lane was made before or is made now, in another transaction that
// commits at once, so that those who look see jobs together with their lanes; a
// lane is nothing to roll back.
func (t *tx) FindLane(key store.LaneKey) (engine.Lane, error) {
	if t.mode == adding {
		name := engine.KeyText(&key)
		if t.newLanes[name] == 0 {
			if err := t.findNewLanes([]store.LaneKey{key}); err != nil {
				return engine.Lane{}, err
			}
		}
		return laneOf(t.newLanes[name], key), nil
	}
	l, err := t.findLanes([]store.LaneKey{key})
	return l[0], err
}

// findNewLanes learns the ids of lanes that new jobs go to.
func (t *tx) findNewLanes(keys []store.LaneKey) error {
	ids, err := t.lanesOf.find(t.ctx, keys, t.kept.specs)
	for name, id := range ids {
		put(&t.newLanes, name, id)
	}
	return err
}

// laneOf is an empty lane with the key, without its band's id.
func laneOf(id int64, key store.LaneKey) engine.Lane {
	l := engine.Lane{ID: id, Group: key.Group, Draws: append([]dispatch.Draw(nil), key.Draws...),
		Band: engine.Band{Queue: key.Queue, Kind: key.Kind, Priority: key.Priority, Run: key.Run, Load: key.Load, Suspect: key.Suspect}}
	if len(key.Draws) > 0 {
		l.Gate = key.Draws[0].Limit
	}
	return l
}

// findLanes returns the lanes of the keys, and makes those that are not there.
func (t *tx) findLanes(keys []store.LaneKey) ([]engine.Lane, error) {
	lanes := make([]engine.Lane, len(keys))
	hashes := make([]int64, len(keys))
	for i, key := range keys {
		hashes[i] = hashLane(key)
	}
	var there []engine.Lane
	if err := t.ask([]statement{t.lanes(&there, sqlLanesOf+` WHERE l.key = ANY ($1::bigint[])`, hashes)}); err != nil {
		return lanes, err
	}
	slices.SortFunc(there, func(a, b engine.Lane) int { return cmp.Or(cmp.Compare(a.Band.ID, b.Band.ID), cmp.Compare(a.ID, b.ID)) })
	// The hash alone does not tell which lane is meant.
	known := make(map[string]engine.Lane, len(there))
	for _, l := range there {
		key := keyOf(l)
		if name := engine.KeyText(&key); known[name].ID == 0 {
			known[name] = l
		}
	}
	var missing []engine.Lane
	var missingHashes []int64
	for i := range keys {
		name := engine.KeyText(&keys[i])
		if _, ok := known[name]; !ok {
			known[name] = engine.Lane{} // it comes once
			missing, missingHashes = append(missing, laneOf(0, keys[i])), append(missingHashes, hashes[i])
		}
	}
	if err := t.makeLanes(missing, missingHashes); err != nil {
		return lanes, err
	}
	for _, l := range missing {
		key := keyOf(l)
		known[engine.KeyText(&key)] = l
	}
	for i := range keys {
		lanes[i] = known[engine.KeyText(&keys[i])]
	}
	return lanes, nil
}

func keyOf(l engine.Lane) store.LaneKey {
	return store.LaneKey{Queue: l.Band.Queue, Kind: l.Band.Kind, Priority: l.Band.Priority, Run: l.Band.Run, Load: l.Band.Load,
		Suspect: l.Band.Suspect, Group: l.Group, Draws: l.Draws}
}

// makeLanes writes new lanes, and sets their ids. However many they are, it takes
// no more trips than they have bands.
func (t *tx) makeLanes(lanes []engine.Lane, hashes []int64) error {
	if len(lanes) == 0 {
		return nil
	}
	var ids []int64
	if err := t.ask([]statement{{sql: `SELECT nextval('penstock.lane_id') FROM generate_series(1, $1)`, args: []any{len(lanes)}, each: collect(&ids)}}); err != nil {
		return err
	}
	n := len(lanes)
	bands, groups, draws, gates := make([]int64, n), make([]string, n), make([]string, n), make([]string, n)
	found := make(map[engine.Band]int64)
	for i := range lanes {
		l := &lanes[i]
		band := l.Band
		if found[band] == 0 {
			id, err := t.findBand(band)
			if err != nil {
				return err
			}
			found[band] = id
		}
		l.ID, l.Band.ID = ids[i], found[band]
		bands[i], groups[i], draws[i], gates[i] = l.Band.ID, l.Group, encodeDraws(l.Draws), l.Gate
		put(&t.kept.lanes, l.ID, *l)
	}
	return t.write(`INSERT INTO penstock.lane (id, key, band, grp, draws, state, next_at, gate, vtime)
		SELECT id, key, band, grp, draws, 0, 0, gate, 0 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[]) u (id, key, band, grp, draws, gate)`,
		ids, hashes, bands, groups, draws, gates)
}

// RestoreLane writes a lane that was removed before a job that was put into it was
// to be seen, with the id that the job names.
func (t *tx) RestoreLane(l engine.Lane) (engine.Lane, error) {
	there, err := t.Lanes([]int64{l.ID})
	if err != nil {
		return l, err
	}
	if there[0].ID == 0 {
		key := keyOf(l)
		l = laneOf(l.ID, key)
		if l.Band.ID, err = t.findBand(l.Band); err != nil {
			return l, err
		}
		put(&t.kept.lanes, l.ID, l)
		return l, t.write(`INSERT INTO penstock.lane (id, key, band, grp, draws, state, next_at, gate, vtime) VALUES ($1, $2, $3, $4, $5, 0, 0, $6, 0)`,
			l.ID, hashLane(key), l.Band.ID, l.Group, encodeDraws(l.Draws), l.Gate)
	}
	there[0].State = engine.LaneEmpty
	return there[0], t.SaveLane(there[0])
}

// findBand returns the id of the oldest band with the key, and makes one if there is none.
func (t *tx) findBand(b engine.Band) (id int64, err error) {
	args := []any{b.Load, b.Kind, b.Run, b.Queue, b.Priority, b.Suspect}
	found, err := t.one(`SELECT id FROM penstock.band WHERE load = $1 AND kind = $2 AND run = $3 AND queue = $4 AND priority = $5 AND suspect = $6
		ORDER BY id + 0 LIMIT 1`, func(s scan) error { return s(&id) }, args...) // by its key, not by going through the ids
	if err != nil || found {
		return id, err
	}
	t.kept.moved()
	_, err = t.one(`INSERT INTO penstock.band (load, kind, run, queue, priority, suspect) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`,
		func(s scan) error { return s(&id) }, args...)
	return id, err
}

// Lanes leaves missing ones zero.
func (t *tx) Lanes(ids []int64) ([]engine.Lane, error) {
	if missing := unknown(ids, t.kept.lanes); len(missing) > 0 {
		if err := t.ask([]statement{t.lanesByID(missing)}); err != nil {
			return nil, err
		}
	}
	lanes := make([]engine.Lane, len(ids))
	for i, id := range ids {
		lanes[i] = t.kept.lanes[id]
		lanes[i].Draws = append([]dispatch.Draw(nil), lanes[i].Draws...)
	}
	return lanes, nil
}

func (t *tx) lanesByID(ids []int64) statement {
	return t.lanes(new([]engine.Lane), sqlLanesByID, ids)
}

const sqlLanesByID = sqlLanesOf + ` WHERE l.id = ANY($1::bigint[])`

func (t *tx) SaveLane(l engine.Lane) error {
	put(&t.kept.lanes, l.ID, l)
	put(&t.dirty.lanes, l.ID, l)
	t.kept.moved()
	return nil
}

func (t *tx) flushLanes(lanes []engine.Lane) {
	n := len(lanes)
	ids, states, next := make([]int64, n), make([]int16, n), make([]int64, n)
	gates, vtimes := make([]string, n), make([]int64, n)
	floorAts, floorIDs := make([]int64, n), make([]int64, n)
	for i, l := range lanes {
		ids[i], states[i], next[i], gates[i], vtimes[i] = l.ID, int16(l.State), l.NextAt, l.Gate, l.VTime
		floorAts[i], floorIDs[i] = l.FloorAt, l.FloorID
	}
	_ = t.write(`UPDATE penstock.lane l SET state = u.state, next_at = u.next_at, gate = u.gate, vtime = u.vtime, floor_at = u.floor_at, floor_id = u.floor_id
		FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]) u (id, state, next_at, gate, vtime, floor_at, floor_id)
		WHERE l.id = ANY (ARRAY[u.id])`, ids, states, next, gates, vtimes, floorAts, floorIDs)
}

func (t *tx) SleepingLanes(at int64, n int) ([]engine.Lane, error) {
	if lanes, ok := take(&t.kept.sleepers); ok {
		due := lanes[:0]
		for _, l := range lanes {
			if l.NextAt <= at {
				due = append(due, l)
			}
		}
		slices.SortFunc(due, func(a, b engine.Lane) int { return cmp.Or(cmp.Compare(a.NextAt, b.NextAt), cmp.Compare(a.ID, b.ID)) })
		return due[:min(n, len(due))], nil
	}
	return t.listLanes(sqlSleepingLanes, at, n)
}

const sqlSleepingLanes = sqlLanesOf + ` WHERE l.state = 2 AND l.next_at <= $1 ORDER BY l.next_at, l.id LIMIT $2`

func (t *tx) NextSleeper(bands []int64) (at int64, err error) {
	if firsts, ok := t.firstsOf(bands); ok {
		return firsts.sleeper, nil
	}
	q := earliest(&at, `SELECT min(next_at) FROM penstock.lane WHERE state = 2`)
	if bands != nil {
		q = earliest(&at, sqlNextSleeperOf, bands)
	}
	return at, t.ask([]statement{q})
}

// earliest is a query for one instant, limit.Never if there is none.
func earliest(into *int64, sql string, args ...any) statement {
	*into = limit.Never
	return statement{sql: sql, args: args, each: func(s scan) error {
		var at *int64
		err := s(&at)
		if at != nil {
			*into = *at
		}
		return err
	}}
}

const sqlNextSleeperOf = `SELECT min(f.next_at) FROM unnest($1::bigint[]) e (band) CROSS JOIN LATERAL
	(SELECT l.next_at FROM penstock.lane l WHERE l.band = e.band AND l.state = 2 ORDER BY l.next_at LIMIT 1) f`

func (t *tx) ReadyLanes(band int64, limit string, n int) ([]engine.Lane, error) {
	if p, ok := pick(t.kept.lined, engine.GateKey{Band: band, Limit: limit}); ok {
		if lanes, ok := p.first(n); ok {
			return lanes, nil
		}
	}
	return t.listLanes(sqlLanesOf+` WHERE l.band = $1 AND l.gate = $2 AND l.state = 1 ORDER BY l.vtime, l.id LIMIT $3`, band, limit, n)
}

func (t *tx) LanePage(after int64, n int) ([]engine.Lane, error) {
	return t.listLanes(sqlLanesOf+` WHERE l.id > $1 ORDER BY l.id LIMIT $2`, after, n)
}

func (t *tx) BandLanes(band, after int64, n int) ([]engine.Lane, error) {
	return t.listLanes(sqlLanesOf+` WHERE l.band = $1 AND l.id + 0 > $2 ORDER BY l.id + 0 LIMIT $3`, band, after, n)
}

// FirstDue does not rely on the lane's floor: who checks a lane asks here. A claim
// reads ahead, and does.
func (t *tx) FirstDue(lane int64) (at int64, found bool, err error) {
	if m, ok := pick(t.kept.firstDue, lane); ok {
		return m.row, m.found, nil
	}
	found, err = t.one(`SELECT at FROM penstock.job WHERE lane = $1 AND state = 1 ORDER BY at, id LIMIT 1`,
		func(s scan) error { return s(&at) }, lane)
	return at, found, err
}

// FirstAfter is mostly known by the picture of a claim.
func (t *tx) FirstAfter(lane, after int64) (at int64, found bool, err error) {
	if m, ok := t.kept.later[lane]; ok {
		return m.row, m.found, nil
	}
	found, err = t.one(sqlFirstAfters, func(s scan) error { return s(&lane, &at) }, []int64{lane}, after)
	return at, found, err
}

const sqlFirstAfters = `SELECT e.lane, j.at FROM unnest($1::bigint[]) e (lane) CROSS JOIN LATERAL
	(SELECT f.at FROM penstock.job f WHERE f.lane = e.lane AND f.state = 1 AND f.at > $2 ORDER BY f.at, f.id LIMIT 1) j`

const sqlFirstDues = `SELECT e.lane, j.at FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) e (lane, floor_at, floor_id) CROSS JOIN LATERAL
	(SELECT f.at FROM penstock.job f WHERE f.lane = e.lane AND f.state = 1 AND (f.at, f.id) >= (e.floor_at, e.floor_id) ORDER BY f.at, f.id LIMIT 1) j`

// floors are those of the lanes, as far as they were read.
func (t *tx) floors(lanes []int64) (ats, ids []int64) {
	ats, ids = make([]int64, len(lanes)), make([]int64, len(lanes))
	for i, id := range lanes {
		l := t.kept.lanes[id]
		ats[i], ids[i] = l.FloorAt, l.FloorID
	}
	return ats, ids
}

func (t *tx) CountAhead(lane, at, id int64) (n int64, err error) {
	_, err = t.one(`SELECT count(*) FROM penstock.job WHERE lane = $1 AND state = 1 AND (at, id) < ($2, $3)`,
		func(s scan) error { return s(&n) }, lane, at, id)
	return n, err
}
