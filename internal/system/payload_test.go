//go:build unix

package system

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

// TestI4_LargePayloads: a few large payloads exhausted the store, made lists
// unusable, and grew in storage (taskforcesh/bullmq#2397,
// Parallels/rq-dashboard#132, Appsilon/mediforce#1359).
func TestI4_LargePayloads(t *testing.T) { onEach(t, largePayloads) }

func largePayloads(t *testing.T, on technology) {
	const n, size = 100, penstock.DefaultMaxPayload + 1
	v := newVendor(t, apisim.Config{}, "call")
	o := orders{DB: on.fresh(t), Lease: on.lease(), URL: v.URL, MaxPayload: size, Drain: true, Digest: true, Concurrency: 8}

	small := open(t, o.DB, penstock.Config{})
	_, err := small.Enqueue(t.Context(), "call", make([]byte, 5_000_000))
	if err == nil || !strings.Contains(err.Error(), "5000000") || !strings.Contains(err.Error(), fmt.Sprint(penstock.DefaultMaxPayload)) {
		t.Fatalf("5 MB: got error %v, expected one that names the 5000000 bytes and the limit", err)
	}
	_, err = small.EnqueueMany(t.Context(), []penstock.NewJob{{Kind: "call", Payload: []byte("x")}, {Kind: "call", Payload: make([]byte, size)}})
	if err == nil {
		t.Fatal("one byte above the limit was taken")
	}

	c := open(t, o.DB, penstock.Config{MaxPayload: size})
	random := rand.NewChaCha8([32]byte{4})
	want := map[int64][32]byte{}
	ids := map[string]int64{} // by the hash the API keeps
	payload := make([]byte, size)
	for range n {
		random.Read(payload)
		e, err := c.Enqueue(t.Context(), "call", payload)
		if err != nil {
			t.Fatal(err)
		}
		want[e.ID] = sha256.Sum256(payload)
		sum := sha256.Sum256([]byte(digest(payload)))
		ids[fmt.Sprintf("%x", sum[:8])] = e.ID
	}
	same := func(bodies bool) {
		t.Helper()
		js := jobs(t, c, penstock.Filter{})
		if len(js) != n {
			t.Fatalf("%d jobs are listed, expected %d", len(js), n)
		}
		for _, j := range js {
			if j.Payload != nil || j.Result != nil {
				t.Fatalf("the list has a body of job %d", j.ID)
			}
			if !bodies {
				continue
			}
			full, err := c.Job(t.Context(), j.ID)
			if err != nil {
				t.Fatal(err)
			}
			if got := sha256.Sum256(full.Payload); len(full.Payload) != size || got != want[j.ID] {
				t.Fatalf("job %d came back with %d other bytes", j.ID, len(full.Payload))
			}
		}
	}
	same(false)

	w := start(t, o, nil)
	w.ends()
	for _, call := range v.awaitCalls(t, "call", n) {
		if id := ids[call.BodyHash]; id != jobOf(call) {
			t.Errorf("the worker got other bytes for job %d", jobOf(call))
		}
	}
	if d := jobs(t, c, penstock.Filter{States: []penstock.State{penstock.Done}}); len(d) != n {
		t.Errorf("%d jobs are done, expected %d", len(d), n)
	}
	same(true)
	if runtime.GOOS == "linux" { // elsewhere Maxrss has other units
		usage := w.cmd.ProcessState.SysUsage().(*syscall.Rusage)
		mb := usage.Maxrss / 1024
		t.Logf("the worker had at most %d MB in memory", mb)
		if mb >= 300 {
			t.Errorf("the worker had %d MB in memory, for %d payloads of %d bytes, expected less than 300", mb, n, size)
		}
	}
}
