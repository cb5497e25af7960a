package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// TestLimitsAreReadInPages: a page of limits takes the same few trips to the server
// however many keys are on it, as it is listed, and as the sweep removes idle ones.
func TestLimitsAreReadInPages(t *testing.T) {
	r := newRig(t)
	r.declare("api", "5/s")
	r.declare("key/*", "5/s")
	c := new(trips)
	st := c.open(t, r.dsn)
	for _, keys := range []int{1, 150} {
		var obs []store.Observed
		for i := range keys {
			obs = append(obs, store.Observed{Limit: fmt.Sprintf("key/%d", i), Observation: limit.Observation{Refused: true, RetryAt: time.Now().Add(time.Hour).UnixMicro()}})
		}
		r.must(st.Observe(r.ctx(), obs))
		for what, do := range map[string]func() (int, error){
			"list":  func() (int, error) { l, err := st.ListLimits(r.ctx(), "", 500); return len(l) - 2, err },
			"sweep": func() (int, error) { _, err := st.Sweep(r.ctx()); return keys, err },
		} {
			c.take()
			n, err := do()
			r.must(err)
			sql := c.take()
			if t.Logf("%s of %d keys: %d trips", what, keys, len(sql)); len(sql) > 12 || n != keys {
				t.Errorf("%s of %d keys: %d keys in %d trips", what, keys, n, len(sql))
			}
		}
	}
}
