// Package metrics tells Prometheus how a client and its store are doing.
//
//	m := metrics.New(client)
//	http.Handle("/metrics", m)
//	client.Work(ctx, m.Watch(penstock.WorkOptions{}))
//
// There are two sorts of numbers. What is stored (queues, limits, workers) is read
// from the store at each scrape, so it is what the store holds, also after
// retries and crashes; every process on a store says the same, so take the
// maximum over processes, not the sum. What happens (starts, outcomes, refusals,
// times) is counted by each process since it began: sum it.
//
// Labels are queue, kind and limit. The keys of a keyed limit are put together
// under its pattern, as "shopify/*": no label holds a key or the id of a job.
package metrics

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/penstockhq/penstock"
)

// Metrics counts what one process does, and serves that and the state of the
// store in the Prometheus text format, version 0.0.4. It is safe for concurrent
// use.
type Metrics struct {
	client *penstock.Client
	count  counts

	reading sync.Mutex // one scrape at a time reads the store
}

// New returns the metrics of a client.
func New(c *penstock.Client) *Metrics {
	return &Metrics{client: c, count: newCounts()}
}

// Watch returns the options with hooks that count what Work does. Hooks that
// were there are called, too. It may be used for several calls of Work. Call it
// after Handle: what may happen is then counted from 0, see [Metrics.begin].
func (m *Metrics) Watch(o penstock.WorkOptions) penstock.WorkOptions {
	m.begin(o)
	onStart, onEnd := o.OnStart, o.OnEnd
	o.OnStart = func(job *penstock.JobInfo) {
		m.count.started(job, time.Now())
		if onStart != nil {
			onStart(job)
		}
	}
	o.OnEnd = func(end *penstock.End) {
		m.count.ended(end)
		if onEnd != nil {
			onEnd(end)
		}
	}
	return o
}

// begin shows every count of the kinds that have handlers as 0 before anything
// happens. A series whose first value is 1 is no increase to Prometheus, so an alert
// on the first dead letter would never ring.
func (m *Metrics) begin(o penstock.WorkOptions) {
	for name, k := range m.client.Kinds() {
		queue := k.Queue
		if queue == "" {
			queue = penstock.DefaultQueue
		}
		served := len(o.Queues) == 0 || slices.ContainsFunc(o.Queues, func(q penstock.WorkQueue) bool { return q.Name == queue })
		if served {
			m.count.begin(queue, name, k.Limits)
		}
	}
}

const (
	contentType = "text/plain; version=0.0.4; charset=utf-8"
	// patience bounds the reading of the store: a scraper gives up at 10 s unless
	// told otherwise.
	patience = 8 * time.Second
)

// ServeHTTP serves the metrics. If the store cannot be read, penstock_store_up is 0,
// and what could not be read is left out.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "expected GET", http.StatusMethodNotAllowed)
		return
	}
	text := m.Text(r.Context())
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(text) // whoever asked is gone
}

// Text returns what ServeHTTP serves. It waits for the store for as long as ctx
// lets it, but not for much longer than a scraper would.
func (m *Metrics) Text(ctx context.Context) []byte {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var p page
	m.count.write(&p)
	p.family("swallowed_total", counter, "Starts in this process that were done by their handler's word although their last watched call had failed.")
	p.sample("swallowed_total", float64(m.client.Swallowed()))
	m.reading.Lock()
	defer m.reading.Unlock()
	p.family("store_up", gauge, "1 if the store could be read for this scrape, else 0; what could not be read of it is then left out.")
	stored, err := m.stored(ctx)
	p.sample("store_up", flag(err == nil))
	p.add(stored)
	return p.bytes()
}
