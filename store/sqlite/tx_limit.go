package sqlite

import "github.com/penstockhq/penstock/store/engine"

func (t *tx) LimitRow(name string) (l engine.LimitRow, found bool, err error) {
	found, err = one(t, func(r row) {
		l = engine.LimitRow{Name: name, Declared: r.text(0), Set: r.text(1)}
	}, sqlLimitRow, name)
	return l, found, err
}

const sqlLimitRow = `SELECT declared, set_spec FROM penstock_limit WHERE name = ?`

func (t *tx) SaveLimitRow(l engine.LimitRow) error {
	return t.exec(`INSERT INTO penstock_limit (name, declared, set_spec) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET declared = excluded.declared, set_spec = excluded.set_spec`, l.Name, l.Declared, l.Set)
}

func (t *tx) LimitRows(after string, n int) ([]engine.LimitRow, error) {
	var rows []engine.LimitRow
	err := t.query(func(r row) {
		rows = append(rows, engine.LimitRow{Name: r.text(0), Declared: r.text(1), Set: r.text(2)})
	}, `SELECT name, declared, set_spec FROM penstock_limit WHERE name > ? ORDER BY name LIMIT 0+?`, after, int64(n))
	return rows, err
}

func (t *tx) LimitState(name string) (state []byte, err error) {
	_, err = one(t, func(r row) { state = r.blob(0) }, sqlLimitState, name)
	return state, err
}

const sqlLimitState = `SELECT state FROM penstock_limit_state WHERE name = ?`

func (t *tx) SaveLimitState(name string, state []byte) error {
	if state == nil {
		return t.exec(`DELETE FROM penstock_limit_state WHERE name = ?`, name)
	}
	return t.exec(`INSERT INTO penstock_limit_state (name, state) VALUES (?, ?) ON CONFLICT DO UPDATE SET state = excluded.state`, name, state)
}

func (t *tx) LimitStates(after string, n int) ([]string, error) {
	var names []string
	err := t.query(func(r row) { names = append(names, r.text(0)) },
		`SELECT name FROM penstock_limit_state WHERE name > ? ORDER BY name LIMIT 0+?`, after, int64(n))
	return names, err
}
