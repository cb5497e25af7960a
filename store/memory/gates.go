package memory

import (
	"strings"

	"cmp"
	"slices"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) Bands(kinds []string, run string, queues []string) ([]engine.Band, error) {
	var out []engine.Band
	for _, b := range t.bands {
		_, paused := t.queues[b.Queue]
		switch {
		case paused || b.Load != "" || run != "" && b.Run != run:
		case kinds != nil && !slices.Contains(kinds, b.Kind):
		case queues != nil && !slices.Contains(queues, b.Queue):
		case !t.active(b.ID):
		default:
			out = append(out, b)
		}
	}
	sortBands(out)
	return out, nil
}

// active reports whether anything waits in the band, as its gates and sleeping
// lanes tell.
func (t *tx) active(band int64) bool {
	for l := range t.gatesOf[band] {
		if t.gates[gateKey{band, l}].OpensAt != engine.Empty {
			return true
		}
	}
	return t.asleep[band] > 0
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

func (t *tx) Gate(band int64, limit string) (engine.Gate, bool, error) {
	g, ok := t.gates[gateKey{band, limit}]
	return g, ok, nil
}

func (t *tx) SaveGate(g engine.Gate) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	k := gateKey{g.Band, g.Limit}
	if old, ok := t.gates[k]; ok && old == g {
		return nil
	}
	put(t, t.gates, k, g)
	if t.gatesOf[g.Band] == nil {
		t.gatesOf[g.Band] = make(map[string]bool) // empty, it means nothing
	}
	put(t, t.gatesOf[g.Band], g.Limit, true)
	return nil
}

// gatesBy returns the band's gates that keep to the rule, earliest first.
func (t *tx) gatesBy(band int64, keep func(engine.Gate) bool) []engine.Gate {
	var out []engine.Gate
	for l := range t.gatesOf[band] {
		if g := t.gates[gateKey{band, l}]; keep(g) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b engine.Gate) int {
		return cmp.Or(cmp.Compare(a.OpensAt, b.OpensAt), cmp.Compare(a.Limit, b.Limit))
	})
	return out
}

func (t *tx) OpenGates(band, at int64, n int) ([]engine.Gate, error) {
	gs := t.gatesBy(band, func(g engine.Gate) bool { return g.OpensAt <= at })
	return gs[:min(n, len(gs))], nil
}

func (t *tx) NextGate(bands []int64, at int64) (int64, error) {
	next := int64(limit.Never)
	for _, b := range bands {
		for l := range t.gatesOf[b] {
			if g := t.gates[gateKey{b, l}]; g.OpensAt > at {
				next = min(next, g.OpensAt)
			}
		}
	}
	return next, nil
}

func (t *tx) WakeGates(limit string, at int64) error {
	prefix, isPattern := strings.CutSuffix(limit, "*")
	for k, g := range t.gates {
		if (k.limit == limit || isPattern && strings.HasPrefix(k.limit, prefix)) && g.OpensAt > at && g.OpensAt != engine.Empty {
			g.OpensAt = at
			if err := t.SaveGate(g); err != nil {
				return err
			}
		}
	}
	return t.mayWrite()
}
