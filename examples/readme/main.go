// Command readme is the Go example of the README: an order is charged once, at
// the rate the payment API takes, whatever fails on the way.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/penstockhq/penstock"
)

type Order struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()

	client, err := penstock.Open(ctx, "orders.db", penstock.Config{
		Limits: map[string]string{"payments": "50/s, 20 in flight"}, // shared by every process on orders.db
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = penstock.Handle(client, "charge", func(ctx context.Context, job *penstock.Job[Order]) error {
		receipt, err := penstock.Once(ctx, "charge/"+job.Args.ID, func(ctx context.Context) (string, error) {
			return charge(ctx, job.Args, job.Options.IdempotencyKey)
		})
		if err == nil {
			fmt.Println(job.Args.ID, receipt)
		}
		return err
	}, penstock.Kind{Limits: penstock.Draws("payments"), IdempotencyKeys: true})
	if err != nil {
		log.Fatal(err)
	}

	for _, id := range []string{"order-1", "order-2", "order-1"} { // the repeat is found by its unique key
		_, err := client.Enqueue(ctx, "charge", Order{ID: id, Amount: 4200}, penstock.Unique(id))
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := client.Work(ctx, penstock.WorkOptions{Drain: true}); err != nil { // without Drain it works until ctx ends
		log.Fatal(err)
	}
}

// charge calls the API and says what its answer means for the job.
func charge(ctx context.Context, o Order, key string) (string, error) {
	status, retryAfter := callPaymentAPI(ctx, o, key)
	switch {
	case status == http.StatusTooManyRequests:
		return "", penstock.RateLimited(retryAfter) // not a failure: the limit pauses, for everybody
	case status >= 500:
		return "", fmt.Errorf("payment API: status %d", status) // retried with backoff
	case status >= 400:
		return "", penstock.Permanent(errors.New("card refused")) // a dead letter at once
	}
	return "receipt for " + o.ID, nil
}

// callPaymentAPI stands for the real call, which sends key as its Idempotency-Key.
func callPaymentAPI(context.Context, Order, string) (status int, retryAfter time.Duration) {
	return http.StatusOK, 0
}
