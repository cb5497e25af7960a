package penstock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
)

type message struct{ To string }

func TestDrain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var got []string
		handle(t, c, "sms", penstock.Kind{}, func(_ context.Context, j *penstock.Job[message]) error {
			got = append(got, j.Args.To)
			return j.SetResult(map[string]string{"sent": j.Args.To})
		})
		id := enqueue(t, c, "sms", message{To: "a"})
		enqueue(t, c, "sms", message{To: "b"}, penstock.Delay(time.Hour))
		begun := time.Now()
		drain(t, c, penstock.WorkOptions{Concurrency: 1})
		if len(got) != 2 || got[0] != "a" || got[1] != "b" {
			t.Errorf("got %v", got)
		}
		if d := time.Since(begun); d < time.Hour || d > time.Hour+time.Second {
			t.Errorf("drained after %v, want an hour", d)
		}
		if j := wantState(t, c, id, store.Done, ""); string(j.Result) != `{"sent":"a"}` {
			t.Errorf("result %s", j.Result)
		}
	})
}

// A worker that serves some queues only does not wait for the others.
func TestDrainOfSomeQueues(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		handle(t, c, "sms", penstock.Kind{}, func(context.Context, *penstock.Job[message]) error { return nil })
		high := enqueue(t, c, "sms", message{}, penstock.Queue("high"), penstock.Delay(time.Minute))
		low := enqueue(t, c, "sms", message{}, penstock.Queue("low"))
		begun := time.Now()
		drain(t, c, penstock.WorkOptions{Queues: []penstock.WorkQueue{{Name: "high"}, {Name: "other"}}})
		if d := time.Since(begun); d < time.Minute || d > 2*time.Minute {
			t.Errorf("drained after %v, want a minute", d)
		}
		wantState(t, c, high, store.Done, "")
		wantState(t, c, low, store.Waiting, "")
	})
}

func TestRetriesThenDead(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var deadJob penstock.JobInfo
		c := newClient(t, penstock.Config{OnDead: func(_ context.Context, j penstock.JobInfo) { deadJob = j }})
		n := 0
		handle(t, c, "k", penstock.Kind{}, func(context.Context, *penstock.Job[[]byte]) error {
			n++
			return errors.New("boom")
		})
		id := enqueue(t, c, "k", nil)
		drain(t, c, penstock.WorkOptions{})
		if n != 5 {
			t.Errorf("%d calls, want 5", n)
		}
		j := wantState(t, c, id, store.Dead, store.Exhausted)
		if j.Attempts != 5 || deadJob.ID != id || deadJob.Reason != store.Exhausted {
			t.Errorf("attempts %d, hook got %d %q", j.Attempts, deadJob.ID, deadJob.Reason)
		}
	})
}
