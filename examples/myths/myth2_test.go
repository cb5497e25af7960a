package myths

import (
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/store/memory"
)

// Myth 2: the limit is per worker. Eight processes that each keep to 10 a second
// are 80 a second to the API; eight that share a store are 10.
func TestMyth2_EightProcessesShareOneLimit(t *testing.T) {
	const processes, seconds = 8, 20
	config := apisim.Config{Algorithm: apisim.Sliding, Limit: 10, Latency: 20 * time.Millisecond}
	var usual, ours []apisim.Call
	virtual(t, func(t *testing.T) {
		api := newAPI(t, config)
		var all sync.WaitGroup
		for range processes {
			all.Go(func() { // a limiter of its own: one call every tenth of a second
				tick := time.NewTicker(time.Second / 10)
				defer tick.Stop()
				for range seconds * 10 {
					call(t.Context(), api)
					<-tick.C
				}
			})
		}
		all.Wait()
		usual = api.Log()
	})
	virtual(t, func(t *testing.T) {
		api := newAPI(t, config)
		st := memory.New(memory.Options{})
		defer st.Close()
		var all sync.WaitGroup
		for i := range processes {
			c, err := penstock.New(st, penstock.Config{Limits: map[string]string{"api": "10/s"}, Random: half, Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			handle(t, c, "send", polite(api), penstock.Kind{Limits: penstock.Draws("api")})
			if i == 0 {
				enqueue(t, c, "send", seconds*10)
			}
			all.Go(func() { drain(t, c, penstock.WorkOptions{Concurrency: 5}) })
		}
		all.Wait()
		ours = api.Log()
	})
	if n := apisim.FullestWindow(arrivals(usual), time.Second); n != 10*processes {
		t.Errorf("the fullest second of the usual way saw %d calls, expected %d", n, 10*processes)
	}
	if n := apisim.Refused(usual); n != len(usual)*7/8 {
		t.Errorf("%d of %d calls of the usual way were refused, expected seven of eight", n, len(usual))
	}
	if n := apisim.FullestWindow(arrivals(ours), time.Second); n > 10 {
		t.Errorf("the fullest second of Penstock saw %d calls, the limit is 10", n)
	}
	if n := apisim.Refused(ours); n != 0 || len(ours) != seconds*10 {
		t.Errorf("%d of %d calls were refused", n, len(ours))
	}
	expectPlot(t, "myth-2", panel{
		title: "Calls that arrive each second, from 8 processes", xName: "seconds", dx: 1, limit: 10,
		series: []series{
			{"a limiter in each process", red, perSecond(usual, seconds, every)},
			{"Penstock", blue, perSecond(ours, seconds, every)},
		}})
}
