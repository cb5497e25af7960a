// Package myths shows, in virtual time and against a pretend API with a strict
// limit, what docs/myths.md says: how the usual way goes wrong, and what Penstock
// does. Its tests draw the plots of that page; go test ./examples/myths -update
// writes them anew.
package myths

import (
	"context"
	"flag"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/limit/header"
)

var update = flag.Bool("update", false, "write the plots of docs/myths.md")

// virtual runs a part of a test in virtual time: seconds cost nothing, and the
// machine's speed does not show.
func virtual(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

// half is the die of every client, so that plots are the same each time.
func half() float64 { return 0.5 }

// newAPI returns a pretend API that ends with the test.
func newAPI(t *testing.T, config apisim.Config) *apisim.API {
	t.Helper()
	api, err := apisim.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}

func configure(t *testing.T, api *apisim.API, change func(*apisim.Config)) {
	t.Helper()
	if err := api.Configure(change); err != nil {
		t.Error(err)
	}
}

// call makes one call, and returns the status and what Retry-After says.
func call(ctx context.Context, api *apisim.API) (status int, wait time.Duration) {
	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, "GET", "/things", nil))
	seconds, _ := strconv.ParseFloat(answer.Header().Get("Retry-After"), 64) // 0: not said
	return answer.Code, time.Duration(seconds * float64(time.Second))
}

// attentive is a polite handler that reads what each answer says is left, too.
func attentive(api *apisim.API) func(context.Context, *penstock.RawJob) error {
	return func(ctx context.Context, _ *penstock.RawJob) error {
		answer := httptest.NewRecorder()
		api.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, "GET", "/things", nil))
		said := header.Read(answer.Code, answer.Header(), nil, time.Now())
		if said.Limited {
			return penstock.RateLimited(said.RetryAfter)
		}
		return penstock.ObserveHeaders(ctx, "", said)
	}
}

// polite is a handler that calls the API and says what its answer means.
func polite(api *apisim.API) func(context.Context, *penstock.RawJob) error {
	return func(ctx context.Context, _ *penstock.RawJob) error {
		if status, wait := call(ctx, api); status == 429 {
			return penstock.RateLimited(wait)
		}
		return nil
	}
}

// handle registers a handler that must be accepted.
func handle(t *testing.T, c *penstock.Client, kind string, fn func(context.Context, *penstock.RawJob) error, k penstock.Kind) {
	t.Helper()
	if err := penstock.Handle(c, kind, fn, k); err != nil {
		t.Fatal(err)
	}
}

// enqueue stores n jobs.
func enqueue(t *testing.T, c *penstock.Client, kind string, n int, opts ...penstock.EnqueueOption) {
	t.Helper()
	for range n {
		if _, err := c.Enqueue(t.Context(), kind, nil, opts...); err != nil {
			t.Fatal(err)
		}
	}
}

// drain works until nothing is left.
func drain(t *testing.T, c *penstock.Client, o penstock.WorkOptions) {
	t.Helper()
	o.Drain = true
	if err := c.Work(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// arrivals are the calls with refused ones counted like others: what the API
// had to bear, whatever it said.
func arrivals(calls []apisim.Call) []apisim.Call {
	all := make([]apisim.Call, len(calls))
	for i, c := range calls {
		c.Refused = false
		all[i] = c
	}
	return all
}

// perSecond counts calls by the second of their arrival, for n seconds.
func perSecond(calls []apisim.Call, n int, which func(apisim.Call) bool) []float64 {
	counts := make([]float64, n)
	for _, c := range calls {
		if i := int(c.At / time.Second); i < n && which(c) {
			counts[i]++
		}
	}
	return counts
}

func every(apisim.Call) bool      { return true }
func refused(c apisim.Call) bool  { return c.Refused }
func accepted(c apisim.Call) bool { return !c.Refused }

// sums turns counts into running sums.
func sums(counts []float64) []float64 {
	all, sum := make([]float64, len(counts)), 0.0
	for i, n := range counts {
		sum += n
		all[i] = sum
	}
	return all
}

// took is from the first call's arrival to the last one's, in seconds.
func took(calls []apisim.Call) float64 {
	return (calls[len(calls)-1].At - calls[0].At).Seconds()
}

// expectPlot compares the plot with the one that the page shows.
func expectPlot(t *testing.T, name string, panels ...panel) {
	t.Helper()
	if t.Failed() {
		return
	}
	path := filepath.Join("..", "..", "docs", "plots", name+".svg")
	drawn := draw(panels)
	if *update {
		if err := os.WriteFile(path, []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	shown, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(shown) != drawn {
		t.Errorf("docs/plots/%s.svg is not what the test draws now; look at the difference, and if it is meant: go test ./examples/myths -update", name)
	}
}

// quiet is a logger that says nothing.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
