//go:build unix

package system

import (
	"flag"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

var stormFor = flag.Duration("system.storm", 0, "how long processes are killed at random; 0: 12 s on a file, a minute on a server")

// TestKillsAtRandom has processes killed at any moment, again and again, while
// work comes in. Nothing is lost, guarded effects happen once, the limit holds,
// and in the end the books agree.
func TestKillsAtRandom(t *testing.T) { onEach(t, killsAtRandom) }

func killsAtRandom(t *testing.T, on technology) {
	const n, window = 40, time.Second
	r := seeded(t)
	v := newVendor(t, apisim.Config{Latency: 30 * time.Millisecond}, "api", "effect", "after")
	o := orders{DB: on.fresh(t), Lease: on.lease(), URL: v.URL, Concurrency: 8, LostMax: 1000, Limits: map[string]string{"api": "40/s"}}
	c := open(t, o.DB, penstock.Config{Limits: o.Limits})

	storm := *stormFor
	if storm == 0 && on.seesDeaths {
		storm = 12 * time.Second
	} else if storm == 0 {
		storm = time.Minute
	}
	ws := starts(t, 4, o)
	var calls, guarded []int64
	kills := 0
	for began := time.Now(); time.Since(began) < storm; kills++ {
		// More is enqueued than is waited for, so that there is always work.
		more, made := 2+r.IntN(25), len(v.calls("api"))
		calls = append(calls, enqueue(t, c, more+1, penstock.NewJob{Kind: "call", Limits: penstock.Draws("api")})...)
		guarded = append(guarded, enqueue(t, c, 1+more/3, penstock.NewJob{Kind: "guarded"})...)
		v.awaitCalls(t, "api", made+more)
		i := r.IntN(len(ws))
		ws[i].kill()
		ws[i] = start(t, o, nil)
	}
	for _, w := range ws {
		<-w.ready
	}
	stopAll(ws)
	o.Drain = true
	for _, w := range starts(t, 3, o) {
		w.ends()
	}
	t.Logf("%d kills", kills)

	v.judge(t, v.calls("api"), n, window)
	v.distinct(t)
	audit(t, c, append(calls, guarded...))
	allDone(t, c, v, "api", calls)
	effectsOnce(t, c, v, guarded)
}

// distinct checks that no start made a call twice.
func (v *vendor) distinct(t *testing.T) {
	t.Helper()
	for path := range v.apis {
		seen := map[string]bool{}
		for _, c := range v.calls(path) {
			if seen[c.Key] {
				t.Errorf("the start %s (job.start.lease) called %s twice: two processes had the same lease", c.Key, path)
			}
			seen[c.Key] = true
		}
	}
}

// perJob counts calls by job.
func perJob(calls []apisim.Call) map[int64]int {
	n := map[int64]int{}
	for _, c := range calls {
		n[jobOf(c)]++
	}
	return n
}

// allDone checks that the jobs are done, and that the API knows of each.
func allDone(t *testing.T, c *penstock.Client, v *vendor, path string, ids []int64) {
	t.Helper()
	made := perJob(v.calls(path))
	state := states(t, c)
	for _, id := range ids {
		if j := state[id]; j.State != penstock.Done || made[id] == 0 {
			t.Errorf("job %d is %v (%s %s) and has called %s %d times: %s", id, j.State, j.Reason, j.Error, path, made[id], history(t, c, id))
		}
	}
}

// effectsOnce checks that no guarded effect happened twice, that it happened where
// the job says so, and that no job is dead but for doubt.
// It returns how many of those there are.
func effectsOnce(t *testing.T, c *penstock.Client, v *vendor, guarded []int64) (doubtful int) {
	t.Helper()
	effects, after := perJob(v.calls("effect")), perJob(v.calls("after"))
	state := states(t, c)
	for _, id := range guarded {
		j, n := state[id], effects[id]
		switch {
		case n > 1, j.State == penstock.Done && n != 1, after[id] > 0 && n != 1:
			t.Errorf("the effect of job %d, which is %v, happened %d times (what follows: %d): %s", id, j.State, n, after[id], history(t, c, id))
		case j.State == penstock.Dead && j.Reason == "in_doubt":
			doubtful++
		case j.State != penstock.Done:
			t.Errorf("job %d is %v (%s %s): %s", id, j.State, j.Reason, j.Error, history(t, c, id))
		}
	}
	t.Logf("of %d guarded jobs, %d are in doubt", len(guarded), doubtful)
	return doubtful
}

// states lists all jobs by id.
func states(t *testing.T, c *penstock.Client) map[int64]penstock.JobInfo {
	t.Helper()
	m := map[int64]penstock.JobInfo{}
	for _, j := range jobs(t, c, penstock.Filter{}) {
		m[j.ID] = j
	}
	return m
}
