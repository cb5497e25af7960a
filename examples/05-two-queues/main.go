// Two queues, high and low.
//
// Twenty newsletters wait in "low" when a payment comes to "high". The worker has
// one place, so order is all that counts. Serving high before low, the payment is
// next, as soon as the place is free. Serving low before high, it is last. Order
// matters only while there is a backlog: with places free, everything starts.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"

	"github.com/penstockhq/penstock"
)

func main() {
	for _, queues := range [][]penstock.WorkQueue{
		{{Name: "high"}, {Name: "low"}},
		{{Name: "low"}, {Name: "high"}},
	} {
		order := work(queues)
		fmt.Printf("%s before %s: %s\n", queues[0].Name, queues[1].Name, strings.Join(order, " "))
		fmt.Printf("  the payment was number %d of %d\n", slices.Index(order, "payment")+1, len(order))
	}
}

// work returns the names of the jobs in the order of their starts.
func work(queues []penstock.WorkQueue) (order []string) {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	check(err)
	defer client.Close()

	check(penstock.Handle(client, "send", func(ctx context.Context, job *penstock.Job[string]) error {
		order = append(order, job.Args)
		if len(order) == 1 { // the payment comes while the first newsletter is being sent
			_, err := client.Enqueue(ctx, "send", "payment", penstock.Queue("high"))
			return err
		}
		return nil
	}, penstock.Kind{}))
	for i := range 20 {
		_, err := client.Enqueue(ctx, "send", fmt.Sprint(i+1), penstock.Queue("low"))
		check(err)
	}
	check(client.Work(ctx, penstock.WorkOptions{Queues: queues, Concurrency: 1, Drain: true}))
	return order
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
