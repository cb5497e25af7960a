package postgres

import (
	"slices"
	"testing"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store/engine"
)

// TestConfigsOfLimits: lanes whose limits are configured alike have one config, which tells
// the rows that it was made of.
func TestConfigsOfLimits(t *testing.T) {
	row := func(name, declared, set string) maybe[engine.LimitRow] {
		return maybe[engine.LimitRow]{row: engine.LimitRow{Name: name, Declared: declared, Set: set}, found: true}
	}
	read := map[string]maybe[engine.LimitRow]{
		"api": row("api", "5/s", ""), "shop/*": row("shop/*", "2/s", "1/s"), "shop/big": row("shop/big", "", "9/s"),
		"shop/1": {}, "shop/2": {}, "lost/1": {}, "lost/*": {},
	}
	draws := func(names ...string) (d []dispatch.Draw) {
		for _, n := range names {
			d = append(d, dispatch.Draw{Limit: n, Cost: 1})
		}
		return d
	}
	var c configs
	of := func(names ...string) configID { return c.of(draws(names...), read) }
	for _, unknown := range [][]string{{}, {"other"}, {"api", "other"}, {"lost/1"}} {
		if id := of(unknown...); id != 0 {
			t.Errorf("%v has config %d, want none", unknown, id)
		}
	}
	one, two, own, both := of("shop/1"), of("shop/2"), of("shop/big"), of("api", "shop/1")
	if one == 0 || one != two {
		t.Errorf("two keys of one pattern have configs %d and %d, want the same", one, two)
	}
	if ids := []configID{0, one, own, both}; len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 4 {
		t.Errorf("configs %d, want them all different", ids)
	}
	for _, tt := range []struct {
		id    configID
		names []string
		want  []engine.LimitRow
	}{
		{two, []string{"shop/2"}, []engine.LimitRow{{Name: "shop/2"}, {Name: "shop/*", Declared: "2/s", Set: "1/s"}}},
		{own, []string{"shop/big"}, []engine.LimitRow{{Name: "shop/big", Set: "9/s"}}},
		{both, []string{"api", "shop/1"}, []engine.LimitRow{{Name: "api", Declared: "5/s"}, {Name: "shop/1"}, {Name: "shop/*", Declared: "2/s", Set: "1/s"}}},
		{0, nil, nil},
	} {
		if got := c.rows(tt.id, draws(tt.names...)); !slices.Equal(got, tt.want) {
			t.Errorf("rows of %v: %v, want %v", tt.names, got, tt.want)
		}
	}
}
