package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// laneBook knows the lanes that this process put jobs into lately. One
// that was removed meanwhile does no harm: the job's wake restores it.
type laneBook struct {
	d     *db
	mu    sync.Mutex
	lanes map[string]knownLane // by key
	since time.Time
}

// knownLane is a lane of the book.
type knownLane struct {
	id int64
	// The rows that configure the limits of its draws, against which the engine has
	// checked them; without Declared: that there is no such row. None, though there
	// are draws: not known.
	rows []engine.LimitRow
}

// Of what is older than this, or more than that, nothing is remembered.
const (
	lanesFor  = time.Minute
	lanesMost = 100_000
)

// lanesAtOnce is how many lanes one transaction makes, while all others wait for it.
const lanesAtOnce = 1000

// make looks lanes up, and makes those that are not there.
func (b *laneBook) make(ctx context.Context, keys []store.LaneKey) (lanes []engine.Lane, err error) {
	err = b.d.Update(ctx, func(t engine.Tx) (err error) {
		lanes, err = t.(*tx).findLanes(keys)
		for i := range lanes {
			if lanes[i].State == engine.LaneRetired && err == nil {
				lanes[i].State = engine.LaneEmpty
				err = t.SaveLane(lanes[i])
			}
		}
		return err
	})
	return lanes, err
}

// forget is called when lanes are removed.
func (b *laneBook) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.lanes)
}

// age forgets what is old; b.mu is held.
func (b *laneBook) age() {
	if time.Since(b.since) > lanesFor || len(b.lanes) > lanesMost {
		b.lanes, b.since = map[string]knownLane{}, time.Now()
	}
}

// known returns a lane that is in the book with all that must be known to put a
// plain job there.
func (b *laneBook) known(key *store.LaneKey) (knownLane, bool) {
	name := engine.KeyText(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age()
	l := b.lanes[name]
	return l, l.id != 0 && len(l.rows) >= len(key.Draws)
}

// rowsOf returns the rows that configure the limits of draws, as a transaction has
// read them, nil if it did not.
func rowsOf(draws []dispatch.Draw, read map[string]maybe[engine.LimitRow]) (rows []engine.LimitRow) {
	for _, d := range draws {
		own, ok := read[d.Limit]
		if !ok {
			return nil
		}
		if own.found {
			rows = append(rows, own.row)
			continue
		}
		pattern := read[engine.PatternOf(d.Limit)]
		if !pattern.found {
			return nil
		}
		rows = append(rows, engine.LimitRow{Name: d.Limit}, pattern.row)
	}
	return rows
}

// find returns the ids of lanes by the text of their keys. Those that the book does
// not know are looked up, and made if they are not there. The engine has checked the
// draws of all of them, against the limits' rows that were read.
func (b *laneBook) find(ctx context.Context, keys []store.LaneKey, read map[string]maybe[engine.LimitRow]) (map[string]int64, error) {
	ids := make(map[string]int64, len(keys))
	var missing []store.LaneKey
	b.mu.Lock()
	b.age()
	for _, key := range keys {
		name := engine.KeyText(&key)
		if _, ok := ids[name]; ok {
			continue
		}
		if ids[name] = b.lanes[name].id; ids[name] == 0 {
			missing = append(missing, key)
		} else {
			b.lanes[name] = knownLane{ids[name], rowsOf(key.Draws, read)}
		}
	}
	b.mu.Unlock()
	if len(missing) == 0 {
		return ids, nil
	}
	var lanes []engine.Lane
	var err error
	for chunk := range slices.Chunk(missing, lanesAtOnce) {
		var made []engine.Lane
		if made, err = b.make(ctx, chunk); err != nil {
			break
		}
		lanes = append(lanes, made...)
	}
	if err != nil {
		return nil, fmt.Errorf("make the lanes of new jobs: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, key := range missing {
		name := engine.KeyText(&key)
		ids[name] = lanes[i].ID
		if key.Load == "" { // a staged one becomes another one's when its load is released
			b.lanes[name] = knownLane{lanes[i].ID, rowsOf(key.Draws, read)}
		}
	}
	return ids, nil
}
