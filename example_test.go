package penstock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
)

// Message is the payload of the examples.
type Message struct{ To, Text string }

// The whole of it: a limit, a handler, a job, a worker.
func Example() {
	ctx := context.Background()
	// A path as "jobs.db" keeps jobs in a SQLite file.
	client, err := penstock.Open(ctx, "memory:", penstock.Config{
		Limits: map[string]string{"sms": "5/s"},
		Logger: quiet(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	send := func(ctx context.Context, job *penstock.Job[Message]) error {
		fmt.Printf("to %s: %s\n", job.Args.To, job.Args.Text)
		return nil
	}
	if err := penstock.Handle(client, "send-sms", send, penstock.Kind{Limits: penstock.Draws("sms")}); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := client.Enqueue(ctx, "send-sms", Message{To: "+441632960001", Text: "hello"}); err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Work(ctx, penstock.WorkOptions{Drain: true}); err != nil {
		fmt.Println(err)
	}
	// Output: to +441632960001: hello
}

// What a handler can say about the end of its call.
func ExampleHandle() {
	client, err := penstock.Open(context.Background(), "memory:", penstock.Config{Logger: quiet()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	call := func(context.Context, Message) (status int, retryAfter time.Duration, err error) { return 200, 0, nil }

	err = penstock.Handle(client, "send-sms", func(ctx context.Context, job *penstock.Job[Message]) error {
		status, retryAfter, err := call(ctx, job.Args)
		switch {
		case err != nil:
			return err // tried again, with backoff
		case status == 429:
			return penstock.RateLimited(retryAfter) // the limit pauses for everybody
		case status == 503:
			return penstock.RetryIn(time.Minute, errors.New("under maintenance"))
		case status >= 400:
			return penstock.Permanent(fmt.Errorf("status %d", status)) // a dead letter at once
		}
		return job.SetResult(map[string]int{"status": status})
	}, penstock.Kind{
		Retry:   retry.Policy{MaxAttempts: 10, Cap: 10 * time.Minute},
		Timeout: 30 * time.Second,
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Enqueue() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Limits: map[string]string{"shop/*": "2/s", "tokens": "10000/m"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	first, err := client.Enqueue(ctx, "sync", "shop-17",
		penstock.Limit("shop/17"), penstock.Limit("tokens", 800), // one permit of the one, 800 of the other
		penstock.Unique("sync/17"),
		penstock.Delay(time.Minute), penstock.Spread(10*time.Second),
		penstock.Priority(8), penstock.Attempts(3), penstock.ExpiresIn(time.Hour),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := client.Enqueue(ctx, "sync", "shop-17", penstock.Limit("shop/17"), penstock.Unique("sync/17"))
	fmt.Println(first.New, second.New, first.ID == second.ID, err)

	_, err = client.Enqueue(ctx, "sync", "shop-17", penstock.Limit("token"))
	fmt.Println(err)
	// Output:
	// true false true <nil>
	// enqueue "sync": limit "token" is not declared; did you mean "tokens"?
}

// An effect that must not happen twice, whatever happens to the process.
func ExampleOnce() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Logger: quiet()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	err = penstock.Handle(client, "checkout", func(ctx context.Context, job *penstock.Job[int]) error {
		receipt, err := penstock.Once(ctx, fmt.Sprint("charge/", job.Args), func(ctx context.Context) (string, error) {
			fmt.Println("charging order", job.Args)
			return "receipt 1", nil
		}, penstock.AtMostOnce())
		if err != nil {
			return err
		}
		if job.Attempts == 0 {
			return penstock.RetryIn(0, errors.New("the mail server is down"))
		}
		fmt.Println("mailing", receipt)
		return nil
	}, penstock.Kind{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := client.Enqueue(ctx, "checkout", 17); err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Work(ctx, penstock.WorkOptions{Drain: true}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// charging order 17
	// mailing receipt 1
}

// A permit for code that has no job.
func ExampleClient_Acquire() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Limits: map[string]string{"search": "10/s, 2 in flight"}, Logger: quiet()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	permit, err := client.Acquire(ctx, penstock.Draws("search")...)
	if err != nil {
		fmt.Println(err)
		return
	}
	// … make the call; when it is refused: permit.RateLimited("search", wait)
	fmt.Println(permit.Release(ctx))
	// Output: <nil>
}

// Many jobs that become visible together, or not at all.
func ExampleClient_NewLoad() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Logger: quiet()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	load := client.NewLoad("newsletter")
	for chunk := range 3 {
		jobs := []penstock.NewJob{
			{Kind: "send-sms", Payload: Message{To: "a"}, Ref: fmt.Sprint("a-", chunk)},
			{Kind: "send-sms", Payload: Message{To: "b"}, Ref: fmt.Sprint("b-", chunk)},
		}
		if _, err := load.Add(ctx, jobs); err != nil {
			fmt.Println(err, load.Abort(ctx))
			return
		}
	}
	fmt.Println(count(client), "visible before")
	if err := load.Commit(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(count(client), "visible after")
	// Output:
	// 0 visible before
	// 6 visible after
}

func count(c *penstock.Client) int {
	jobs, err := c.Jobs(context.Background(), penstock.Filter{N: 1000})
	if err != nil {
		return -1
	}
	return len(jobs)
}
