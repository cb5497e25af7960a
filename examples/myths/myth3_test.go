package myths

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/penstocktest"
)

// twoAPIs is the setting of myth 3: one API refuses everything for 30 seconds,
// after 5 seconds, and says so. The other one is well.
type twoAPIs struct{ strict, other *apisim.API }

const (
	outageFrom = 5 * time.Second
	outageFor  = 30 * time.Second
	myth3Jobs  = 200 // for each of the two
	myth3Shown = 60  // seconds
)

func newTwoAPIs(t *testing.T) twoAPIs {
	config := apisim.Config{Algorithm: apisim.Sliding, Limit: 10, RetryAfter: apisim.RetryAfterExact, Latency: 100 * time.Millisecond}
	w := twoAPIs{newAPI(t, config), newAPI(t, config)}
	time.AfterFunc(outageFrom, func() {
		configure(t, w.strict, func(c *apisim.Config) { c.PausedUntil = time.Now().Add(outageFor) })
	})
	return w
}

// Myth 3: on a 429 retry immediately. The usual way hammers a shut door, and all
// its workers stand there. Penstock asks once, comes back at the moment that was
// named, and goes on with the other API meanwhile.
func TestMyth3_ARefusalIsWaitedOutWithoutAWorker(t *testing.T) {
	var usual, ours [2][]apisim.Call
	virtual(t, func(t *testing.T) {
		w := newTwoAPIs(t)
		line := make(chan *apisim.API, 2*myth3Jobs)
		for range myth3Jobs {
			line <- w.strict
			line <- w.other
		}
		close(line)
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				// No two call at the same instant, so that each run is like the last.
				<-time.After(time.Duration(3+7*i) * time.Millisecond)
				for api := range line {
					for status := 0; status != 200; {
						status, _ = call(t.Context(), api)
					}
				}
			})
		}
		all.Wait()
		usual = [2][]apisim.Call{w.strict.Log(), w.other.Log()}
	})
	virtual(t, func(t *testing.T) {
		w := newTwoAPIs(t)
		c := penstocktest.NewClient(t, penstock.Config{Limits: map[string]string{"strict": "10/s", "other": "10/s"}, Random: half})
		for name, api := range map[string]*apisim.API{"strict": w.strict, "other": w.other} {
			handle(t, c, name, polite(api), penstock.Kind{Limits: penstock.Draws(name)})
		}
		for range myth3Jobs {
			enqueue(t, c, "strict", 1)
			enqueue(t, c, "other", 1)
		}
		drain(t, c, penstock.WorkOptions{Concurrency: 10})
		ours = [2][]apisim.Call{w.strict.Log(), w.other.Log()}
		for _, job := range allJobs(t, c) {
			if job.State != penstock.Done || job.Attempts != 0 {
				t.Errorf("job %d is %v after %d attempts, expected it done without one spent", job.ID, job.State, job.Attempts)
			}
		}
	})

	if n := apisim.Refused(usual[0]); n < 2000 {
		t.Errorf("the usual way was refused %d times, expected thousands", n)
	}
	if n := apisim.Refused(ours[0]); n < 1 || n > 2 { // the second was under way when the first was refused
		t.Errorf("Penstock was refused %d times, expected once or twice", n)
	}
	during := func(c apisim.Call) bool { return c.At > outageFrom+time.Second && c.At < outageFrom+outageFor }
	for _, c := range ours[0] {
		if during(c) {
			t.Errorf("Penstock called at %v, in the pause", c.At)
		}
	}
	other := func(calls []apisim.Call) (n int) {
		for _, c := range calls {
			if during(c) && !c.Refused {
				n++
			}
		}
		return n
	}
	if u, o := other(usual[1]), other(ours[1]); u > 20 || o < 140 {
		t.Errorf("calls to the other API in the pause: %d the usual way, %d with Penstock", u, o)
	}
	expectPlot(t, "myth-3",
		panel{title: "Calls each second to an API that refuses everything from 5 s to 35 s, and says so", xName: "seconds", dx: 1, limit: 10,
			series: []series{{"retried at once", red, perSecond(usual[0], myth3Shown, every)}, {"Penstock", blue, perSecond(ours[0], myth3Shown, every)}}},
		panel{title: "Calls done at another API, served by the same 10 workers", xName: "seconds", dx: 1,
			series: []series{{"retried at once", red, sums(perSecond(usual[1], myth3Shown, accepted))}, {"Penstock", blue, sums(perSecond(ours[1], myth3Shown, accepted))}}})
}

// allJobs returns all jobs of a client.
func allJobs(t *testing.T, c *penstock.Client) (all []penstock.JobInfo) {
	t.Helper()
	var f penstock.Filter
	for {
		jobs, err := c.Jobs(context.WithoutCancel(t.Context()), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			return all
		}
		all = append(all, jobs...)
		f.AfterID = jobs[len(jobs)-1].ID
	}
}
