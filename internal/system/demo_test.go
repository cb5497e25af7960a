//go:build unix

package system

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

// TestDemo is what `penstock demo` shows: three processes send messages under one
// limit of an API that refuses what is over it, messages are enqueued twice, and one
// process is killed in the middle of a call.
func TestDemo(t *testing.T) { onEach(t, demo) }

func demo(t *testing.T, on technology) {
	const n, window, messages, twice = 5, time.Second, 40, 10
	v := newVendor(t, apisim.Config{Algorithm: apisim.Sliding, Limit: n, Window: window, Latency: 300 * time.Millisecond}, "api")
	o := orders{DB: on.fresh(t), Lease: on.lease(), URL: v.URL, Concurrency: 10, Limits: map[string]string{"api": "5/s"}}
	c := open(t, o.DB, penstock.Config{Limits: o.Limits})
	var all []penstock.NewJob
	for i := range messages + twice {
		message := fmt.Sprint("message ", i%messages)
		all = append(all, penstock.NewJob{Kind: "call", Payload: []byte(message), Unique: message, Limits: penstock.Draws("api")})
	}
	ws := starts(t, 3, o)
	for _, w := range ws {
		<-w.ready
	}
	ids := enqueueAll(t, c, all)
	v.awaitCalls(t, "api", messages/3)
	var shares []int
	for _, w := range ws {
		shares = append(shares, len(v.of(v.calls("api"), w)))
	}
	t.Logf("calls by process: %d", shares)
	// The one that makes the next call: it takes longer than the kill.
	made := len(v.calls("api"))
	last := v.awaitCalls(t, "api", made+1)[made:]
	for i, w := range ws {
		if len(v.of(last[:1], w)) > 0 {
			w.kill()
			ws = slices.Delete(ws, i, i+1)
			break
		}
	}
	v.await(t, "all messages", func() bool { return len(perJob(v.calls("api"))) == messages && len(v.calls("api")) > messages })
	stopAll(ws)
	o.Drain = true
	start(t, o, nil).ends()

	calls := v.calls("api")
	v.judge(t, calls, n, window)
	refused := 0
	for _, call := range calls {
		if call.Refused {
			refused++
		}
	}
	t.Logf("%d calls, %d refused", len(calls), refused)
	if refused > len(calls)/50+1 { // one may have travelled for longer than the one before it
		t.Errorf("the API refused %d of %d calls", refused, len(calls))
	}
	audit(t, c, ids)
	allDone(t, c, v, "api", ids)
	if got := len(states(t, c)); got != messages {
		t.Errorf("%d jobs are there, expected %d: messages that were enqueued twice are one", got, messages)
	}
}
