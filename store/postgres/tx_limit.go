package postgres

import (
	"slices"
	"strings"

	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) LimitRow(name string) (engine.LimitRow, bool, error) {
	if m, ok := t.kept.specs[name]; ok {
		return m.row, m.found, nil
	}
	r := engine.LimitRow{Name: name}
	found, err := t.one(`SELECT declared, set_spec FROM penstock.limit_spec WHERE name = $1`, func(s scan) error { return s(&r.Declared, &r.Set) }, name)
	if err != nil || !found {
		return engine.LimitRow{}, false, err
	}
	put(&t.kept.specs, name, maybe[engine.LimitRow]{r, true})
	return r, true, nil
}

// limits is a query for states and specs of limits, and the specs of their patterns.
func (t *tx) limits(sql string, args ...any) statement {
	return statement{sql: sql, args: args, each: func(s scan) error {
		var name string
		var state []byte
		var declared, set, patternDeclared, patternSet *string
		if err := s(&name, &state, &declared, &set, &patternDeclared, &patternSet); err != nil {
			return err
		}
		if _, ok := t.kept.states[name]; !ok {
			put(&t.kept.states, name, state)
		}
		t.keepSpec(name, declared, set)
		if base, _, ok := strings.Cut(name, "/"); ok {
			t.keepSpec(base+"/*", patternDeclared, patternSet)
		}
		return nil
	}}
}

func (t *tx) keepSpec(name string, declared, set *string) {
	if _, ok := t.kept.specs[name]; ok {
		return
	}
	m := maybe[engine.LimitRow]{found: declared != nil && set != nil}
	if m.found {
		m.row = engine.LimitRow{Name: name, Declared: *declared, Set: *set}
	}
	put(&t.kept.specs, name, m)
}

func (t *tx) limitsByName(names []string) statement { return t.limits(sqlLimitsByName, names) }

const (
	sqlLimitsByName = sqlLimits + `(SELECT unnest($1::text[])) n (name)` + sqlLimitParts
	sqlLimits       = `SELECT n.name, s.state, r.declared, r.set_spec, p.declared, p.set_spec FROM `
	sqlLimitParts   = ` LEFT JOIN penstock.limit_state s ON s.name = ANY (ARRAY[n.name]) LEFT JOIN penstock.limit_spec r ON r.name = ANY (ARRAY[n.name])
		LEFT JOIN penstock.limit_spec p ON p.name = ANY (ARRAY[split_part(n.name, '/', 1) || '/*'])`
)

func (t *tx) SaveLimitRow(r engine.LimitRow) error {
	put(&t.kept.specs, r.Name, maybe[engine.LimitRow]{r, true})
	return t.write(`INSERT INTO penstock.limit_spec (name, declared, set_spec) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET declared = excluded.declared, set_spec = excluded.set_spec`, r.Name, r.Declared, r.Set)
}

func (t *tx) LimitRows(after string, n int) (rows []engine.LimitRow, err error) {
	err = t.read(`SELECT name, declared, set_spec FROM penstock.limit_spec WHERE name > $1 ORDER BY name LIMIT $2`, func(s scan) error {
		var r engine.LimitRow
		err := s(&r.Name, &r.Declared, &r.Set)
		rows = append(rows, r)
		return err
	}, after, n)
	return rows, err
}

func (t *tx) LimitState(name string) ([]byte, error) {
	if state, ok := t.kept.states[name]; ok {
		return state, nil
	}
	var state []byte
	_, err := t.one(`SELECT state FROM penstock.limit_state WHERE name = $1`, func(s scan) error { return s(&state) }, name)
	if err == nil {
		put(&t.kept.states, name, state)
	}
	return state, err
}

func (t *tx) SaveLimitState(name string, state []byte) error {
	state = slices.Clone(state)
	put(&t.kept.states, name, state)
	put(&t.dirty.limits, name, state)
	return nil
}

func (t *tx) flushLimits(states map[string][]byte) {
	names := make([]string, 0, len(states))
	for name := range states {
		names = append(names, name)
	}
	slices.Sort(names)
	var gone, kept []string
	var values [][]byte
	for _, name := range names {
		if states[name] == nil {
			gone = append(gone, name)
			continue
		}
		kept, values = append(kept, name), append(values, states[name])
	}
	if len(gone) > 0 {
		_ = t.write(`DELETE FROM penstock.limit_state WHERE name = ANY ($1::text[])`, gone)
	}
	if len(kept) > 0 {
		_ = t.write(`INSERT INTO penstock.limit_state (name, state) SELECT * FROM unnest($1::text[], $2::bytea[])
			ON CONFLICT (name) DO UPDATE SET state = excluded.state`, kept, values)
	}
}

func (t *tx) LimitStates(after string, n int) (names []string, err error) {
	err = t.read(`SELECT name FROM penstock.limit_state WHERE name > $1 ORDER BY name LIMIT $2`, collect(&names), after, n)
	return names, err
}
