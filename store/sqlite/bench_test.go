package sqlite

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
)

func openBench(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// report gives the rate, and the processor time a job took: on a machine that does
// other things too, only the latter means something.
func report(b *testing.B, jobs int, cpu time.Duration) {
	b.Helper()
	b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64(cpu.Nanoseconds())/1000/float64(jobs), "cpu-µs/job")
}

func benchJobs(n int) []store.NewJob {
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = store.NewJob{
			LaneKey: store.LaneKey{Queue: "default", Kind: "noop", Priority: 5},
			Payload: bytes.Repeat([]byte{'x'}, 100),
		}
	}
	return jobs
}

// BenchmarkInsertBatch inserts batches of 1,000 jobs with 100 bytes of payload.
func BenchmarkInsertBatch(b *testing.B) {
	s, jobs := openBench(b), benchJobs(1000)
	cpu := cpuTime()
	for b.Loop() {
		if _, err := s.Insert(context.Background(), jobs); err != nil {
			b.Fatal(err)
		}
	}
	report(b, b.N*len(jobs), cpuTime()-cpu)
}

// BenchmarkInsertSingles inserts jobs one by one from eight goroutines.
func BenchmarkInsertSingles(b *testing.B) {
	s := openBench(b)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	cpu := cpuTime()
	b.ResetTimer()
	for range 8 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := s.Insert(context.Background(), benchJobs(1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	report(b, b.N, cpuTime()-cpu)
}

// BenchmarkDrain claims 400 jobs and finishes 400, until 50,000 are done.
func BenchmarkDrain(b *testing.B) {
	ctx := context.Background()
	const total = 50_000
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		s := openBench(b)
		for range total / 1000 {
			if _, err := s.Insert(ctx, benchJobs(1000)); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Register(ctx, store.Worker{ID: "w", Lease: time.Minute}); err != nil {
			b.Fatal(err)
		}
		cpu -= cpuTime()
		b.StartTimer()
		if n := drain(b, s, "w", 400); n != total {
			b.Fatalf("drained %d of %d", n, total)
		}
		cpu += cpuTime()
	}
	report(b, b.N*total, cpu)
}

// drain works until nothing is due, and returns how many jobs it finished.
func drain(tb testing.TB, s store.Store, worker string, places int) int {
	tb.Helper()
	ctx := context.Background()
	done := 0
	for token := int64(1); ; token++ {
		got, err := s.Claim(ctx, store.ClaimRequest{Worker: worker, Token: token, Kinds: []string{"noop"}, Places: places})
		if err != nil {
			tb.Fatal(err)
		}
		if len(got.Jobs) == 0 {
			return done
		}
		ends := make([]store.Finish, len(got.Jobs))
		for i, j := range got.Jobs {
			ends[i] = store.Finish{ID: j.ID, Worker: worker, Token: j.Token, Outcome: store.OutcomeDone}
		}
		ended, err := s.Finish(ctx, ends)
		if err != nil {
			tb.Fatal(err)
		}
		for _, e := range ended {
			if e.Err != nil {
				tb.Fatal(e.Err)
			}
			done++
		}
	}
}
