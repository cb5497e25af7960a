package myths

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/penstocktest"
)

// Myth 5: well under the limit on average, so it is no matter. Two jobs a second
// against a limit of ten are no load at all, until nobody has worked for ten
// minutes: the usual way then sends the whole backlog at once.
func TestMyth5_ABacklogDrainsAtTheLimit(t *testing.T) {
	const backlog, shown = 1200, 60
	config := apisim.Config{Algorithm: apisim.Sliding, Limit: 10, Latency: 100 * time.Millisecond}
	var usual, ours []apisim.Call
	virtual(t, func(t *testing.T) {
		api := newAPI(t, config)
		usualWorkers(t, 5, backlog, api)
		usual = api.Log()
	})
	virtual(t, func(t *testing.T) {
		api := newAPI(t, config)
		c := penstocktest.NewClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}, Random: half})
		handle(t, c, "send", polite(api), penstock.Kind{Limits: penstock.Draws("api")})
		enqueue(t, c, "send", backlog)
		drain(t, c, penstock.WorkOptions{Concurrency: 100})
		ours = api.Log()
	})
	if n := apisim.FullestWindow(arrivals(usual), time.Second); n < 50 {
		t.Errorf("the fullest second of 5 usual workers saw %d calls, expected 50", n)
	}
	if n := apisim.FullestWindow(arrivals(ours), time.Second); n > 10 || apisim.Refused(ours) > 0 {
		t.Errorf("the fullest second of Penstock saw %d calls, %d in all were refused", n, apisim.Refused(ours))
	}
	all, spread := atNine(t, 0), atNine(t, 10*time.Minute)
	if all[0] != 600 || spread[0] > 100 {
		t.Errorf("due in the first minute: %v of 600 all at nine, %v of 600 spread over ten minutes", all[0], spread[0])
	}
	expectPlot(t, "myth-5",
		panel{title: "Calls each second, when ten minutes of work have piled up", xName: "seconds since the workers are back", dx: 1, limit: 10,
			series: []series{{"5 usual workers", red, perSecond(usual, shown, every)}, {"Penstock, 100 places", blue, perSecond(ours, shown, every)}}},
		panel{title: "600 reports at nine: how many get due each minute", xName: "minutes after 9:00", dx: 1,
			series: []series{{"all at 9:00", red, all}, {"with Spread(10 * time.Minute)", blue, spread}}})
}

// atNine enqueues 600 jobs for one instant and returns how many get due in each
// minute from then on.
func atNine(t *testing.T, spread time.Duration) []float64 {
	due := make([]float64, 12)
	virtual(t, func(t *testing.T) {
		dice := rand.New(rand.NewPCG(1, 2)) // one goroutine draws
		c := penstocktest.NewClient(t, penstock.Config{Random: dice.Float64})
		nine := time.Now().Add(9 * time.Hour)
		enqueue(t, c, "report", 600, penstock.RunAt(nine), penstock.Spread(spread))
		for _, job := range allJobs(t, c) {
			due[penstock.Instant(job.At).Sub(nine)/time.Minute]++
		}
	})
	return due
}
