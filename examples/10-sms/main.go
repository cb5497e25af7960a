// An outbound SMS service: a hard job, whole.
//
// 50 messages go to a flaky SMS API that takes 5 calls a second, strictly. Three
// processes send them. What is wanted, and where it is:
//
//   - never above the cap, whatever the number of processes: the limit "sms"
//   - timeouts and 5xx are retried with backoff and jitter; a 400 (a number that
//     is none) never: send
//   - one message is sent once, however often it is enqueued or started: Unique,
//     Once, and the message's id as the API's idempotency key
//   - a message out of attempts is a dead letter that a person sees and replays:
//     the second half of main
//
// The proof is the API's own log. It takes about 12 seconds; -window 300ms is the
// same in a hurry (5 calls in 300 ms).
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

const (
	messages  = 50
	processes = 3
	capacity  = 5 // calls in a window
)

func main() {
	window := flag.Duration("window", time.Second, "the time in which the API takes 5 calls")
	worker := flag.String("worker", "", "used by the program itself: the database to work")
	url := flag.String("url", "", "used by the program itself: where the API is")
	flag.Parse()
	if *worker != "" {
		work(*worker, *url, *window)
		return
	}

	ctx := context.Background()
	dir, err := os.MkdirTemp("", "penstock-example-")
	check(err)
	defer os.RemoveAll(dir)
	api, err := apisim.Serve(ctx, apisim.Config{
		Algorithm: apisim.Sliding, Limit: capacity, Window: *window, RetryAfter: apisim.RetryAfterExact,
		Latency: 20 * time.Millisecond, Error5xx: 0.1, TimeoutRate: 0.05, TimeoutHold: 2 * callTimeout,
		Dedupe: true, Seed: 7,
	})
	check(err)
	defer api.Close()
	s := &show{api: api.API, window: *window}
	s.client = open(filepath.Join(dir, "sms.db"), *window)
	defer s.client.Close()
	crew := func(n int) {
		hire(n, "-worker", filepath.Join(dir, "sms.db"), "-url", api.URL, "-window", window.String())
	}

	// 50 messages, the first five enqueued twice, two to numbers that are none.
	for i := range messages {
		m := Message{ID: fmt.Sprintf("m-%02d", i+1), To: "+15550001234", Text: "hello"}
		if i == 20 || i == 40 {
			m.To = "555-oops"
		}
		s.enqueue(ctx, m)
		if i < 5 {
			s.enqueue(ctx, m)
		}
	}
	crew(processes)
	s.tell(ctx)

	// The first message comes once more, long after it was sent.
	s.enqueue(ctx, Message{ID: "m-01", To: "+15550001234", Text: "hello"})
	crew(1)
	fmt.Printf("m-01 enqueued again: delivered %d time in all\n", apisim.Delivered(api.API.Log())["m-01"])

	// The API breaks down, and a message runs out of attempts.
	check(api.API.Configure(func(c *apisim.Config) { c.Error5xx, c.TimeoutRate, c.AfterEffect = 1, 0, -1 }))
	s.enqueue(ctx, Message{ID: "m-51", To: "+15550001234", Text: "hello"}, penstock.Attempts(3))
	crew(1)
	dead, err := s.client.Jobs(ctx, penstock.Filter{States: []penstock.State{penstock.Dead}, Reason: "exhausted"})
	check(err)
	var ids []int64
	for _, job := range dead {
		fmt.Printf("dead letter: %s, %s after %d attempts: %s\n", job.Unique, job.Reason, job.Attempts, job.Error)
		ids = append(ids, job.ID)
	}
	// It is well again, and a person replays the dead letter.
	check(api.API.Configure(func(c *apisim.Config) { c.Error5xx = 0 }))
	check(s.client.Replay(ctx, ids, penstock.ReplayOptions{}))
	crew(1)
	fmt.Printf("replayed: m-51 delivered %d time\n", apisim.Delivered(api.API.Log())["m-51"])
}

// hire runs n worker processes until nothing is left to do.
func hire(n int, args ...string) {
	self, err := os.Executable()
	check(err)
	var crew []*exec.Cmd
	for range n {
		cmd := exec.Command(self, args...)
		cmd.Stderr = os.Stderr
		check(cmd.Start())
		crew = append(crew, cmd)
	}
	for _, cmd := range crew {
		check(cmd.Wait())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
