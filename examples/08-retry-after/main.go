// Retry-After is obeyed.
//
// Shop 17's API refuses with 429 and says when to come back. The handler passes
// that on with RateLimited, and the shop's limit pauses for everybody. Look at
// three things: shop 17 is called again at that moment and not before, the refusal
// cost the job no attempt, and shop 18, whose limit is another, went on meanwhile.
// No worker waited: the refused job is simply not handed out.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/limit/header"
)

func main() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{
		Limits: map[string]string{"shop/*": "20/s, 1 in flight"}, // a budget for each shop
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(err)
	defer client.Close()

	resume := time.Now().Add(2 * time.Second)
	shops := map[string]*apisim.Server{}
	for name, config := range map[string]apisim.Config{
		"17": {PausedUntil: resume, RetryAfter: apisim.RetryAfterExact},
		"18": {},
	} {
		shops[name], err = apisim.Serve(ctx, config)
		check(err)
		defer shops[name].Close()
	}

	check(penstock.Handle(client, "sync", func(ctx context.Context, job *penstock.Job[string]) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, shops[job.Args].URL+"/products", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		// Retry-After comes as seconds or as a date, some APIs use other headers, and
		// some none at all: then RetryAfter is 0, and Penstock backs off by itself.
		said := header.Read(answer.StatusCode, answer.Header, nil, time.Now())
		if said.Limited {
			return penstock.RateLimited(said.RetryAfter)
		}
		// Many APIs say in each answer how many calls are left: then the limit slows
		// down before it is refused.
		return penstock.ObserveHeaders(ctx, "", said)
	}, penstock.Kind{}))
	for _, shop := range []string{"17", "18", "17", "18", "17", "18"} {
		_, err := client.Enqueue(ctx, "sync", shop, penstock.Limit("shop/"+shop))
		check(err)
	}
	check(client.Work(ctx, penstock.WorkOptions{Drain: true}))

	log17, log18 := shops["17"].API.Log(), shops["18"].API.Log()
	fmt.Printf("shop 17: %d calls, %d refused\n", len(log17), apisim.Refused(log17))
	for _, call := range log17 {
		if !call.Refused {
			fmt.Printf("shop 17: called again %d ms after the moment it had named\n", call.Arrival.Sub(resume).Milliseconds())
			break
		}
	}
	before := 0
	for _, call := range log18 {
		if call.Arrival.Before(resume) {
			before++
		}
	}
	fmt.Printf("shop 18: %d calls, %d of them while shop 17 was paused\n", len(log18), before)
	jobs, err := client.Jobs(ctx, penstock.Filter{})
	check(err)
	for _, job := range jobs {
		fmt.Printf("job %d of %s: %s, %d starts, %d refused, %d attempts spent\n",
			job.ID, job.Draws[0].Limit, job.State, job.Starts, job.Throttles, job.Attempts)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
