package postgres

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
)

// TestForgottenLaneIsLookedUpOnce: once a minute a process forgets its lanes. Those who
// enqueue at the same time to be started at once do not all look the lane up, alone, one
// after the other.
func TestForgottenLaneIsLookedUpOnce(t *testing.T) {
	const callers = 50
	r := newRig(t)
	r.register("w")
	c := new(trips)
	st := c.open(t, r.dsn)
	all := func() (alone, started int, took time.Duration) {
		c.take()
		var wg sync.WaitGroup
		var mu sync.Mutex
		began := time.Now()
		for range callers {
			wg.Go(func() {
				j := newJob()
				j.Start = &store.Starter{Worker: "w", Token: r.token.Add(1)}
				out, err := st.Insert(r.ctx(), []store.NewJob{j})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else if out[0].Started != nil {
					started++
				}
			})
		}
		wg.Wait()
		took = time.Since(began)
		for _, sql := range c.take() {
			if strings.Contains(sql, "'5s'") {
				alone++
			}
		}
		return alone, started, took
	}
	for _, forget := range []bool{true, false, true} {
		if forget {
			st.db.lanes.forget()
		}
		alone, started, took := all()
		t.Logf("forgotten: %t; %d calls: %d transactions that are alone, %d started, %v", forget, callers, alone, started, took)
		r.drain("w")
		if alone > 3 {
			t.Errorf("%d calls looked the lane up in %d transactions", callers, alone)
		}
	}
}
