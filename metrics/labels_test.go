package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/metrics"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// TestTheFirstDeadLetterIsAnIncrease: the series of a reason began with the value 1,
// which is no increase to Prometheus, so that an alert missed the first dead letter.
func TestTheFirstDeadLetterIsAnIncrease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(memory.Options{}), map[string]string{"api": "5/s"})
		handler := func(context.Context, *penstock.Job[int]) error { return penstock.Permanent(errors.New("no")) }
		if err := penstock.Handle(c, "call", handler, penstock.Kind{Limits: penstock.Draws("api")}); err != nil {
			t.Fatal(err)
		}
		if err := penstock.Handle(c, "mail", handler, penstock.Kind{Queue: "mails"}); err != nil {
			t.Fatal(err)
		}
		m := metrics.New(c)
		options := m.Watch(penstock.WorkOptions{Drain: true, Queues: []penstock.WorkQueue{{Name: "default"}, {Name: "late"}}})
		got := scrape(t, m)
		before := map[string]float64{
			`penstock_starts_total{queue="default",kind="call"}`:                   0,
			`penstock_running{queue="default",kind="call"}`:                        0,
			`penstock_refusals_total{queue="default",kind="call",limit="api"}`:     0,
			`penstock_wait_seconds_count{queue="default",kind="call"}`:             0,
			`penstock_run_seconds_bucket{queue="default",kind="call",le="+Inf"}`:   0,
			`penstock_outcomes_total{queue="default",kind="call",outcome="retry"}`: 0,
		}
		for _, reason := range []string{"exhausted", "rejected", "throttled", "expired", "lost", "in_doubt"} {
			before[`penstock_dead_total{queue="default",kind="call",reason="`+reason+`"}`] = 0
		}
		want(t, got, before)
		for name := range got {
			if strings.Contains(name, "mail") {
				t.Errorf("%s: its queue is not served", name)
			}
		}
		for _, queue := range []string{"default", "late"} {
			if _, err := c.Enqueue(t.Context(), "call", 1, penstock.Queue(queue)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Work(t.Context(), options); err != nil {
			t.Fatal(err)
		}
		m.Watch(options) // a second Work goes on counting
		want(t, scrape(t, m), map[string]float64{
			`penstock_dead_total{queue="default",kind="call",reason="rejected"}`: 1,
			`penstock_dead_total{queue="late",kind="call",reason="rejected"}`:    1,
			`penstock_dead_total{queue="late",kind="call",reason="lost"}`:        0,
			`penstock_starts_total{queue="default",kind="call"}`:                 1,
		})
	})
}

// TestLabelsAreBounded: queues, and limits that had refused something, had as many
// series as there were names of them.
func TestLabelsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const names = 1500
		limits := map[string]string{}
		for i := range names {
			limits[fmt.Sprintf("host-%04d", i)] = "5/s"
		}
		c := newClient(t, memory.New(memory.Options{}), limits)
		handler := func(_ context.Context, j *penstock.Job[int]) error {
			if j.Throttles > 0 {
				return nil
			}
			return penstock.RateLimited(time.Second)
		}
		if err := penstock.Handle(c, "call", handler, penstock.Kind{}); err != nil {
			t.Fatal(err)
		}
		batch := make([]penstock.NewJob, names)
		for i := range batch {
			batch[i] = penstock.NewJob{Kind: "call", Queue: fmt.Sprintf("customer-%04d", i), Limits: penstock.Draws(fmt.Sprintf("host-%04d", i))}
		}
		if _, err := c.EnqueueMany(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		m := metrics.New(c)
		if err := c.Work(t.Context(), m.Watch(penstock.WorkOptions{Drain: true})); err != nil {
			t.Fatal(err)
		}
		got := scrape(t, m)
		sums, series := map[string]float64{}, map[string]int{}
		for name, v := range got {
			metric, _, _ := strings.Cut(name, "{")
			sums[metric] += v
			series[metric]++
		}
		for metric, most := range map[string]int{
			"penstock_starts_total": 1001, "penstock_queue_paused": 1001, "penstock_limit_keys": 1001,
			"penstock_refusals_total": 2001, // queues and limits are cut one by one
		} {
			if n := series[metric]; n > most {
				t.Errorf("%s has %d series", metric, n)
			}
		}
		for metric, sum := range map[string]float64{
			"penstock_starts_total": 2 * names, "penstock_refusals_total": names, "penstock_limit_keys": names, "penstock_queue_jobs": names,
			"penstock_run_seconds_count": 2 * names,
		} {
			if sums[metric] != sum {
				t.Errorf("%s: %v in all, want %v", metric, sums[metric], sum)
			}
		}
	})
}

// TestWorkersAreThoseThatWork: what a process keeps for Acquire was counted as one,
// so that "no workers" could not be seen.
func TestWorkersAreThoseThatWork(t *testing.T) {
	c := newClient(t, memory.New(memory.Options{}), map[string]string{"api": "5/s"})
	m := metrics.New(c)
	p, err := c.Acquire(t.Context(), penstock.Draws("api")...)
	if err != nil {
		t.Fatal(err)
	}
	got := scrape(t, m)
	want(t, got, map[string]float64{`penstock_workers`: 0, `penstock_queue_jobs{queue="penstock:permits",state="running"}`: 1})
	if err := p.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Store().Register(t.Context(), store.Worker{ID: "one", Kinds: []string{"call"}, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	want(t, scrape(t, m), map[string]float64{`penstock_workers`: 1})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTwoCalendarsOfOneLimit: the days of two zones were added up as one.
func TestTwoCalendarsOfOneLimit(t *testing.T) {
	c := newClient(t, memory.New(memory.Options{}), map[string]string{"api": "100/day@America/New_York, 50/day@Europe/Berlin"})
	p, err := c.Acquire(t.Context(), penstock.Draws("api")...)
	if err != nil {
		t.Fatal(err)
	}
	want(t, scrape(t, metrics.New(c)), map[string]float64{
		`penstock_limit_permits_allowed{limit="api",window="day"}`:               100,
		`penstock_limit_permits_allowed{limit="api",window="day@Europe/Berlin"}`: 50,
		`penstock_limit_permits_used{limit="api",window="day@Europe/Berlin"}`:    1,
		`penstock_limit_use_ratio{limit="api"}`:                                  0.02,
	})
	if err := p.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
