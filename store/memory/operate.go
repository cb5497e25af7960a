package memory

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) Counter(name string) (int64, error) { return t.counters[name], nil }

func (t *tx) SetCounter(name string, n int64) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	put(t, t.counters, name, n)
	return nil
}

func (t *tx) Counters(names []string) (map[string]int64, error) {
	out := make(map[string]int64)
	for _, name := range names {
		if n, ok := t.counters[name]; ok {
			out[name] = n
		}
	}
	return out, nil
}

func (t *tx) DropCounters(prefix string, n int64) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for name, value := range t.counters {
		if value < n && strings.HasPrefix(name, prefix) {
			del(t, t.counters, name)
		}
	}
	return nil
}

func (t *tx) AddNote(n store.Note, notesKept int) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	n.ID = t.next(&t.lastNote)
	put(t, t.notes, n.ID, n)
	del(t, t.notes, n.ID-int64(notesKept))
	return nil
}

func (t *tx) Notes(subject string, n int) ([]store.Note, error) {
	var out []store.Note
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(t.notes))) {
		if note := t.notes[id]; len(out) < n && (subject == "" || note.Subject == subject) {
			out = append(out, note)
		}
	}
	return out, nil
}

func (t *tx) CountAtGates(at int64) (map[string]int64, error) {
	counts := make(map[string]int64)
	t.visible(func(j *engine.Job, l engine.Lane, _ engine.Band) {
		if j.State == store.Waiting && j.At <= at && l.State == engine.LaneReady && l.Gate != "" {
			counts[l.Gate]++
		}
	})
	return counts, nil
}

func (t *tx) CountDue(at int64) ([]store.Unserved, error) {
	counts := make(map[store.Unserved]int64)
	t.visible(func(j *engine.Job, _ engine.Lane, b engine.Band) {
		if j.State == store.Waiting && j.At <= at {
			counts[store.Unserved{Queue: b.Queue, Kind: b.Kind, Run: b.Run}]++
		}
	})
	var out []store.Unserved
	for u, n := range counts {
		u.Due = n
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b store.Unserved) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Run, b.Run))
	})
	return out, nil
}

func (t *tx) RecentEnds(since int64, n int) (map[string]store.Flow, error) {
	flows := make(map[string]store.Flow)
	ids := slices.Sorted(maps.Keys(t.ended))
	for _, id := range ids[max(0, len(ids)-n):] {
		j := t.ended[id]
		if j.FinishedAt < since || j.State == store.Cancelled {
			continue
		}
		queue := t.bands[t.lanes[j.Lane].Band.ID].Queue
		f := flows[queue]
		if f.Ended++; f.First == 0 || j.FinishedAt < f.First {
			f.First = j.FinishedAt
		}
		flows[queue] = f
	}
	return flows, nil
}

func (t *tx) Newest() (int64, error) {
	newest, last := int64(0), int64(0)
	for _, m := range []map[int64]*engine.Job{t.hot, t.ended} {
		for id, j := range m {
			if last = max(last, id); id == last {
				newest = max(newest, j.EnqueuedAt)
			}
			if j.State == store.Done || j.State == store.Cancelled {
				newest = max(newest, j.FinishedAt)
			}
		}
	}
	return newest, nil
}

func (t *tx) UnusedLanes() ([]int64, error) {
	used := make(map[int64]bool)
	for _, m := range []map[int64]*engine.Job{t.hot, t.ended} {
		for _, j := range m {
			used[j.Lane] = true
		}
	}
	var ids []int64
	for id, l := range t.lanes {
		if l.State == engine.LaneRetired && !used[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (t *tx) DropLanes(ids []int64) (n int, err error) {
	if err := t.mayWrite(); err != nil {
		return 0, err
	}
	for _, id := range ids {
		l, ok := t.lanes[id]
		if !ok || l.State != engine.LaneRetired {
			continue
		}
		del(t, t.lanes, id)
		del(t, t.laneIDs, laneName(l.Band.ID, store.LaneKey{Group: l.Group, Draws: l.Draws}))
		remove(t, t.ofBand, l.Band.ID, entry{0, id})
		n++
	}
	return n, nil
}

func (t *tx) UnusedGates() ([]engine.Gate, error) {
	used := make(map[gateKey]bool)
	for _, l := range t.lanes {
		if len(l.Draws) == 0 {
			used[gateKey{l.Band.ID, ""}] = true
		}
		for _, d := range l.Draws {
			used[gateKey{l.Band.ID, d.Limit}] = true
		}
	}
	var out []engine.Gate
	for band, l := range t.gates {
		for _, g := range l.gates {
			if g.OpensAt == engine.Empty && !used[gateKey{band, g.Limit}] {
				out = append(out, g)
			}
		}
	}
	return out, nil
}

func (t *tx) DropGates(gates []engine.Gate) (n int, err error) {
	if err := t.mayWrite(); err != nil {
		return 0, err
	}
	for _, g := range gates {
		l := t.gates[g.Band]
		i, found := l.find(g.Limit)
		if !found || l.gates[i].OpensAt != engine.Empty {
			continue
		}
		old := l.gates[i]
		t.undo = append(t.undo, func() { l.set(old) })
		l.remove(g.Limit)
		n++
	}
	return n, nil
}

func (t *tx) DropBands() (n int, err error) {
	if err := t.mayWrite(); err != nil {
		return 0, err
	}
	for id, b := range t.bands {
		if len(t.ofBand[id].all()) > 0 || len(t.gates[id].all()) > 0 {
			continue
		}
		del(t, t.bands, id)
		remove(t, t.bandIDs, keyOf(b), entry{0, id})
		n++
	}
	return n, nil
}
