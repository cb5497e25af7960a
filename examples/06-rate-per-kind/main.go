// A rate for one kind: 2 a second.
//
// Six jobs are enqueued at once and a hundred places are free, yet they start one
// after the other, about half a second apart: the starts are spread, and no second
// sees more than two. (They are a little further apart than 0.5 s: a strict API
// counts when calls arrive, not when they leave, and some travel faster.) The
// limit belongs to the store, so more workers would not make it more; that is
// 07-global-cap.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/penstockhq/penstock"
)

func main() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{
		Limits: map[string]string{"limited": "2/s"},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(err)
	defer client.Close()

	var mu sync.Mutex
	var first, last time.Time
	check(penstock.Handle(client, "limited", func(_ context.Context, job *penstock.Job[int]) error {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if first.IsZero() {
			first, last = now, now
		}
		fmt.Printf("job %d starts at %.3f s, %.3f s after the one before\n", job.Args, now.Sub(first).Seconds(), now.Sub(last).Seconds())
		last = now
		return nil
	}, penstock.Kind{Limits: penstock.Draws("limited")}))
	for i := range 6 {
		_, err := client.Enqueue(ctx, "limited", i+1)
		check(err)
	}
	check(client.Work(ctx, penstock.WorkOptions{Drain: true}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
