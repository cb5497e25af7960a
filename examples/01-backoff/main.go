// Retry, and watch the backoff.
//
// Three jobs call an API that is down. Look at the waits: each step is twice the
// one before, and the three jobs do not wait equally long, so that they do not
// come back at the same instant. After the fourth attempt the jobs are dead
// letters with their history, which a person can look at and replay.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
)

const jobs = 3

func main() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	check(err)
	defer client.Close()

	// An ordinary error is retried. In real life Base is a second, Cap a minute.
	policy := retry.Policy{MaxAttempts: 4, Base: 100 * time.Millisecond, Factor: 2, Jitter: 0.25}
	check(penstock.Handle(client, "flaky", func(context.Context, *penstock.Job[int]) error {
		return errors.New("the API is down")
	}, penstock.Kind{Retry: policy}))
	for i := range jobs {
		_, err := client.Enqueue(ctx, "flaky", i)
		check(err)
	}

	var mu sync.Mutex
	waits := map[int][]time.Duration{} // by attempt
	check(client.Work(ctx, penstock.WorkOptions{Drain: true, OnEnd: func(e *penstock.End) {
		mu.Lock()
		defer mu.Unlock()
		if !e.NextAt.IsZero() {
			waits[e.Job.Starts] = append(waits[e.Job.Starts], e.NextAt.Sub(e.Ended))
		}
	}}))

	for attempt := 1; attempt < policy.MaxAttempts; attempt++ {
		fmt.Printf("attempt %d failed, the next one after", attempt)
		for _, wait := range waits[attempt] {
			fmt.Printf(" %d", wait.Milliseconds())
		}
		fmt.Printf(" ms (step %d ms, 25 %% more or less)\n", policy.Delay(attempt, 0.5).Milliseconds())
	}
	dead, err := client.Jobs(ctx, penstock.Filter{States: []penstock.State{penstock.Dead}})
	check(err)
	for _, job := range dead {
		fmt.Printf("job %d is dead (%s) after %d attempts: %s\n", job.ID, job.Reason, job.Attempts, job.Error)
		events, err := client.Events(ctx, job.ID)
		check(err)
		for i, e := range events {
			fmt.Printf("  %d. %s", e.N, e.Outcome)
			if i > 0 {
				fmt.Printf(", begun %d ms after the one before", (e.Started-events[i-1].Started)/1000)
			}
			fmt.Println()
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
