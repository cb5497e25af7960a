package myths

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/penstocktest"
)

// usualWorkers has n workers make calls from one line, each until it is
// accepted, and returns when all are made. A refused call is made again at once.
func usualWorkers(t *testing.T, n, calls int, api *apisim.API) {
	line := make(chan struct{}, calls)
	for range calls {
		line <- struct{}{}
	}
	close(line)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for range line {
				for status := 0; status != 200; {
					status, _ = call(t.Context(), api)
				}
			}
		})
	}
	all.Wait()
}

// Myth 1: more workers mean more throughput. From 2 to 50 workers nothing gets
// faster; the usual way only makes ever more calls that are refused.
func TestMyth1_MoreWorkersAreNotFaster(t *testing.T) {
	const messages = 100
	config := apisim.Config{Algorithm: apisim.Sliding, Limit: 10, Latency: 200 * time.Millisecond}
	var labels []string
	var usualCalls, usualTime, ourCalls, ourTime []float64
	for _, workers := range []int{1, 2, 5, 10, 50} {
		labels = append(labels, fmt.Sprint(workers))
		virtual(t, func(t *testing.T) {
			api := newAPI(t, config)
			usualWorkers(t, workers, messages, api)
			usualCalls, usualTime = append(usualCalls, float64(len(api.Log()))), append(usualTime, took(api.Log()))
		})
		virtual(t, func(t *testing.T) {
			api := newAPI(t, config)
			c := penstocktest.NewClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}, Random: half})
			handle(t, c, "send", polite(api), penstock.Kind{Limits: penstock.Draws("api")})
			enqueue(t, c, "send", messages)
			drain(t, c, penstock.WorkOptions{Concurrency: workers})
			ourCalls, ourTime = append(ourCalls, float64(len(api.Log()))), append(ourTime, took(api.Log()))
		})
	}
	for i, workers := range labels {
		if ourCalls[i] != messages {
			t.Errorf("%s workers made %v calls for %d messages under Penstock", workers, ourCalls[i], messages)
		}
	}
	last := len(labels) - 1
	if usualCalls[last] < 10*messages {
		t.Errorf("50 workers made %v calls the usual way; expected ten times the messages at least", usualCalls[last])
	}
	// 100 messages at 10 a second take 9.9 s; the guard asks for 5 % more.
	for i := 1; i <= last; i++ {
		if ourTime[i] > 9.9*1.08 || usualTime[i] < 9 {
			t.Errorf("%s workers took %v s with Penstock, %v s the usual way", labels[i], ourTime[i], usualTime[i])
		}
	}
	usualMinute, ourMinute := hammering(t)
	if usualMinute > 10 || ourMinute != messages {
		t.Errorf("where refused calls count, too: %v sent the usual way, %v with Penstock", usualMinute, ourMinute)
	}
	expectPlot(t, "myth-1",
		panel{title: "Seconds until 100 messages are sent, at 10 a second", labels: labels, xName: "workers",
			series: []series{{"the usual way", red, usualTime}, {"Penstock", blue, ourTime}}},
		panel{title: "Calls made for them", labels: labels, xName: "workers",
			series: []series{{"the usual way", red, usualCalls}, {"Penstock", blue, ourCalls}}},
		panel{title: "Sent within a minute by 10 workers, where the API counts refused calls, too", labels: []string{""},
			series: []series{{"the usual way", red, []float64{usualMinute}}, {"Penstock", blue, []float64{ourMinute}}}})
}

// hammering has 10 workers send 100 messages for a minute to an API that counts
// refused calls, too, and returns how many were accepted.
func hammering(t *testing.T) (usual, ours float64) {
	config := apisim.Config{Algorithm: apisim.Sliding, Limit: 10, Latency: 200 * time.Millisecond, CountRefused: true}
	virtual(t, func(t *testing.T) {
		api := newAPI(t, config)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for begun := time.Now(); time.Since(begun) < time.Minute; {
					call(t.Context(), api)
				}
			})
		}
		all.Wait()
		usual = float64(len(api.Log()) - apisim.Refused(api.Log()))
	})
	virtual(t, func(t *testing.T) {
		api := newAPI(t, config)
		c := penstocktest.NewClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}, Random: half})
		handle(t, c, "send", polite(api), penstock.Kind{Limits: penstock.Draws("api")})
		enqueue(t, c, "send", 100)
		drain(t, c, penstock.WorkOptions{Concurrency: 10})
		if s := took(api.Log()); s > 60 {
			t.Errorf("100 messages took %v s", s)
		}
		ours = float64(len(api.Log()) - apisim.Refused(api.Log()))
	})
	return usual, ours
}
