// Transient and permanent failures.
//
// A timeout may pass by itself, so it is retried until the attempts are spent. A
// faulty request fails the same way each time, so it is a dead letter at once:
// the handler says so with Permanent. Look at the starts of each job.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
)

// errInvalid is what the API's client returns for a request the API will never take.
var errInvalid = errors.New("422: the amount must be above 0")

func main() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	check(err)
	defer client.Close()

	check(penstock.Handle(client, "call", func(ctx context.Context, job *penstock.Job[string]) error {
		switch {
		case job.Args == "invalid":
			return penstock.Permanent(errInvalid)
		case job.Args == "hangs", job.Args == "hangs once" && job.Attempts == 0:
			<-ctx.Done() // no answer comes; the kind's Timeout ends the context
			return context.Cause(ctx)
		}
		return nil
	}, penstock.Kind{
		Timeout: 50 * time.Millisecond,
		Retry:   retry.Policy{MaxAttempts: 3, Base: 20 * time.Millisecond},
	}))

	// Classify keeps the same knowledge in one place, for handlers that return
	// the errors of a client as they come.
	check(penstock.Handle(client, "call-classified", func(context.Context, *penstock.Job[string]) error {
		return fmt.Errorf("charge: %w", errInvalid)
	}, penstock.Kind{Classify: func(err error) error {
		if errors.Is(err, errInvalid) {
			return penstock.Permanent(err)
		}
		return err
	}}))

	for _, what := range []string{"hangs", "hangs once", "invalid"} {
		_, err := client.Enqueue(ctx, "call", what)
		check(err)
	}
	_, err = client.Enqueue(ctx, "call-classified", "invalid, classified")
	check(err)
	check(client.Work(ctx, penstock.WorkOptions{Drain: true}))

	jobs, err := client.Jobs(ctx, penstock.Filter{Bodies: true})
	check(err)
	for _, job := range jobs {
		fmt.Printf("%s: %s", job.Payload, job.State)
		if job.Reason != "" {
			fmt.Printf(" (%s)", job.Reason)
		}
		fmt.Printf(" after %d starts", job.Starts)
		if job.Error != "" {
			fmt.Printf(", %s", job.Error)
		}
		fmt.Println()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
