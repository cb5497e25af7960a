package memory

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// start is before every entry of an index.
var start = entry{at: math.MinInt64, id: math.MinInt64}

// laneName tells lanes of a band apart. The parts carry their lengths, so that
// no separator can be forged.
func laneName(band int64, key store.LaneKey) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d|%d|%s", band, len(key.Group), key.Group)
	for _, d := range key.Draws {
		fmt.Fprintf(&b, "|%d|%s|%d", len(d.Limit), d.Limit, d.Cost)
	}
	return b.String()
}

func (t *tx) FindLane(key store.LaneKey) (engine.Lane, error) {
	if err := t.mayWrite(); err != nil {
		return engine.Lane{}, err
	}
	b := engine.Band{Queue: key.Queue, Kind: key.Kind, Priority: key.Priority, Run: key.Run, Load: key.Load, Suspect: key.Suspect}
	bands := t.bandIDs[keyOf(b)].all()
	for _, e := range bands {
		if id, ok := t.laneIDs[laneName(e.id, key)]; ok {
			return t.lane(id)
		}
	}
	if len(bands) > 0 {
		b.ID = bands[0].id
	} else {
		b.ID = t.next(&t.lastBand)
		put(t, t.bands, b.ID, b)
		add(t, t.bandIDs, keyOf(b), entry{0, b.ID})
	}
	l := engine.Lane{ID: t.next(&t.lastLane), Band: engine.Band{ID: b.ID}, Group: key.Group,
		Draws: slices.Clone(key.Draws), State: engine.LaneEmpty}
	if len(l.Draws) > 0 {
		l.Gate = l.Draws[0].Limit
	}
	put(t, t.laneIDs, laneName(b.ID, key), l.ID)
	put(t, t.lanes, l.ID, l)
	add(t, t.ofBand, b.ID, entry{0, l.ID})
	return t.lane(l.ID)
}

// lane returns a copy of the row with its band.
func (t *tx) lane(id int64) (engine.Lane, error) {
	l, ok := t.lanes[id]
	if !ok {
		return engine.Lane{}, fmt.Errorf("memory store: lane %d does not exist", id)
	}
	l.Band = t.bands[l.Band.ID]
	l.Draws = slices.Clone(l.Draws)
	return l, nil
}

func (t *tx) Lanes(ids []int64) ([]engine.Lane, error) {
	ls := make([]engine.Lane, len(ids))
	for i, id := range ids {
		var err error
		if ls[i], err = t.lane(id); err != nil {
			return nil, err
		}
	}
	return ls, nil
}

func (t *tx) lanesOf(entries []entry) ([]engine.Lane, error) {
	ids := make([]int64, len(entries))
	for i, e := range entries {
		ids[i] = e.id
	}
	return t.Lanes(ids)
}

func (t *tx) SaveLane(l engine.Lane) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	old, ok := t.lanes[l.ID]
	if !ok {
		return fmt.Errorf("memory store: lane %d does not exist", l.ID)
	}
	row := old
	row.State, row.NextAt, row.Gate, row.VTime = l.State, l.NextAt, l.Gate, l.VTime
	if row.State == old.State && row.NextAt == old.NextAt && row.Gate == old.Gate && row.VTime == old.VTime {
		return nil
	}
	t.unplace(old)
	put(t, t.lanes, l.ID, row)
	t.place(row)
	return nil
}

// place puts a lane into the index that its state asks for; unplace takes it out.
func (t *tx) place(l engine.Lane) {
	switch l.State {
	case engine.LaneReady:
		add(t, t.ready, gateKey{l.Band.ID, l.Gate}, entry{l.VTime, l.ID})
	case engine.LaneSleeping:
		t.addTo(t.sleeping, entry{l.NextAt, l.ID})
		t.live(l.Band.ID, 1)
	}
}

func (t *tx) unplace(l engine.Lane) {
	switch l.State {
	case engine.LaneReady:
		remove(t, t.ready, gateKey{l.Band.ID, l.Gate}, entry{l.VTime, l.ID})
	case engine.LaneSleeping:
		t.removeFrom(t.sleeping, entry{l.NextAt, l.ID})
		t.live(l.Band.ID, -1)
	}
}

func (t *tx) SleepingLanes(at int64, n int) ([]engine.Lane, error) {
	return t.lanesOf(t.sleeping.first(start, at, n))
}

func (t *tx) NextSleeper(bands []int64) (int64, error) {
	for _, e := range t.sleeping.entries {
		if bands == nil || slices.Contains(bands, t.lanes[e.id].Band.ID) {
			return e.at, nil
		}
	}
	return limit.Never, nil
}

func (t *tx) ReadyLanes(band int64, limit string, n int) ([]engine.Lane, error) {
	return t.lanesOf(t.ready[gateKey{band, limit}].first(start, math.MaxInt64, n))
}

func (t *tx) LanePage(after int64, n int) ([]engine.Lane, error) {
	var es []entry
	for id := after + 1; id <= t.lastLane && len(es) < n; id++ {
		if _, ok := t.lanes[id]; ok {
			es = append(es, entry{0, id})
		}
	}
	return t.lanesOf(es)
}

func (t *tx) BandLanes(band, after int64, n int) ([]engine.Lane, error) {
	return t.lanesOf(t.ofBand[band].first(entry{0, after + 1}, 0, n))
}

func (t *tx) CountAhead(lane, at, id int64) (int64, error) {
	n := int64(0)
	for _, e := range t.waiting[lane].first(start, at, math.MaxInt) {
		if e.at < at || e.id < id {
			n++
		}
	}
	return n, nil
}

func (t *tx) FirstDue(lane int64) (int64, bool, error) { return t.firstFrom(lane, start) }

func (t *tx) FirstAfter(lane, at int64) (int64, bool, error) {
	return t.firstFrom(lane, entry{at + 1, math.MinInt64})
}

func (t *tx) firstFrom(lane int64, from entry) (int64, bool, error) {
	es := t.waiting[lane].first(from, math.MaxInt64, 1)
	if len(es) == 0 {
		return 0, false, nil
	}
	return es[0].at, true, nil
}
