//go:build unix

package system

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

// held has an API keep every call until its client goes.
var held = apisim.Config{TimeoutRate: 1, TimeoutHold: time.Hour}

// release has an API answer, from now on.
func release(t *testing.T, v *vendor) {
	t.Helper()
	for _, api := range v.apis {
		if err := api.Configure(func(c *apisim.Config) { c.TimeoutRate = 0 }); err != nil {
			t.Fatal(err)
		}
	}
}

// TestA1_DelayedJobsSurviveEveryEnd: jobs for a later time sat in a worker's
// memory, and a deploy or a kill during other work lost some of them
// (celery/kombu#533, celery/celery#1810, celery/celery#3501).
func TestA1_DelayedJobsSurviveEveryEnd(t *testing.T) { onEach(t, delayedJobs) }

func delayedJobs(t *testing.T, on technology) {
	busy := newVendor(t, held, "busy", "later")
	o := orders{DB: on.fresh(t), Lease: on.lease(), URL: busy.URL, Concurrency: 5, LostMax: 100}
	c := open(t, o.DB, penstock.Config{})
	const half = 13 * time.Hour
	var later []penstock.NewJob
	for i := range 20 {
		later = append(later, penstock.NewJob{Kind: "later", Payload: []byte("x"), Delay: 10*time.Minute + time.Duration(i)*24*time.Hour/20})
	}
	ids := enqueueAll(t, c, later)
	due := map[int64]int64{}
	for _, j := range jobs(t, c, penstock.Filter{Kind: "later"}) {
		due[j.ID] = j.At
	}
	listed := func(when string, ids []int64) {
		t.Helper()
		js := jobs(t, c, penstock.Filter{Kind: "later", States: []penstock.State{penstock.Waiting}})
		if len(js) != len(ids) {
			t.Errorf("%s: %d jobs wait, expected %d", when, len(js), len(ids))
		}
		for _, j := range js {
			if !slices.Contains(ids, j.ID) || j.At != due[j.ID] {
				t.Errorf("%s: job %d is due %v, expected %v", when, j.ID, penstock.Instant(j.At), penstock.Instant(due[j.ID]))
			}
		}
	}
	enqueue(t, c, 3, penstock.NewJob{Kind: "busy"})

	for restart := range 6 {
		ws := starts(t, 2, o)
		// Two of the three at least: a process runs one of those that were lost.
		busy.awaitCalls(t, "busy", len(busy.calls("busy"))+2)
		if restart%2 == 0 {
			stopAll(ws)
		} else {
			for _, w := range ws {
				w.kill()
			}
		}
		listed(fmt.Sprintf("restart %d", restart), ids)
	}

	// So much time passes that about half of them are due, and then all.
	release(t, busy)
	o.Shift = half
	n := 0
	for i := range later {
		if later[i].Delay < half {
			n++
		}
	}
	ws := starts(t, 2, o)
	busy.awaitCalls(t, "later", n)
	stopAll(ws)
	listed("after half a day", ids[n:])
	o.Shift, o.Drain = 25*time.Hour, true
	for _, w := range starts(t, 2, o) {
		w.ends()
	}
	listed("at the end", nil)
	ran := map[int64]int{}
	for _, call := range busy.calls("later") {
		ran[jobOf(call)]++
	}
	for _, id := range ids {
		if ran[id] != 1 {
			t.Errorf("job %d ran %d times", id, ran[id])
		}
	}
	if d := jobs(t, c, penstock.Filter{States: []penstock.State{penstock.Done}}); len(d) != 23 {
		t.Errorf("%d jobs are done, expected 23", len(d))
	}
}

// TestB7_KillerEnds: a job that kills its process was never counted as failed,
// so it was picked up and killed the next one for ever (contribsys/faktory#99,
// sidekiq/sidekiq#5300).
func TestB7_KillerEnds(t *testing.T) { onEach(t, killerEnds) }

