package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
)

// counts is what one process has done. Keys are the values of labels.
type counts struct {
	mu       sync.Mutex
	starts   map[[2]string]int64 // queue, kind
	running  map[[2]string]int64
	outcomes map[[3]string]int64 // queue, kind, outcome
	dead     map[[3]string]int64 // queue, kind, reason
	refused  map[[3]string]int64 // queue, kind, limit
	wait     map[[2]string]*buckets
	run      map[[2]string]*buckets
	limits   labels
}

func newCounts() counts {
	return counts{
		starts: map[[2]string]int64{}, running: map[[2]string]int64{},
		outcomes: map[[3]string]int64{}, dead: map[[3]string]int64{}, refused: map[[3]string]int64{},
		wait: map[[2]string]*buckets{}, run: map[[2]string]*buckets{}, limits: labels{},
	}
}

// begin shows what may be counted of a kind in a queue, and of its limits, as 0;
// what was counted already stays.
func (c *counts) begin(queue, kind string, draws []penstock.Draw) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of(queue, kind)
	for _, d := range draws {
		c.refusedBy(of, d.Limit, 0)
	}
}

// of returns the labels of a kind in a queue, whose counts are there from then on.
func (c *counts) of(queue, kind string) [2]string {
	if strings.HasPrefix(kind, store.PrivateKind) { // such a kind has the id of its process in its name
		kind = strings.TrimSuffix(store.PrivateKind, ":")
	}
	of := [2]string{queue, kind}
	if _, known := c.starts[of]; !known {
		if len(c.starts) >= labelsMost {
			of[0] = labelRest
		}
		c.starts[of] += 0
		c.running[of] += 0
		for _, o := range outcomes {
			c.outcomes[[3]string{of[0], of[1], o}] += 0
		}
		for _, r := range reasons {
			c.dead[[3]string{of[0], of[1], string(r)}] += 0
		}
		histogramOf(c.wait, of)
		histogramOf(c.run, of)
	}
	return of
}

// refusedBy counts n refusals of a limit.
func (c *counts) refusedBy(of [2]string, limit string, n int64) {
	key := [3]string{of[0], of[1], c.limits.of(pattern(limit))}
	if _, known := c.refused[key]; !known && len(c.refused) >= refusedMost {
		key[0], key[2] = labelRest, labelRest
	}
	c.refused[key] += n
}

// outcomes and reasons are the values of these labels.
var (
	outcomes = []string{
		store.OutcomeDone.String(), store.OutcomeRetry.String(), store.OutcomeThrottled.String(), store.OutcomeDead.String(), store.OutcomeSnoozed.String(),
		store.OutcomeCancelled.String(), store.OutcomeReturned.String(), store.OutcomeLost.String(), leaseLost,
	}
	reasons = []penstock.Reason{store.Exhausted, store.Rejected, store.Throttled, store.Expired, store.Lost, store.InDoubt}
)

// leaseLost is the outcome of a start that was not stored, since others may have
// the job by then.
const leaseLost = "lease_lost"

func (c *counts) started(j *penstock.JobInfo, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of(j.Queue, j.Kind)
	c.starts[of]++
	c.running[of]++
	due := max(j.At, j.EnqueuedAt)
	observe(c.wait, of, now.Sub(time.UnixMicro(due)))
}

func (c *counts) ended(e *penstock.End) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of(e.Job.Queue, e.Job.Kind)
	if !e.Started.IsZero() {
		c.running[of]--
		observe(c.run, of, e.Ended.Sub(e.Started))
	}
	outcome := e.Outcome.String()
	if !e.Recorded {
		outcome = leaseLost
	}
	c.outcomes[[3]string{of[0], of[1], outcome}]++
	if e.Recorded && e.State == penstock.Dead {
		c.dead[[3]string{of[0], of[1], string(e.Reason)}]++
	}
	if e.Refused != "" {
		c.refusedBy(of, e.Refused, 1)
	}
}

