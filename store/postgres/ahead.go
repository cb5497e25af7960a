package postgres

import (
	"github.com/penstockhq/penstock/store/engine"
)

// Ahead reads in one trip what the engine says it will ask for, and keeps it for
// the methods that it will call.
func (t *tx) Ahead(a engine.Ahead) error {
	if t.mode == adding && len(a.NewLanes) > 0 {
		if err := t.findNewLanes(a.NewLanes); err != nil {
			return err
		}
	}
	if p := a.Picture; p != nil && len(p.Bands) > 0 && !t.sawSoon(p) && !t.noneOpen(p) {
		if err := t.seePicture(p); err != nil {
			return err
		}
	}
	if len(a.Heads) > 0 {
		t.guess.wanted(a)
		t.knownHeads(&a)
	}
	var q []statement
	q = append(q, t.aheadOfClaim(a)...)
	q = append(q, t.aheadOfPicture(a)...)
	q = append(q, t.aheadOfRows(a)...)
	if a.NewJobs > len(t.ids) {
		q = append(q, statement{sql: sqlTakeIDs, args: []any{a.NewJobs - len(t.ids)}, each: collect(&t.ids)})
	}
	if len(q) == 0 {
		return nil
	}
	if err := t.ask(q); err != nil {
		return err
	}
	t.headsAreWhole(a)
	return nil
}

func (t *tx) aheadOfClaim(a engine.Ahead) (q []statement) {
	if a.TakeWakes > 0 {
		alike := t.guess.alike(a.TakeWakes)
		q = append(q, t.markWoken(a.TakeWakes, alike, a.Sleepers), t.takeWakes(a.TakeWakes, alike))
	}
	if a.Worker != "" {
		put(&t.kept.worker, a.Worker, maybe[engine.WorkerRow]{})
		q = append(q, statement{sql: sqlWorker, args: []any{a.Worker}, each: func(s scan) error {
			w, err := readWorker(s)
			t.kept.worker[a.Worker] = maybe[engine.WorkerRow]{w, true}
			return err
		}})
	}
	if a.Announced {
		q = append(q, t.announced(engine.AnyLane))
	}
	if a.Bands != nil {
		q = append(q, t.bandsWithFirsts(a.Bands))
	}
	if a.Soon != nil {
		q = append(q, t.seeSoon(a.Worker, *a.Soon)...)
	}
	return q
}

func (t *tx) aheadOfPicture(a engine.Ahead) (q []statement) {
	if len(a.Heads) > 0 {
		q = append(q, t.headsAhead(a)...)
	}
	if len(a.FirstDue) > 0 {
		for _, id := range a.FirstDue {
			put(&t.kept.firstDue, id, maybe[int64]{})
		}
		ats, ids := t.floors(a.FirstDue)
		q = append(q, statement{sql: sqlFirstDues, args: []any{a.FirstDue, ats, ids}, each: func(s scan) error {
			var lane, at int64
			err := s(&lane, &at)
			t.kept.firstDue[lane] = maybe[int64]{at, true}
			return err
		}})
	}
	if missing := unknown(a.Later, t.kept.later); len(missing) > 0 {
		for _, id := range missing {
			put(&t.kept.later, id, maybe[int64]{})
		}
		q = append(q, statement{sql: sqlFirstAfters, args: []any{missing, a.HeadsAt}, each: func(s scan) error {
			var lane, at int64
			err := s(&lane, &at)
			t.kept.later[lane] = maybe[int64]{at, true}
			return err
		}})
	}
	return q
}

func (t *tx) aheadOfRows(a engine.Ahead) (q []statement) {
	if len(a.Jobs) > 0 {
		for _, id := range a.Jobs {
			put(&t.kept.jobs, id, nil)
		}
		q = append(q, statement{sql: sqlJobs, args: []any{a.Jobs}, each: func(s scan) error {
			j, err := readJob(s)
			if err == nil {
				t.kept.jobs[j.ID] = j
			}
			return err
		}})
	}
	if missing := unknown(a.Lanes, t.kept.lanes); len(missing) > 0 {
		q = append(q, t.lanesByID(missing))
	}
	if missing := unknown(a.Gates, t.kept.gates); len(missing) > 0 {
		q = append(q, t.gatesByKey(missing))
	}
	if missing := unknown(a.Limits, t.kept.states); len(missing) > 0 {
		q = append(q, t.limitsByName(missing))
	}
	if len(a.Unique) > 0 {
		for _, key := range a.Unique {
			put(&t.kept.holders, key, nil)
		}
		q = append(q, statement{sql: sqlHolders, args: []any{a.Unique}, each: func(s scan) error {
			j, err := readJob(s)
			if err == nil {
				t.kept.holders[j.Unique] = j
			}
			return err
		}})
	}
	if len(a.Refs) > 0 {
		for _, ref := range a.Refs {
			put(&t.kept.calls, callKey(a.Run, ref), maybe[engine.Call]{})
		}
		q = append(q, statement{sql: sqlCalls, args: []any{a.Run, a.Refs}, each: func(s scan) error {
			c := engine.Call{Run: a.Run}
			err := s(&c.Ref, &c.Job, &c.Hash, &c.Line)
			t.kept.calls[callKey(a.Run, c.Ref)] = maybe[engine.Call]{c, true}
			return err
		}})
	}
	return q
}

// unknown returns those of the keys that the map lacks, each once.
func unknown[K comparable, V any](keys []K, known map[K]V) (missing []K) {
	seen := make(map[K]bool, len(keys))
	for _, k := range keys {
		if _, ok := known[k]; !ok && !seen[k] {
			seen[k] = true
			missing = append(missing, k)
		}
	}
	return missing
}

// callKey joins a run and a call id unambiguously: neither has a NUL.
func callKey(run, ref string) string { return run + "\x00" + ref }
