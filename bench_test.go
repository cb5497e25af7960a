package penstock_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
)

func fileClient(tb testing.TB, cfg penstock.Config) *penstock.Client {
	tb.Helper()
	cfg.Logger = quiet()
	c, err := penstock.Open(context.Background(), filepath.Join(tb.TempDir(), "jobs.db"), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

var payload = make([]byte, 100)

// fill enqueues b.N jobs that do nothing.
func fill(b *testing.B, c *penstock.Client, limits []penstock.Draw) {
	b.Helper()
	handle(b, c, "noop", penstock.Kind{Limits: limits}, func(context.Context, *penstock.Job[[]byte]) error { return nil })
	for left := b.N; left > 0; left -= 1000 {
		jobs := make([]penstock.NewJob, min(left, 1000))
		for i := range jobs {
			jobs[i] = penstock.NewJob{Kind: "noop", Payload: payload}
		}
		if _, err := c.EnqueueMany(b.Context(), jobs); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDrain drains jobs that do nothing, 100 handlers, SQLite.
func BenchmarkDrain(b *testing.B) {
	c := fileClient(b, penstock.Config{})
	fill(b, c, nil)
	b.ResetTimer()
	drain(b, c, penstock.WorkOptions{Concurrency: 100})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkDrainLimited is the same under a limit far above the rate.
func BenchmarkDrainLimited(b *testing.B) {
	c := fileClient(b, penstock.Config{Limits: map[string]string{"api": "1000000/s"}})
	fill(b, c, penstock.Draws("api"))
	b.ResetTimer()
	drain(b, c, penstock.WorkOptions{Concurrency: 100})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkEnqueue enqueues one by one from 8 goroutines per processor.
func BenchmarkEnqueue(b *testing.B) {
	for _, n := range []int{8, 64} {
		b.Run(fmt.Sprintf("%d goroutines", n), func(b *testing.B) {
			c := fileClient(b, penstock.Config{})
			left := atomic.Int64{}
			left.Store(int64(b.N))
			done := make(chan error, n)
			b.ResetTimer()
			for range n {
				go func() {
					for left.Add(-1) >= 0 {
						if _, err := c.Enqueue(b.Context(), "noop", payload); err != nil {
							done <- err
							return
						}
					}
					done <- nil
				}()
			}
			for range n {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkPickup is the time from the call of Enqueue to the begin of the
// handler, in one process that has nothing else to do.
func BenchmarkPickup(b *testing.B) {
	c := fileClient(b, penstock.Config{})
	began := make(chan time.Time, 1)
	handle(b, c, "noop", penstock.Kind{}, func(context.Context, *penstock.Job[[]byte]) error {
		began <- time.Now()
		return nil
	})
	stop := working(b, c, penstock.WorkOptions{})
	var all []time.Duration
	b.ResetTimer()
	for range b.N {
		sent := time.Now()
		if _, err := c.Enqueue(b.Context(), "noop", payload); err != nil {
			b.Fatal(err)
		}
		all = append(all, (<-began).Sub(sent))
	}
	b.StopTimer()
	stop()
	b.ReportMetric(float64(percentile(all, 50).Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(percentile(all, 99).Microseconds())/1000, "p99-ms")
}
