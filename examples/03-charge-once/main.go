// The same charge, made idempotent.
//
// It is 02-double-charge with one difference: the effect stands in Once, under a
// key that is made of the order. Its result is kept in the store, so a repeat
// gets the result and does not take the money. Look at the balance: three
// starts, and a second job for the same order, make one debit.
//
// A real charge also sends the key to the API (11-payment), which closes the last
// gap: a process that dies after the charge and before its record.
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

	balance := 100
	check(penstock.Handle(client, "charge", func(ctx context.Context, job *penstock.Job[Order]) error {
		receipt, err := penstock.Once(ctx, "charge/"+job.Args.ID, func(context.Context) (string, error) {
			balance -= job.Args.Amount
			return fmt.Sprintf("receipt: %d taken for %s", job.Args.Amount, job.Args.ID), nil
		})
		if err != nil {
			return err
		}
		fmt.Printf("job %d, start %d: %s, balance %d\n", job.ID, job.Starts, receipt, balance)
		return sendReceipt(job.Attempts)
	}, penstock.Kind{Retry: retry.Policy{Base: 20 * time.Millisecond}}))

	order := Order{ID: "order-1", Amount: 30}
	_, err = client.Enqueue(ctx, "charge", order)
	check(err)
	check(client.Work(ctx, penstock.WorkOptions{Drain: true}))
	_, err = client.Enqueue(ctx, "charge", order, penstock.Attempts(1)) // once more, by mistake
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
