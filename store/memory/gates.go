package memory

import (
	"strings"

	"cmp"
	"slices"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) Bands(kinds []string, run string, queues []string) ([]engine.Band, error) {
	out := make([]engine.Band, 0, len(t.liveBands.entries))
	for _, e := range t.liveBands.entries {
		b := t.bands[e.id]
		_, paused := t.queues[b.Queue]
		switch {
		case paused || b.Load != "" || run != "" && b.Run != run:
		case kinds != nil && !slices.Contains(kinds, b.Kind):
		case queues != nil && !slices.Contains(queues, b.Queue):
		default:
			out = append(out, b)
		}
	}
	return out, nil
}

// live notes that n more things stir in the band, or fewer: gates that are not
// empty, and lanes that sleep. Nothing waits in a band without them.
func (t *tx) live(band int64, n int) {
	was := t.stirs[band]
	put(t, t.stirs, band, was+n)
	switch {
	case was == 0 && n > 0:
		t.addTo(t.liveBands, entry{0, band})
	case was > 0 && was+n == 0:
		t.removeFrom(t.liveBands, entry{0, band})
	}
}

func sortBands(bs []engine.Band) {
	slices.SortFunc(bs, func(a, b engine.Band) int { return cmp.Compare(a.ID, b.ID) })
}

func (t *tx) LoadBands(load, run string) ([]engine.Band, error) {
	var out []engine.Band
	for _, b := range t.bands {
		if b.Load != "" && (b.Load == load || load == "" && b.Run == run) {
			out = append(out, b)
		}
	}
	sortBands(out)
	return out, nil
}

func (t *tx) ReleaseBands(ids []int64) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, id := range ids {
		b, ok := t.bands[id]
		if !ok || b.Load == "" {
			continue
		}
		remove(t, t.bandIDs, keyOf(b), entry{0, id})
		b.Load = ""
		put(t, t.bands, id, b)
		add(t, t.bandIDs, keyOf(b), entry{0, id}) // maybe beside others
	}
	return nil
}

// gateList is a band's gates by the name of their limit. A nil one is empty for
// reading.
type gateList struct{ gates []engine.Gate }

func (l *gateList) all() []engine.Gate {
	if l == nil {
		return nil
	}
	return l.gates
}

func (l *gateList) find(limit string) (i int, found bool) {
	return slices.BinarySearchFunc(l.all(), limit, func(g engine.Gate, limit string) int { return strings.Compare(g.Limit, limit) })
}

func (l *gateList) set(g engine.Gate) {
	if i, found := l.find(g.Limit); found {
		l.gates[i] = g
	} else {
		l.gates = slices.Insert(l.gates, i, g)
	}
}

func (l *gateList) remove(limit string) {
	if i, found := l.find(limit); found {
		l.gates = slices.Delete(l.gates, i, i+1)
	}
}

func (t *tx) Gate(band int64, limit string) (engine.Gate, bool, error) {
	l := t.gates[band]
	i, found := l.find(limit)
	if !found {
		return engine.Gate{}, false, nil
	}
	return l.gates[i], true, nil
}

func (t *tx) SaveGate(g engine.Gate) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	l := t.gates[g.Band]
	if l == nil {
		l = new(gateList)
		t.gates[g.Band] = l // an empty list means the same as none: nothing to undo
	}
	more := 0
	if i, found := l.find(g.Limit); found {
		old := l.gates[i]
		if old == g {
			return nil
		}
		if old.OpensAt != engine.Empty {
			more--
		}
		t.undo = append(t.undo, func() { l.set(old) })
	} else {
		t.undo = append(t.undo, func() { l.remove(g.Limit) })
	}
	l.set(g)
	if g.OpensAt != engine.Empty {
		more++
	}
	if more != 0 {
		t.live(g.Band, more)
	}
	return nil
}

func (t *tx) OpenGates(band, at int64, n int) ([]engine.Gate, error) {
	var out []engine.Gate
	for _, g := range t.gates[band].all() {
		if g.OpensAt <= at {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b engine.Gate) int {
		return cmp.Or(cmp.Compare(a.OpensAt, b.OpensAt), cmp.Compare(a.Limit, b.Limit))
	})
	return out[:min(n, len(out))], nil
}

func (t *tx) NextGate(bands []int64, at int64) (int64, error) {
	next := int64(limit.Never)
	for _, b := range bands {
		for _, g := range t.gates[b].all() {
			if g.OpensAt > at {
				next = min(next, g.OpensAt)
			}
		}
	}
	return next, nil
}

func (t *tx) NextGates(limits []string, bands []int64, at, until int64) (map[string]int64, error) {
	next := map[string]int64{}
	for _, name := range limits {
		for _, b := range bands {
			g, found, _ := t.Gate(b, name)
			if was, ok := next[name]; found && g.OpensAt > at && g.OpensAt <= until && (!ok || g.OpensAt < was) {
				next[name] = g.OpensAt
			}
		}
	}
	return next, nil
}

// NextLater looks at once.
func (t *tx) NextLater(bands []int64, at int64, then func(sleeper, gate int64)) error {
	return engine.NextNow(t, bands, at, then)
}

func (t *tx) WakeGates(limit string, at int64) error {
	prefix, isPattern := strings.CutSuffix(limit, "*")
	for _, l := range t.gates {
		for _, g := range l.gates {
			if (g.Limit == limit || isPattern && strings.HasPrefix(g.Limit, prefix)) && g.OpensAt > at && g.OpensAt != engine.Empty {
				g.OpensAt = at
				if err := t.SaveGate(g); err != nil {
					return err
				}
			}
		}
	}
	return t.mayWrite()
}
