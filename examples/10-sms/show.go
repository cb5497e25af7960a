package main

import (
	"context"
	"fmt"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

// show enqueues messages and tells what the API saw of them.
type show struct {
	client *penstock.Client
	api    *apisim.API
	window time.Duration
}

// enqueue is what the rest of a shop would do. The same message is the same job
// while it waits or runs.
func (s *show) enqueue(ctx context.Context, m Message, opts ...penstock.EnqueueOption) {
	_, err := s.client.Enqueue(ctx, "sms", m, append(opts, penstock.Unique(m.ID))...)
	check(err)
}

// tell prints what the API's log proves.
func (s *show) tell(ctx context.Context) {
	calls := s.api.Log()
	kinds := map[string]int{}
	rejected := map[string]int{}
	arrived := make([]apisim.Call, len(calls))
	for i, c := range calls {
		switch {
		case c.Refused:
			kinds["refused"]++
		case c.Status == 400:
			kinds["rejected"]++
			rejected[c.MessageID]++
		case c.Status >= 200 && c.Status < 300:
			kinds["good"]++
		default:
			kinds["failed"]++
		}
		arrived[i] = c
		arrived[i].Refused = false // for the cap all that arrived counts
	}
	took := calls[len(calls)-1].At - calls[0].At
	fmt.Printf("%d calls in %.1f s: %d good, %d failed and retried, %d rejected, %d over the limit\n",
		len(calls), took.Seconds(), kinds["good"], kinds["failed"], kinds["rejected"], kinds["refused"])
	fmt.Printf("cap: at most %d calls in any %v; %.1f a window on average\n", apisim.FullestWindow(arrived, s.window), s.window,
		float64(len(calls)-1)*s.window.Seconds()/took.Seconds())
	once, more := 0, 0
	for _, n := range apisim.Delivered(calls) {
		if n == 1 {
			once++
		} else {
			more++
		}
	}
	fmt.Printf("messages: %d delivered once, %d more often\n", once, more)
	dead, err := s.client.Jobs(ctx, penstock.Filter{States: []penstock.State{penstock.Dead}})
	check(err)
	for _, job := range dead {
		fmt.Printf("dead letter: %s, %s, called %d time: %s\n", job.Unique, job.Reason, rejected[job.Unique], job.Error)
	}
	done, err := s.client.Jobs(ctx, penstock.Filter{States: []penstock.State{penstock.Done}})
	check(err)
	fmt.Printf("books: %d done, %d dead\n", len(done), len(dead))
}
