package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// laneBook knows the lanes that this process put jobs into lately. One
// that was removed meanwhile does no harm: the job's wake restores it. There may be a
// hundred thousand, so they hold no pointers, which each collection of garbage would follow.
type laneBook struct {
	d       *db
	mu      sync.Mutex
	lanes   map[laneHash]knownLane
	configs configs // of their limits
	since   time.Time
	turn    chan struct{} // of those who look up the lane of a job to be started
}

// knownLane is a lane of the book.
type knownLane struct {
	id     int64
	config configID // 0, though the lane draws on limits: not known
}

// laneHash stands for a lane's key: half of a SHA-256 sum, which no two keys have in common.
type laneHash [16]byte

func hashOf(key *store.LaneKey) laneHash {
	sum := sha256.Sum256([]byte(engine.KeyText(key)))
	return laneHash(sum[:])
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
	b.clear()
}

func (b *laneBook) clear() {
	b.lanes, b.configs, b.since = map[laneHash]knownLane{}, configs{}, time.Now()
}

// age forgets what is old; b.mu is held.
func (b *laneBook) age() {
	if time.Since(b.since) > lanesFor || len(b.lanes) > lanesMost {
		b.clear()
	}
}

// known returns the id of a lane that is in the book with all that must be known to put
// a plain job there, and the rows of limits that must be as they were.
func (b *laneBook) known(key *store.LaneKey) (id int64, rows []engine.LimitRow, ok bool) {
	hash := hashOf(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age()
	l := b.lanes[hash]
	if l.id == 0 || l.config == 0 && len(key.Draws) > 0 {
		return 0, nil, false
	}
	return l.id, b.configs.rows(l.config, key.Draws), true
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
		hash := hashOf(&key)
		if ids[name] = b.lanes[hash].id; ids[name] == 0 {
			missing = append(missing, key)
		} else {
			b.lanes[hash] = knownLane{ids[name], b.configs.of(key.Draws, read)}
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
		ids[engine.KeyText(&key)] = lanes[i].ID
		if key.Load == "" { // a staged one becomes another one's when its load is released
			b.lanes[hashOf(&key)] = knownLane{lanes[i].ID, b.configs.of(key.Draws, read)}
		}
	}
	return ids, nil
}
