package postgres

import (
	"fmt"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store/engine"
)

// configs are the ways in which the limits of lanes are configured, each once: a
// hundred thousand lanes with a key each mostly have one pattern.
type configs struct {
	all []config
	ids map[string]configID // by the rows' text
}

// config is how the limits of a lane's draws are configured, draw by draw: by the
// rows against which the engine has checked them.
type config []limitConfig

// limitConfig is how one limit is configured: by a row of its own, or, where there is
// none, by that of its pattern.
type limitConfig struct {
	own           bool
	declared, set string
}

// configID names a config; 0: none.
type configID uint32

// of returns the config of draws by what a transaction has read, 0 if it has not read all.
func (c *configs) of(draws []dispatch.Draw, read map[string]maybe[engine.LimitRow]) configID {
	if len(draws) == 0 {
		return 0
	}
	config := make(config, len(draws))
	text := ""
	for i, d := range draws {
		row, asked := read[d.Limit]
		own := row.found
		if !own {
			row = read[engine.PatternOf(d.Limit)]
		}
		if !asked || !row.found {
			return 0
		}
		config[i] = limitConfig{own, row.row.Declared, row.row.Set}
		text += fmt.Sprintf("%t %q %q ", own, row.row.Declared, row.row.Set)
	}
	id, known := c.ids[text]
	if !known {
		c.all = append(c.all, config)
		id = configID(len(c.all))
		put(&c.ids, text, id)
	}
	return id
}

// rows returns the rows that configure the limits of draws; one without Declared and Set
// says that there is no such row.
func (c *configs) rows(id configID, draws []dispatch.Draw) (rows []engine.LimitRow) {
	if id == 0 {
		return nil
	}
	for i, l := range c.all[id-1] {
		name := draws[i].Limit
		if !l.own {
			rows = append(rows, engine.LimitRow{Name: name})
			name = engine.PatternOf(name)
		}
		rows = append(rows, engine.LimitRow{Name: name, Declared: l.declared, Set: l.set})
	}
	return rows
}
