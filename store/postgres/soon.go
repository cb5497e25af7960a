package postgres

import (
	"cmp"
	"slices"

	"github.com/penstockhq/penstock/store/engine"
)

// openNow returns the gates that are open now: those that were before lanes woke, and
// those that this transaction has opened since. ok is false where that does not tell.
func (t *tx) openNow(s *sight, p *engine.PictureAsk) (gates []engine.Gate, ok bool) {
	known := make(map[engine.GateKey]bool, len(s.gates))
	byBand := make(map[int64][]engine.Gate, len(p.Bands))
	for _, g := range s.gates {
		key := engine.GateKey{Band: g.Band, Limit: g.Limit}
		known[key] = true
		if now, moved := t.dirty.gates[key]; moved {
			if now.OpensAt > g.OpensAt {
				return nil, false // one that was not read may come before it
			}
			g = now
		}
		byBand[g.Band] = append(byBand[g.Band], g)
	}
	for key, g := range t.dirty.gates {
		if !known[key] && g.OpensAt <= p.At() {
			if was, read := s.before[key]; !read || was.found && was.row.OpensAt != engine.Empty {
				return nil, false // others may stand there
			}
			byBand[g.Band] = append(byBand[g.Band], g)
		}
	}
	order := 0 // of those that were open before
	for _, b := range p.Bands {
		slices.SortFunc(byBand[b], func(a, b engine.Gate) int {
			return cmp.Or(cmp.Compare(a.OpensAt, b.OpensAt), cmp.Compare(a.Limit, b.Limit))
		})
		for _, g := range byBand[b] {
			if known[engine.GateKey{Band: g.Band, Limit: g.Limit}] {
				was := s.gates[order]
				if cut := len(s.lanes) >= p.Lanes; cut && (was.Band != g.Band || was.Limit != g.Limit) {
					return nil, false // of the lanes that stand there not all were read
				}
				order++
			}
			gates = append(gates, g)
		}
	}
	return gates[:min(len(gates), p.Lanes)], true
}

// linedUpNow returns the lanes that stand at the gates now, likewise.
func (t *tx) linedUpNow(s *sight, p *engine.PictureAsk, gates []engine.Gate) (lanes []engine.Lane, ok bool) {
	at := make(map[engine.GateKey][]engine.Lane, len(gates))
	known := make(map[int64]bool, len(s.lanes))
	add := func(l engine.Lane) {
		key := engine.GateKey{Band: l.Band.ID, Limit: l.Gate}
		at[key] = append(at[key], l)
	}
	for _, l := range s.lanes {
		known[l.ID] = true
		if now, moved := t.dirty.lanes[l.ID]; moved {
			if now.State != engine.LaneReady || now.Gate != l.Gate || now.VTime > l.VTime {
				return nil, false // one that was not read may come before it
			}
			l = now
		}
		add(l)
	}
	for id, l := range t.dirty.lanes {
		if !known[id] && l.State == engine.LaneReady {
			add(l)
		}
	}
	for _, g := range gates {
		here := at[engine.GateKey{Band: g.Band, Limit: g.Limit}]
		slices.SortFunc(here, func(a, b engine.Lane) int { return cmp.Or(cmp.Compare(a.VTime, b.VTime), cmp.Compare(a.ID, b.ID)) })
		lanes = append(lanes, here...)
	}
	lanes = lanes[:min(len(lanes), p.Lanes)]
	for _, l := range lanes {
		from, read := s.from[l.ID]
		if !read || (floor{l.FloorAt, l.FloorID}).before(from) {
			return nil, false // a job was announced that comes before those that were read
		}
	}
	return lanes, true
}
