package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Overlaps is true: inserts, effects, heartbeats and most finishes run side by side.
func (d *db) Overlaps() bool { return true }

// parts is a lane's key, as a wake carries it.
type parts struct {
	Queue    string `json:"q"`
	Kind     string `json:"k"`
	Priority int    `json:"p"`
	Run      string `json:"r,omitempty"`
	Load     string `json:"l,omitempty"`
	Suspect  bool   `json:"s,omitempty"`
	Group    string `json:"g,omitempty"`
	Draws    string `json:"d,omitempty"`
}

func encodeParts(k *store.LaneKey) (string, error) {
	text, err := json.Marshal(parts{k.Queue, k.Kind, k.Priority, k.Run, k.Load, k.Suspect, k.Group, encodeDraws(k.Draws)})
	return string(text), err
}

func (t *tx) AddWake(w engine.Wake) error {
	key := keyOf(w.Lane)
	text, err := encodeParts(&key)
	if err != nil {
		return err
	}
	return t.write(`INSERT INTO penstock.wake (lane, at, parts) VALUES ($1, $2, $3)`, w.Lane.ID, w.At, text)
}

func (t *tx) TakeWakes(n int) ([]engine.Wake, bool, error) {
	w, ok := take(&t.kept.wakes)
	if !ok {
		if err := t.ask([]statement{t.takeWakes(n, t.guess.alike(n))}); err != nil {
			return nil, false, err
		}
		w, _ = take(&t.kept.wakes)
	}
	t.guess.tookWakes(w.repeats)
	return w.list, w.more, nil
}

// takeWakes removes announcements of n lanes and limits, among the first most. Nobody else
// does, so no row is locked.
func (t *tx) takeWakes(n, most int) statement {
	w := &wakes{asked: time.Now()}
	t.kept.wakes, t.took = w, w
	taken, kinds := 0, 0
	return statement{sql: sqlTakeWakes, args: []any{n, most}, each: func(s scan) error {
		var lane, at int64
		var end engine.Wake
		var rows int
		var text string
		if err := s(&lane, &end.Limit, &rows, &at, &text, &end.Ended, &end.PassedAt, &end.Slot); err != nil {
			return err
		}
		taken, kinds = taken+rows, kinds+1
		w.more = kinds >= n || taken >= most
		w.repeats = taken >= most && kinds < n
		if end.Limit != "" {
			w.list = append(w.list, end)
			return nil
		}
		var p parts
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return fmt.Errorf("stored wake of lane %d: %w", lane, err)
		}
		draws, err := decodeDraws(p.Draws)
		if err != nil {
			return err
		}
		w.list = append(w.list, engine.Wake{At: at, Lane: engine.Lane{ID: lane, Group: p.Group, Draws: draws,
			Band: engine.Band{Queue: p.Queue, Kind: p.Kind, Priority: p.Priority, Run: p.Run, Load: p.Load, Suspect: p.Suspect}}})
		return nil
	}}
}

// sqlFirstWakes are the first announcements, as w: of $1 lanes and limits at most, and of
// the first $2 that there are. A lane that gets job after job must not hide the others.
const sqlFirstWakes = `f AS MATERIALIZED (SELECT id, lane, at, limit_name FROM penstock.wake ORDER BY id LIMIT $2),
		k AS MATERIALIZED (SELECT lane, limit_name FROM f GROUP BY lane, limit_name ORDER BY min(id) LIMIT $1),
		w AS MATERIALIZED (SELECT * FROM f WHERE lane <> 0 AND lane = ANY (ARRAY(SELECT lane FROM k)) OR limit_name <> '' AND limit_name = ANY (ARRAY(SELECT limit_name FROM k)))`

const sqlTakeWakes = `WITH ` + sqlFirstWakes + `, gone AS (DELETE FROM penstock.wake WHERE id = ANY (ARRAY(SELECT id FROM w)) RETURNING lane, at, parts, limit_name, ended, passed_at, slot)
	SELECT lane, limit_name, count(*), min(at), min(parts), sum(ended)::bigint, max(passed_at), max(slot) FROM gone GROUP BY lane, limit_name ORDER BY lane, limit_name`

func (t *tx) Announced(lane int64) (bool, error) {
	if there, ok := take(&t.kept.announced); lane == engine.AnyLane && ok {
		return there, nil
	}
	if err := t.ask([]statement{t.announced(lane)}); err != nil {
		return false, err
	}
	there, _ := take(&t.kept.announced)
	return there, nil
}

func (t *tx) announced(lane int64) statement {
	there := new(bool)
	t.kept.announced = there
	asked := time.Now()
	each := func(s scan) error {
		err := s(there)
		if err == nil && !*there && lane == engine.AnyLane {
			t.looked = asked
		}
		return err
	}
	switch {
	case lane == engine.AnyWake:
		return statement{sql: `SELECT EXISTS (SELECT 1 FROM penstock.wake)`, each: each}
	case lane == engine.AnyLane && t.clock != nil:
		return statement{sql: sqlAnnounced + `$1)`, args: []any{t.clock() - engine.QuietFor.Microseconds()}, each: each}
	case lane == engine.AnyLane:
		return statement{sql: sqlAnnounced + nowOnServer + ` - $1)`, args: []any{engine.QuietFor.Microseconds()}, each: each}
	}
	return statement{sql: `SELECT EXISTS (SELECT 1 FROM penstock.wake WHERE lane = $1)`, args: []any{lane}, each: each}
}

// The first ones tell enough: if all of them are quiet, their time comes soon.
const sqlAnnounced = `SELECT EXISTS (SELECT 1 FROM (SELECT lane, at FROM penstock.wake ORDER BY id LIMIT 256) w WHERE lane <> 0 OR at < `
