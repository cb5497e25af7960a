//go:build unix

package system

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/store/postgres"
)

// TestClocksOff has the clocks of two of three processes be five minutes wrong. The
// server's clock is the only one that counts: no job is early, no limit is broken,
// and no job that lives is taken from its process.
func TestClocksOff(t *testing.T) {
	t.Parallel()
	const (
		n, window = 20, time.Second
		places    = 4
		delay     = 3 * time.Second
	)
	clocks := []time.Duration{0, 5 * time.Minute, -5 * time.Minute}
	v := newVendor(t, apisim.Config{Latency: 5 * time.Millisecond}, "api", "busy", "later")
	db := onPostgres.fresh(t)
	o := orders{DB: db, Lease: shortLease, URL: v.URL, Concurrency: places, Limits: map[string]string{"api": "20/s"}, Tell: true}
	c := open(t, db, penstock.Config{Limits: o.Limits})
	var ws []*worker
	var said []*sayings
	for _, ahead := range clocks {
		o.Ahead = ahead
		said = append(said, newSayings())
		ws = append(ws, start(t, o, said[len(said)-1].hear))
	}
	v.shut("busy")
	enqueue(t, c, places*len(clocks), penstock.NewJob{Kind: "busy"})
	v.awaitCalls(t, "busy", places*len(clocks))
	// Every process holds jobs for longer than a silent one might.
	began, err := c.Store().Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "heartbeats of more than a lease and its margin", func() bool {
		all, err := c.Store().Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		long := 0
		for _, w := range all {
			if time.Duration(w.SeenAt-began)*time.Microsecond > 2*shortLease {
				long++
			}
		}
		return long == len(clocks)
	})
	v.open()

	// Each of the clocks is one of an enqueuer, too.
	due := map[int64]time.Time{}
	for _, ahead := range clocks {
		another := openAhead(t, db, ahead)
		for range 4 {
			from := time.Now()
			e, err := another.Enqueue(t.Context(), "later", []byte("x"), penstock.Delay(delay))
			if err != nil {
				t.Fatal(err)
			}
			due[e.ID] = from.Add(delay)
		}
	}
	// While no call is answered, each process can make no more than it has places for, so
	// all of them are among those who make the first ones.
	v.shut("api")
	ids := enqueue(t, c, places*len(clocks), penstock.NewJob{Kind: "call", Limits: penstock.Draws("api")})
	v.awaitCalls(t, "api", len(ids))
	v.open()
	ids = append(ids, enqueue(t, c, 90, penstock.NewJob{Kind: "call", Limits: penstock.Draws("api")})...)
	v.awaitCalls(t, "api", len(ids))
	later := v.awaitCalls(t, "later", len(due))
	for i, w := range ws {
		if got := len(v.of(v.calls("api"), w)); got == 0 {
			t.Errorf("the process that is %v ahead took no part", clocks[i])
		}
	}
	allEnd(t, c)
	stopAll(ws)

	v.judge(t, v.calls("api"), n, window)
	v.distinct(t)
	for _, call := range later {
		if d := call.Arrival.Sub(due[jobOf(call)]); d < 0 || d > delay {
			t.Errorf("job %d came %v after it was due", jobOf(call), d)
		}
	}
	audit(t, c, ids)
	for _, j := range states(t, c) {
		if j.Starts != 1 || j.State != penstock.Done {
			t.Errorf("job %d (%s) is %v after %d starts: %s", j.ID, j.Kind, j.State, j.Starts, history(t, c, j.ID))
		}
	}
	for _, s := range said {
		s.never(t, "refused")
	}
}

// openAhead returns a client whose clock is ahead of the server's.
func openAhead(t *testing.T, db string, ahead time.Duration) *penstock.Client {
	t.Helper()
	st, err := postgres.Open(t.Context(), db, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := penstock.New(skewed{st, ahead}, penstock.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
