package penstock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
)

// TestWorkEndsWhenAllIsTold: a worker that is told to stop while it tells of outcomes
// that are stored ends when it has, and not before: OnDead of the last one is awaited, too.
func TestWorkEndsWhenAllIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead, told atomic.Int32
		var begun sync.WaitGroup // a call that has not begun when Work is told to stop is given back
		begun.Add(3)
		c := newClient(t, penstock.Config{OnDead: func(context.Context, penstock.JobInfo) {
			<-time.After(time.Second)
			dead.Add(1)
		}})
		handle(t, c, "k", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error {
			begun.Done()
			begun.Wait()
			return penstock.Permanent(errors.New("no"))
		})
		for i := range 3 {
			enqueue(t, c, "k", i)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := c.Work(ctx, penstock.WorkOptions{Concurrency: 3, OnEnd: func(*penstock.End) {
			cancel()
			<-time.After(time.Second)
			told.Add(1)
		}}); err != nil {
			t.Fatal(err)
		}
		if told.Load() != 3 || dead.Load() != 3 {
			t.Errorf("Work ended after %d outcomes were told and OnDead was called for %d, want 3 and 3", told.Load(), dead.Load())
		}
	})
}
