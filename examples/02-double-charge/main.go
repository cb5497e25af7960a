// A charge that is not idempotent bites.
//
// The handler takes the money first, and what it does next fails twice. A retry
// runs the whole handler again, so one order of 30 is paid three times. Any job
// system does this: a job may run more than once, after an error or a crash.
// 03-charge-once is the cure.
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

type Order struct {
	ID     string
	Amount int
}

func main() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	check(err)
	defer client.Close()

	balance := 100 // one job at a time touches it
	check(penstock.Handle(client, "charge", func(ctx context.Context, job *penstock.Job[Order]) error {
		balance -= job.Args.Amount
		fmt.Printf("start %d: took %d for %s, balance %d\n", job.Starts, job.Args.Amount, job.Args.ID, balance)
		return sendReceipt(job.Attempts)
	}, penstock.Kind{Retry: retry.Policy{Base: 20 * time.Millisecond}}))

	_, err = client.Enqueue(ctx, "charge", Order{ID: "order-1", Amount: 30})
	check(err)
	check(client.Work(ctx, penstock.WorkOptions{Drain: true}))
	fmt.Printf("one order of 30, and the balance went from 100 to %d\n", balance)
}

// sendReceipt fails for a while, as mail servers do.
func sendReceipt(failuresBefore int) error {
	if failuresBefore < 2 {
		return errors.New("the mail server is down")
	}
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