// labels bounds the values of a label: hosts are limits, and customers may be
// queues.
type labels map[string]bool

const (
	labelsMost  = 1000
	refusedMost = 10 * labelsMost // of queues, kinds and limits together
	labelRest   = "other"         // what is beyond
)

// of returns the value to use for name.
func (l labels) of(name string) string {
	if !l[name] && len(l) >= labelsMost {
		return labelRest
	}
	l[name] = true
	return name
}

// pattern stands for a limit and all keys beside it.
func pattern(limit string) string {
	if base, _, keyed := strings.Cut(limit, "/"); keyed {
		return base + "/*"
	}
	return limit
}

// bounds are the upper ends of buckets, in seconds: a call takes milliseconds to
// minutes, and may have waited for hours.
var bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 43200}

// buckets counts durations by size.
type buckets struct {
	n   []int64 // by bounds, and one for all that is above
	sum float64
}

func observe(all map[[2]string]*buckets, of [2]string, d time.Duration) {
	b := histogramOf(all, of)
	s := max(d, 0).Seconds()
	i, _ := slices.BinarySearch(bounds, s)
	b.n[i]++
	b.sum += s
}

func histogramOf(all map[[2]string]*buckets, of [2]string) *buckets {
	b := all[of]
	if b == nil {
		b = &buckets{n: make([]int64, len(bounds)+1)}
		all[of] = b
	}
	return b
}

// write writes what was counted.
func (c *counts) write(p *page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.family("starts_total", counter, "Handler starts in this process.")
	each2(c.starts, func(k [2]string, v int64) { p.sample("starts_total", float64(v), "queue", k[0], "kind", k[1]) })
	p.family("running", gauge, "Handlers that run in this process now.")
	each2(c.running, func(k [2]string, v int64) { p.sample("running", float64(v), "queue", k[0], "kind", k[1]) })
	p.family("outcomes_total", counter, "Ends of starts told to this process, by outcome; lost is a start of another process that died, lease_lost one of this process that came too late.")
	each3(c.outcomes, func(k [3]string, v int64) {
		p.sample("outcomes_total", float64(v), "queue", k[0], "kind", k[1], "outcome", k[2])
	})
	p.family("dead_total", counter, "Jobs that this process made dead letters, by reason.")
	each3(c.dead, func(k [3]string, v int64) {
		p.sample("dead_total", float64(v), "queue", k[0], "kind", k[1], "reason", k[2])
	})
	p.family("refusals_total", counter, "Starts in this process that the API refused because of a limit.")
	each3(c.refused, func(k [3]string, v int64) {
		p.sample("refusals_total", float64(v), "queue", k[0], "kind", k[1], "limit", k[2])
	})
	writeBuckets(p, c.wait, "wait_seconds", "From when a job was due to its start in this process. A job that was refused by the API goes on waiting.")
	writeBuckets(p, c.run, "run_seconds", "From the start of a handler to its end, in this process.")
}

func writeBuckets(p *page, all map[[2]string]*buckets, name, help string) {
	p.family(name, histogram, help)
	each2(all, func(k [2]string, b *buckets) {
		sum := int64(0)
		for i, n := range b.n {
			sum += n
			end := "+Inf"
			if i < len(bounds) {
				end = number(bounds[i])
			}
			p.sample(name+"_bucket", float64(sum), "queue", k[0], "kind", k[1], "le", end)
		}
		p.sample(name+"_sum", b.sum, "queue", k[0], "kind", k[1])
		p.sample(name+"_count", float64(sum), "queue", k[0], "kind", k[1])
	})
}

// each2 and each3 go through a map in the order of its keys.
func each2[V any](m map[[2]string]V, fn func(k [2]string, v V)) {
	for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		fn(k, m[k])
	}
}

func each3[V any](m map[[3]string]V, fn func(k [3]string, v V)) {
	for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b [3]string) int { return slices.Compare(a[:], b[:]) }) {
		fn(k, m[k])
	}
}
