package postgres

import (
	"slices"

	"github.com/penstockhq/penstock/store/engine"
)

// A claim first brings lanes up to date, whose time has come or of which something was
// announced, and then looks at lanes, these among them. To read in one trip what both
// take, the server notes which ones they are, in settings that end with the transaction:
// lanes with the first instant that was announced of each, and limits of which
// starts have ended.
const (
	sqlMarkWoken = `WITH ` + sqlFirstWakes + `,
		s AS MATERIALIZED (SELECT id FROM penstock.lane WHERE state = 2 AND next_at <= ` + sqlNow + ` ORDER BY next_at, id LIMIT $3),
		a AS (SELECT lane, min(at) AS at FROM (SELECT lane, at FROM w WHERE lane <> 0 UNION ALL SELECT id, 9223372036854775807 FROM s) u GROUP BY lane)
		SELECT set_config('penstock_claim.lanes', coalesce(array_agg(lane ORDER BY lane), '{}')::text, true),
			set_config('penstock_claim.ats', coalesce(array_agg(at ORDER BY lane), '{}')::text, true),
			set_config('penstock_claim.limits', (SELECT coalesce(array_agg(DISTINCT limit_name), '{}')::text FROM w WHERE limit_name <> ''), true) FROM a`
	sqlMarkNone = `SELECT set_config('penstock_claim.lanes', '{}', true), set_config('penstock_claim.ats', '{}', true), set_config('penstock_claim.limits', '{}', true),
		set_config('penstock_claim.now', $1::bigint::text, true)`

	sqlNow   = `current_setting('penstock_claim.now')::bigint`
	sqlWoken = `unnest(current_setting('penstock_claim.lanes')::bigint[], current_setting('penstock_claim.ats')::bigint[]) w (id, at)`

	sqlWokenLanes = `SELECT ` + laneColumns + `, ` + sqlLater + `, w.at, g.opens_at, g.vclock, EXISTS (SELECT 1 FROM penstock.queue q WHERE q.name = b.queue)
		FROM ` + sqlWoken + ` JOIN penstock.lane l ON l.id = ANY (ARRAY[w.id]) JOIN penstock.band b ON b.id = ANY (ARRAY[l.band])
		LEFT JOIN penstock.gate g ON g.limit_name = ANY (ARRAY[l.gate]) AND g.band = ANY (ARRAY[l.band])`
)

// markWoken has the server note the first lanes of which something was announced, and
// the first ones whose time has come.
func (t *tx) markWoken(wakes, alike, sleepers int) statement {
	return statement{sql: sqlMarkWoken, args: []any{wakes, alike, sleepers}}
}

// wokenLanes reads the lanes that were noted, together with their gates, whether their
// queues are paused, and the first jobs that come later.
func (t *tx) wokenLanes(s *sight) statement {
	t.kept.sleepers = new([]engine.Lane)
	return statement{sql: sqlWokenLanes, each: func(sc scan) error {
		var at int64
		var next, opensAt, vclock *int64
		var paused bool
		l, err := readLane(func(lane ...any) error { return sc(append(lane, &next, &at, &opensAt, &vclock, &paused)...) })
		if err != nil {
			return err
		}
		put(&t.kept.lanes, l.ID, l)
		t.keepLater(l.ID, next)
		if l.State == engine.LaneSleeping {
			*t.kept.sleepers = append(*t.kept.sleepers, l)
		}
		key := engine.GateKey{Band: l.Band.ID, Limit: l.Gate}
		g := maybe[engine.Gate]{found: opensAt != nil && vclock != nil}
		if g.found {
			g.row = engine.Gate{Band: l.Band.ID, Limit: l.Gate, OpensAt: *opensAt, VClock: *vclock}
		}
		put(&t.kept.gates, key, g)
		s.before[key] = g
		if !paused {
			put(&t.kept.unpaused, l.Band.Queue, true)
		}
		from := floor{l.FloorAt, l.FloorID}
		if at <= from.at {
			from = floor{at, 0}
		}
		s.jobsFrom(l.ID, from)
		return nil
	}}
}

// seeSoon reads what the picture of a claim will be made of: lanes that are about to
// wake, and what stands at the gates of the bands that the last claim of this worker
// served. sawSoon then finds out whether that was right.
func (t *tx) seeSoon(worker string, p engine.PictureAsk) []statement {
	p.Bands = t.guess.bands(worker)
	s := t.newSight(p)
	s.worker, s.firsts = worker, t.kept.firsts
	t.soon = s
	return append([]statement{t.wokenLanes(s)}, t.sight(s)...)
}

// sawSoon reports whether the picture is known from what seeSoon read and from what was
// written since, and then keeps it.
func (t *tx) sawSoon(p *engine.PictureAsk) bool {
	s := t.soon
	t.soon = nil
	if s == nil {
		return false
	}
	t.guess.serve(s.worker, p.Bands)
	if p.Now != t.now || !s.readAll(p.Bands) {
		return false
	}
	gates, ok := t.openNow(s, p)
	if !ok {
		return false
	}
	lanes, ok := t.linedUpNow(s, p, gates)
	if !ok {
		return false
	}
	t.keepPicture(s, p, gates, lanes)
	waited := func(at int64) bool { return at > p.At() && at <= p.Until() }
	for key, g := range t.dirty.gates {
		if waited(g.OpensAt) || waited(s.before[key].row.OpensAt) {
			delete(t.kept.awaited, key.Limit)
		}
	}
	return true
}

// readAll reports whether the gates of these bands were read, in this order, as far as
// there were any, and no others.
func (s *sight) readAll(bands []int64) bool {
	read := slices.DeleteFunc(slices.Clone(s.ask.Bands), func(b int64) bool { _, there := s.firsts[b]; return !there })
	asked := slices.DeleteFunc(slices.Clone(bands), func(b int64) bool { _, there := s.firsts[b]; return !there })
	// The queue of a band that was not listed may be paused.
	others := slices.ContainsFunc(s.gates, func(g engine.Gate) bool { return !slices.Contains(bands, g.Band) })
	return slices.Equal(read, asked) && !others
}
