//go:build unix

package system

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/internal/pgtest"
)

// TestServerCrashes has the server crash and come back, three times, while jobs are
// enqueued and run. What was acknowledged is there and has run once, work goes on
// by itself, and the limit holds.
func TestServerCrashes(t *testing.T) {
	t.Parallel()
	const (
		n, window = 50, time.Second
		each      = 80               // jobs of a kind per crash
		within    = 30 * time.Second // work goes on
	)
	srv := pgtest.Server(t, pgtest.Options{Conf: map[string]string{"fsync": "on", "full_page_writes": "on"}})
	v := newVendor(t, apisim.Config{Latency: 20 * time.Millisecond}, "api", "effect", "after")
	o := orders{DB: migrated(t, srv.DSN("penstock")), URL: v.URL, Concurrency: 10, Limits: map[string]string{"api": "50/s"}}
	c := open(t, o.DB, penstock.Config{Limits: o.Limits})
	ws := starts(t, 3, o)
	calls := enqueuer(t, c, penstock.NewJob{Kind: "call", Payload: []byte("x"), Limits: penstock.Draws("api")})
	guarded := enqueuer(t, c, penstock.NewJob{Kind: "guarded", Payload: []byte("x")})
	for crash := range 3 {
		made := len(v.calls("api"))
		calls.more(each)
		v.awaitCalls(t, "api", made+each/4)
		acknowledged := guarded.acknowledged.Load()
		guarded.more(each / 2)
		eventually(t, "some of them to be enqueued", func() bool { return guarded.acknowledged.Load() > acknowledged+5 })
		srv.Restart(pgtest.Immediate)
		back := time.Now()
		v.await(t, "calls after the crash", func() bool {
			log := v.calls("api")
			return log[len(log)-1].Arrival.After(back)
		})
		took := time.Since(back)
		t.Logf("crash %d: the first call came %v after the server was back", crash, took)
		if took > within {
			t.Errorf("crash %d: work went on after %v, expected at most %v", crash, took, within)
		}
	}
	ids, effects := calls.end(), guarded.end()
	eventually(t, "the jobs to end", func() bool {
		return len(jobs(t, c, penstock.Filter{States: []penstock.State{penstock.Waiting, penstock.Running}})) == 0
	})
	stopAll(ws)

	v.judge(t, v.calls("api"), n, window)
	v.distinct(t)
	audit(t, c, append(ids, effects...))
	allDone(t, c, v, "api", ids)
	// The processes lived: they knew what they had done.
	if n := effectsOnce(t, c, v, effects); n > 0 {
		t.Errorf("%d jobs are in doubt, though their processes lived", n)
	}
	for id, n := range perJob(v.calls("api")) {
		if n != 1 {
			t.Errorf("job %d, whose process lived, ran %d times: %s", id, n, history(t, c, id))
		}
	}
}

// enqueuing enqueues jobs alike, one by one, and notes which of them were
// acknowledged. What fails is tried again, as another job.
type enqueuing struct {
	wanted       chan struct{}
	acknowledged atomic.Int64
	done         sync.WaitGroup
	ids          []int64 // read after end
	failed       int     // the same
	t            *testing.T
}

func enqueuer(t *testing.T, c *penstock.Client, j penstock.NewJob) *enqueuing {
	e := &enqueuing{wanted: make(chan struct{}, 10_000), t: t}
	e.done.Go(func() {
		for range e.wanted {
			done, err := c.EnqueueMany(t.Context(), []penstock.NewJob{j})
			for ; err != nil; done, err = c.EnqueueMany(t.Context(), []penstock.NewJob{j}) {
				e.failed++
				select {
				case <-time.After(20 * time.Millisecond): // a server that is not there refuses at once
				case <-t.Context().Done():
					return
				}
			}
			e.ids = append(e.ids, done[0].ID)
			e.acknowledged.Add(1)
		}
	})
	return e
}

// more asks for n more jobs.
func (e *enqueuing) more(n int) {
	for range n {
		e.wanted <- struct{}{}
	}
}

// end returns the jobs that were acknowledged, when all that were asked for are.
func (e *enqueuing) end() []int64 {
	close(e.wanted)
	e.done.Wait()
	e.t.Logf("%d jobs acknowledged, %d failures", len(e.ids), e.failed)
	return e.ids
}
