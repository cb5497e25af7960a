// The swallowed error: a task that sometimes just does not happen.
//
// The first handler drops the error of its call and returns nil. So the job is
// done: no retry, no dead letter, and no payment. A job system can only act on
// what it is told. But the HTTP client of the handlers goes through
// penstock.Transport, which sees the calls: look at the warning in the log, at
// swallowed=…, and at the note in the job's history.
//
// The second handler lets the error through. It is retried, and the payment
// happens.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/retry"
)

func main() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Logger: logger()})
	check(err)
	defer client.Close()
	api, err := apisim.Serve(ctx, apisim.Config{Error5xx: 1, AfterEffect: -1}) // every call fails
	check(err)
	defer api.Close()

	// One line makes swallowed errors visible, for all handlers that use it.
	web := &http.Client{Transport: penstock.Transport(nil)}

	capture := func(ctx context.Context, order string) error {
		body := fmt.Sprintf(`{"to": "+15550001234", "text": "capture %s", "message_id": %q}`, order, order)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, api.URL+"/messages", bytes.NewBufferString(body))
		if err != nil {
			return err
		}
		answer, err := web.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode >= 400 {
			return fmt.Errorf("capture %s: status %d", order, answer.StatusCode)
		}
		return nil
	}
	check(penstock.Handle(client, "capture-careless", func(ctx context.Context, job *penstock.Job[string]) error {
		_ = capture(ctx, job.Args) // the bug
		return nil
	}, penstock.Kind{}))
	check(penstock.Handle(client, "capture", func(ctx context.Context, job *penstock.Job[string]) error {
		return capture(ctx, job.Args)
	}, penstock.Kind{Retry: retry.Policy{Base: 20 * time.Millisecond}}))

	for _, kind := range []string{"capture-careless", "capture"} {
		fmt.Printf("== %s\n", kind)
		job, err := client.Enqueue(ctx, kind, "order-of-"+kind)
		check(err)
		check(client.Work(ctx, penstock.WorkOptions{Drain: true, Concurrency: 1, OnEnd: func(e *penstock.End) {
			if kind == "capture" && !e.Started.IsZero() { // the API is well again, after the first failure
				check(api.API.Configure(func(c *apisim.Config) { c.Error5xx = 0 }))
			}
		}}))
		info, err := client.Job(ctx, job.ID)
		check(err)
		events, err := client.Events(ctx, job.ID)
		check(err)
		fmt.Printf("job %d is %s after %d starts; captured %d times\n", info.ID, info.State, info.Starts,
			apisim.Delivered(api.API.Log())["order-of-"+kind])
		for _, e := range events {
			fmt.Printf("  history: %s %s%s\n", e.Outcome, e.Error, e.Detail)
		}
	}
	fmt.Printf("starts that swallowed an error: %d\n", client.Swallowed())
}

// logger writes to the standard output, without what differs from run to run.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey, "took", "next":
			return slog.Attr{}
		}
		return a
	}}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
