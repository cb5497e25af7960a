//go:build unix

package system

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/limit"
)

// seeded returns a generator whose seed the log tells.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestC2_OneLimitForAllProcesses: the limit was applied per worker process, so
// the rate grew with the number of replicas (celery/celery#5732,
// celery/celery PR #10291, temporalio/sdk-rust#1005).
func TestC2_OneLimitForAllProcesses(t *testing.T) { onEachAlone(t, oneLimit) }

func oneLimit(t *testing.T, on technology) {
	const n, window = 40, 2 * time.Second
	v := newVendor(t, apisim.Config{Latency: 20 * time.Millisecond}, "api")
	o := orders{DB: on.fresh(t), Lease: on.lease(), URL: v.URL, Concurrency: 20, Limits: map[string]string{"api": "40/2s"}}
	c := open(t, o.DB, penstock.Config{Limits: o.Limits})
	enqueue(t, c, 1000, penstock.NewJob{Kind: "call", Limits: penstock.Draws("api")})

	ws := starts(t, 1, o)
	v.awaitCalls(t, "api", 50)
	ws = append(ws, starts(t, 5, o)...)
	for _, w := range ws {
		<-w.ready
	}
	six := len(v.awaitCalls(t, "api", len(v.calls("api"))+60))
	stopAll(ws[:4])
	calls := v.awaitCalls(t, "api", six+60)
	stopAll(ws[4:])

	v.judge(t, v.calls("api"), n, window)
	// The changes made no dip either: wherever a window starts, calls flow in it. How
	// many depends on the machine, too.
	fewest := n
	for i, first := range calls {
		if calls[len(calls)-1].At-first.At < window {
			break
		}
		in := 0
		for in < len(calls)-i-1 && calls[i+1+in].At-first.At <= window {
			in++
		}
		fewest = min(fewest, in)
	}
	t.Logf("the emptiest window has %d calls", fewest)
	if fewest < n/10 {
		t.Errorf("only %d calls in %v, while %d are allowed and hundreds of jobs wait", fewest, window, n)
	}
}

// TestC3_FullRateAfterKills: a crash between counting a call and setting the
// window's end left a counter that never reset, and the key was blocked for
// good (sidekiq/sidekiq#2704, Tabcorp/redis-rate-limiter#1, redis/redis#4548).
func TestC3_FullRateAfterKills(t *testing.T) { onEachAlone(t, fullRateAfterKills) }

func fullRateAfterKills(t *testing.T, on technology) {
	const n, window = 20, time.Second
	r := seeded(t)
	v := newVendor(t, apisim.Config{Latency: 30 * time.Millisecond}, "api")
	o := orders{DB: on.fresh(t), Lease: on.lease(), URL: v.URL, Concurrency: 12, LostMax: 100, Limits: map[string]string{"api": "20/s"}}
	c := open(t, o.DB, penstock.Config{Limits: o.Limits})
	enqueue(t, c, 1000, penstock.NewJob{Kind: "call", Limits: penstock.Draws("api")})

	ws := starts(t, 4, o)
	for kill := range 8 {
		v.awaitCalls(t, "api", len(v.calls("api"))+2+r.IntN(8))
		i := r.IntN(len(ws))
		ws[i].kill()
		// What is stored must admit the full rate again within a window.
		info, err := c.LimitByName(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		if got := admits(info, time.Now().Add(window), window); got < n*9/10 {
			t.Errorf("a window after kill %d the limit admits %d calls in %v, expected nearly %d", kill, got, window, n)
		}
		ws[i] = start(t, o, nil)
	}
	killed := time.Now()
	v.await(t, "three windows after the last kill", func() bool {
		log := v.calls("api")
		return log[len(log)-1].Arrival.Sub(killed) > 3*window
	})
	stopAll(ws)

	v.judge(t, v.calls("api"), n, window)
	recovered := 0
	for _, c := range v.calls("api") {
		if d := c.Arrival.Sub(killed); window < d && d <= 3*window {
			recovered++
		}
	}
	t.Logf("%d calls in the second and third window after the last kill", recovered)
	if recovered < n/2 { // how many it is depends on the machine, but they flow
		t.Errorf("%d calls in two windows, a window after the last kill; the limit is %d", recovered, 2*n)
	}
}

// admits is how many calls the limit, as it is stored, could let start in the
// window that begins at from.
func admits(info penstock.LimitInfo, from time.Time, window time.Duration) (n int) {
	s, at, end := info.State.Clone(), from.UnixMicro(), from.Add(window).UnixMicro()
	for {
		slot, _ := s.Earliest(info.Spec, limit.Ask{Cost: 1}, at)
		if slot >= end {
			return n
		}
		s.Take(info.Spec, limit.Ask{Cost: 1}, slot)
		at = slot
		n++
	}
}

// TestC6_ChangedLimit: a changed limit was ignored while the key stayed busy, or
// the old value came back from processes not yet redeployed
// (sethvargo/go-redisstore#10, mailgun/gubernator#37, sidekiq/sidekiq#4857,
// 3scale/APIcast#667).
func TestC6_ChangedLimit(t *testing.T) { onEach(t, changedLimit) }

func changedLimit(t *testing.T, on technology) {
	v := newVendor(t, apisim.Config{Latency: 20 * time.Millisecond}, "api")
	old := orders{DB: on.fresh(t), Lease: on.lease(), URL: v.URL, Concurrency: 20, Limits: map[string]string{"api": "100/s"}}
	young := old
	young.Limits = map[string]string{"api": "10/s"}
	c := open(t, old.DB, penstock.Config{Limits: old.Limits})
	enqueue(t, c, 2000, penstock.NewJob{Kind: "call", Limits: penstock.Draws("api")})

	ws := starts(t, 4, old)
	v.awaitCalls(t, "api", 150)
	if err := c.SetLimit(t.Context(), "api", "10/s"); err != nil {
		t.Fatal(err)
	}
	cut := time.Now()
	v.await(t, "the third second after the cut", func() bool {
		log := v.calls("api")
		return log[len(log)-1].Arrival.Sub(cut) > 3*time.Second
	})
	// A rolling deploy: half of the processes still declare the old value.
	for i, o := range []orders{young, old, young, old} {
		w := start(t, o, nil)
		<-w.ready
		ws[i].stop()
		ws[i] = w
		info, err := c.LimitByName(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		if info.Set != "10/s" || info.Spec.String() != "10/s" {
			t.Errorf("after process %d was replaced the limit is %v (set: %q), a person said 10/s", i, info.Spec, info.Set)
		}
	}
	v.awaitCalls(t, "api", len(v.calls("api"))+20)
	stopAll(ws)

	var after []apisim.Call
	for _, c := range v.calls("api") {
		if c.Arrival.Sub(cut) > 2*time.Second {
			after = append(after, c)
		}
	}
	v.judge(t, after, 10, time.Second)
}