func killerEnds(t *testing.T, on technology) {
	v := newVendor(t, apisim.Config{Latency: 10 * time.Millisecond}, "call")
	o := orders{DB: on.fresh(t), Lease: on.lease(), URL: v.URL, Concurrency: 10, Drain: true}
	c := open(t, o.DB, penstock.Config{})
	normal := enqueue(t, c, 100, penstock.NewJob{Kind: "call"})
	killer := enqueue(t, c, 1, penstock.NewJob{Kind: "killer"})[0]
	normal = append(normal, enqueue(t, c, 100, penstock.NewJob{Kind: "call"})...)

	var mu sync.Mutex
	deaths, dead := 0, []string(nil)
	hear := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		dead = append(dead, line)
	}
	const bound = penstock.DefaultLostMax + 1 // once unsuspected
	first := []*worker{start(t, o, hear), start(t, o, hear), start(t, o, hear)}
	var supervisors sync.WaitGroup
	for _, w := range first {
		supervisors.Go(func() {
			for {
				<-w.gone
				if w.cmd.ProcessState.Success() {
					return // nothing is left
				}
				mu.Lock()
				deaths++
				tooMany := deaths > 3*bound
				mu.Unlock()
				if tooMany {
					return
				}
				var err error
				if w, err = launch(t, o, hear); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	supervisors.Wait()

	if deaths > bound {
		t.Errorf("it killed %d processes, expected at most %d", deaths, bound)
	}
	if want := fmt.Sprintf("dead %d lost", killer); !slices.Equal(dead, []string{want}) {
		t.Errorf("the processes told of %q, expected %q", strings.Join(dead, ", "), want)
	}
	for _, j := range jobs(t, c, penstock.Filter{}) {
		switch {
		case j.ID == killer && (j.State != penstock.Dead || j.Reason != "lost"):
			t.Errorf("the killer is %v (%s)", j.State, j.Reason)
		case slices.Contains(normal, j.ID) && j.State != penstock.Done:
			t.Errorf("job %d is %v (%s: %s)", j.ID, j.State, j.Reason, j.Error)
		}
	}
}

// TestC4_InFlightAfterKills: a count of running calls was raised at the start
// and lowered at the end, and killed processes never lowered it, or twice
// (gocraft/work#192 and #55, rails/solid_queue#546, kestra-io/kestra#14356,
// SGrondin/bottleneck#197, sidekiq/sidekiq#6185).
func TestC4_InFlightAfterKills(t *testing.T) { onEach(t, inFlightAfterKills) }

func inFlightAfterKills(t *testing.T, on technology) {
	const keys, most = 20, 2
	kills := 10
	if !on.seesDeaths {
		kills = 3 // each takes a lease
	}
	r := seeded(t)
	var names []string
	for i := range keys {
		names = append(names, fmt.Sprintf("key/%d", i))
	}
	v := newVendor(t, held, names...)
	o := orders{DB: on.fresh(t), Lease: on.lease(), URL: v.URL, Concurrency: 14, LostMax: 100, Limits: map[string]string{"key/*": "2 in flight"}}
	c := open(t, o.DB, penstock.Config{Limits: o.Limits})
	var all []penstock.NewJob
	for range most * (kills + 2) { // enough beside those that are lost: a process runs one of these at a time
		for _, name := range names {
			all = append(all, penstock.NewJob{Kind: "call", Limits: penstock.Draws(name), Payload: []byte("x")})
		}
	}
	enqueueAll(t, c, all)

	arrived := func() (n int) {
		for _, k := range v.counts() {
			n += k
		}
		return n
	}
	// inFlight checks that each key has want calls in flight and as many jobs running.
	inFlight := func(when string, want int) {
		t.Helper()
		running := map[string]int{}
		for _, j := range jobs(t, c, penstock.Filter{States: []penstock.State{penstock.Running}}) {
			running[j.Draws[0].Limit]++
		}
		for _, name := range names {
			info, err := c.LimitByName(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if n := int(info.State.InFlight()); n != want || running[name] != want {
				t.Errorf("%s: %s has %d in flight and %d jobs running, expected %d", when, name, n, running[name], want)
			}
		}
	}

	ws := starts(t, 3, o)
	v.await(t, "two calls of each key", func() bool { return arrived() >= most*keys })
	inFlight("at first", most)
	for kill := range kills {
		i := r.IntN(len(ws))
		workers, err := c.Store().Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		holds, before := 0, arrived()
		for _, w := range workers {
			if w.PID == ws[i].cmd.Process.Pid {
				holds = int(w.Holds)
			}
		}
		ws[i].kill()
		ws[i] = start(t, o, nil)
		v.await(t, fmt.Sprintf("the %d calls that take the place of the killed ones", holds), func() bool { return arrived() >= before+holds })
		inFlight(fmt.Sprintf("after kill %d of one that held %d", kill, holds), most)
	}
	for _, w := range ws {
		w.kill()
	}
	release(t, v)
	o.Drain = true
	for _, w := range starts(t, 3, o) {
		w.ends()
	}
	inFlight("at the end", 0)
	for _, name := range names {
		for _, call := range v.calls(name) {
			if call.InFlight > most {
				t.Errorf("%s: call %d is number %d in flight", name, call.Seq, call.InFlight)
			}
		}
	}
	if d := jobs(t, c, penstock.Filter{States: []penstock.State{penstock.Done}}); len(d) != len(all) {
		t.Errorf("%d jobs are done of %d", len(d), len(all))
	}
}
