package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// laneBook knows the ids of lanes that this process put jobs into lately. One
// that was removed meanwhile does no harm: the job's wake restores it.
type laneBook struct {
	d     *db
	mu    sync.Mutex
	ids   map[string]int64 // by key
	since time.Time
}

// Of what is older than this, or more than that, nothing is remembered.
const (
	lanesFor  = time.Minute
	lanesMost = 100_000
)

// forget is called when lanes are removed.
func (b *laneBook) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.ids)
}

// find returns the ids of lanes by the text of their keys. Those that the book does
// not know are looked up, and made if they are not there.
func (b *laneBook) find(ctx context.Context, keys []store.LaneKey) (map[string]int64, error) {
	ids := make(map[string]int64, len(keys))
	var missing []store.LaneKey
	b.mu.Lock()
	if time.Since(b.since) > lanesFor || len(b.ids) > lanesMost {
		b.ids, b.since = map[string]int64{}, time.Now()
	}
	for _, key := range keys {
		name := engine.KeyText(&key)
		if _, ok := ids[name]; ok {
			continue
		}
		if ids[name] = b.ids[name]; ids[name] == 0 {
			missing = append(missing, key)
		}
	}
	b.mu.Unlock()
	if len(missing) == 0 {
		return ids, nil
	}
	var lanes []engine.Lane
	err := b.d.Update(ctx, func(t engine.Tx) (err error) {
		lanes, err = t.(*tx).findLanes(missing)
		for i := range lanes {
			if lanes[i].State == engine.LaneRetired && err == nil {
				lanes[i].State = engine.LaneEmpty
				err = t.SaveLane(lanes[i])
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make the lanes of new jobs: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, key := range missing {
		name := engine.KeyText(&key)
		ids[name] = lanes[i].ID
		if key.Load == "" { // a staged one becomes another one's when its load is released
			b.ids[name] = lanes[i].ID
		}
	}
	return ids, nil
}
