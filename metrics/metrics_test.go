package metrics_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/metrics"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
	"github.com/penstockhq/penstock/store/storetest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func newClient(t *testing.T, st store.Store, limits map[string]string) *penstock.Client {
	t.Helper()
	c, err := penstock.New(st, penstock.Config{Logger: quiet, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// scrape reads the samples of a page by name and labels, and checks its form.
func scrape(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	return parse(t, m.Text(t.Context()))
}

var (
	comment = regexp.MustCompile(`^# (HELP|TYPE) (penstock_[a-z_]+) (.+)$`)
	sample  = regexp.MustCompile(`^(penstock_[a-z_]+)(\{([a-z_]+="([^"\\]|\\.)*",?)*\})? (\S+)$`)
)

func parse(t *testing.T, text []byte) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	seen := map[string]bool{}
	family := ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if m := comment.FindStringSubmatch(line); m != nil {
			if m[1] == "HELP" {
				if seen[m[2]] {
					t.Errorf("%s comes twice", m[2])
				}
				family, seen[m[2]] = m[2], true
			}
			if m[2] != family {
				t.Errorf("%q stands in %s", line, family)
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no sample: %q", line)
			continue
		}
		if !strings.HasPrefix(m[1], family) {
			t.Errorf("%q stands in %s", line, family)
		}
		v, err := strconv.ParseFloat(m[5], 64)
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if _, twice := all[m[1]+m[2]]; twice {
			t.Errorf("%s%s comes twice", m[1], m[2])
		}
		all[m[1]+m[2]] = v
	}
	return all
}

// want checks samples, written as they are in the text.
func want(t *testing.T, got map[string]float64, samples map[string]float64) {
	t.Helper()
	for name, v := range samples {
		if g, ok := got[name]; !ok || g != v {
			t.Errorf("%s is %v (there: %v), want %v", name, g, ok, v)
		}
	}
}

func TestEverythingIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New(memory.Options{}), map[string]string{"api": "10/s, 4 in flight", "shop/*": "5/s", "day": "100/day@Europe/Berlin"})
		m := metrics.New(c)
		handler := func(_ context.Context, j *penstock.Job[string]) error {
			<-time.After(2 * time.Second)
			switch {
			case j.Args == "refused" && j.Throttles == 0:
				return &penstock.RateLimitedError{Wait: time.Minute, Limit: "shop/a"}
			case j.Args == "bad":
				return penstock.Permanent(errors.New("no"))
			}
			return nil
		}
		if err := penstock.Handle(c, "call", handler, penstock.Kind{}); err != nil {
			t.Fatal(err)
		}
		put := func(args string, opts ...penstock.EnqueueOption) {
			t.Helper()
			if _, err := c.Enqueue(t.Context(), "call", args, opts...); err != nil {
				t.Fatal(err)
			}
		}
		put("good", penstock.Limit("api"), penstock.Limit("day", 3))
		put("bad", penstock.Queue(`odd "queue"`+"\n\\"))
		put("refused", penstock.Limit("shop/a"))
		put("later", penstock.Delay(time.Hour), penstock.Limit("shop/b"))
		work, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		told := atomic.Int64{}
		ended.Go(func() {
			if err := c.Work(work, m.Watch(penstock.WorkOptions{OnEnd: func(*penstock.End) { told.Add(1) }})); err != nil {
				t.Error(err)
			}
		})
		<-time.After(time.Second)
		synctest.Wait()
		got := scrape(t, m)
		want(t, got, map[string]float64{
			`penstock_running{queue="default",kind="call"}`:                  2,
			`penstock_starts_total{queue="default",kind="call"}`:             2,
			`penstock_queue_jobs{queue="default",state="running"}`:           2,
			`penstock_queue_jobs{queue="default",state="scheduled"}`:         1,
			`penstock_limit_in_flight{limit="api"}`:                          1,
			`penstock_limit_in_flight_allowed{limit="api"}`:                  4,
			`penstock_limit_in_flight{limit="shop/*"}`:                       1,
			`penstock_limit_permits_used{limit="day",window="day"}`:          3,
			`penstock_limit_permits_allowed{limit="day",window="day"}`:       100,
			`penstock_limit_use_ratio{limit="api"}`:                          0.25,
			`penstock_queue_jobs{queue="odd \"queue\"\n\\",state="running"}`: 1,
			`penstock_workers`: 1, `penstock_store_up`: 1, `penstock_sweep_finds_total`: 0,
		})
		<-time.After(9 * time.Second)
		synctest.Wait()
		got = scrape(t, m)
		want(t, got, map[string]float64{
			`penstock_running{queue="default",kind="call"}`:                                0,
			`penstock_outcomes_total{queue="default",kind="call",outcome="done"}`:          1,
			`penstock_outcomes_total{queue="default",kind="call",outcome="throttled"}`:     1,
			`penstock_refusals_total{queue="default",kind="call",limit="shop/*"}`:          1,
			`penstock_dead_total{queue="odd \"queue\"\n\\",kind="call",reason="rejected"}`: 1,
			`penstock_queue_jobs{queue="default",state="due"}`:                             1,
			`penstock_queue_jobs{queue="default",state="done"}`:                            1,
			`penstock_queue_jobs{queue="odd \"queue\"\n\\",state="dead"}`:                  1,
			`penstock_limit_paused{limit="shop/*",by="api"}`:                               1,
			`penstock_limit_paused{limit="shop/*",by="person"}`:                            0,
			`penstock_run_seconds_bucket{queue="default",kind="call",le="1"}`:              0,
			`penstock_run_seconds_bucket{queue="default",kind="call",le="2.5"}`:            2,
			`penstock_run_seconds_count{queue="default",kind="call"}`:                      2,
			`penstock_wait_seconds_bucket{queue="default",kind="call",le="+Inf"}`:          2,
		})
		if age := got[`penstock_queue_oldest_due_age_seconds{queue="default"}`]; age < 9.9 || age > 10.1 {
			t.Errorf("the oldest due job is %v s old, want 10", age)
		}
		if left := got[`penstock_limit_pause_remaining_seconds{limit="shop/*"}`]; left < 50 || left > 53 {
			t.Errorf("the pause lasts %v s, want 52", left)
		}
		for name := range got {
			if strings.Contains(name, "shop/a") || strings.Contains(name, "shop/b") {
				t.Errorf("a key is in %s", name)
			}
		}
		if err := c.PauseLimit(t.Context(), "api", time.Time{}, "test"); err != nil {
			t.Fatal(err)
		}
		if err := c.Store().PauseQueue(t.Context(), "default", "test"); err != nil {
			t.Fatal(err)
		}
		text := string(m.Text(t.Context()))
		for _, line := range []string{
			`penstock_limit_paused{limit="api",by="person"} 1`, `penstock_limit_pause_remaining_seconds{limit="api"} +Inf`, `penstock_queue_paused{queue="default"} 1`,
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line %s", line)
			}
		}
		stop()
		ended.Wait()
		if told.Load() != 3 {
			t.Errorf("the hook that was there was told %d times, want 3", told.Load())
		}
	})
}

// TestK4_GaugesAreTheRows: counters drifted, became negative or were inflated by
// retries, deferrals and crashes, and replicas multiplied them
// (taskforcesh/bullmq#2268, huggingface/dataset-viewer#1698).
func TestK4_GaugesAreTheRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			jobs     = 5000
			replicas = 3
			crashes  = 5
		)
		st := memory.New(memory.Options{})
		var calls, ends atomic.Int64
		var mu sync.Mutex
		dice := rand.New(rand.NewPCG(4, 4))
		handler := func(_ context.Context, j *penstock.RawJob) error {
			calls.Add(1)
			defer ends.Add(1)
			mu.Lock()
			r, d := dice.Float64(), time.Duration(dice.Int64N(int64(100*time.Millisecond)))
			mu.Unlock()
			<-time.After(d)
			switch {
			case r < 0.3:
				return errors.New("try again")
			case r < 0.5:
				return penstock.Snooze(time.Second)
			}
			return nil
		}
		var all []*process
		var ended sync.WaitGroup
		start := func() *process {
			f := storetest.Faulty(st, nil)
			c := newClient(t, f, map[string]string{"api": "200/s, 100 in flight"})
			if err := penstock.Handle(c, "call", handler, penstock.Kind{Limits: penstock.Draws("api"), Retry: retry.Policy{MaxAttempts: 1000}}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			p := &process{m: metrics.New(c), st: f, stop: stop, kill: make(chan struct{})}
			ended.Go(func() {
				// A process that was killed cannot store its outcomes, which is its error.
				_ = c.Work(ctx, p.m.Watch(penstock.WorkOptions{Grace: time.Second, StopNow: p.kill}))
			})
			all = append(all, p)
			return p
		}
		for range replicas {
			start()
		}
		c := newClient(t, st, nil)
		for i := range jobs / 100 {
			batch := make([]penstock.NewJob, 100)
			for k := range batch {
				batch[k] = penstock.NewJob{Kind: "call", Queue: []string{"a", "b"}[(i+k)%2], Limits: penstock.Draws("api")}
			}
			if _, err := c.EnqueueMany(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		live := append([]*process(nil), all...)
		for second := 0; ; second++ {
			<-time.After(time.Second)
			synctest.Wait() // nothing moves, so both readings are of one moment
			left := sameAsRows(t, st, live)
			if t.Failed() || left == 0 {
				break
			}
			if second > 600 {
				t.Fatalf("%d jobs are left after ten minutes", left)
			}
			if n := second / 5; second%5 == 4 && n < crashes {
				dead := live[0]
				dead.st.SetPlan(storetest.FailAlways(storetest.Fault{Before: storetest.ErrFault}))
				close(dead.kill)
				dead.stop()
				live = append(live[1:], start())
			}
		}
		for _, p := range live {
			p.stop()
		}
		ended.Wait()
		starts, done := 0.0, 0.0
		for _, p := range all {
			got := parse(t, p.m.Text(t.Context()))
			for _, q := range []string{"a", "b"} {
				starts += got[`penstock_starts_total{queue="`+q+`",kind="call"}`]
				done += got[`penstock_outcomes_total{queue="`+q+`",kind="call",outcome="done"}`]
				if n := got[`penstock_running{queue="`+q+`",kind="call"}`]; n < 0 {
					t.Errorf("%v run", n)
				}
			}
		}
		if starts != float64(calls.Load()) {
			t.Errorf("%v starts were counted, there were %d", starts, calls.Load())
		}
		if done != jobs {
			t.Errorf("%v were counted as done, of %d", done, jobs)
		}
		t.Logf("%d calls for %d jobs", calls.Load(), jobs)
	})
}

// process is a replica: a client with its own way to the store.
type process struct {
	m    *metrics.Metrics
	st   *storetest.FaultyStore
	stop context.CancelFunc
	kill chan struct{}
}

// sameAsRows compares the gauges of all processes with the jobs that are stored,
// and returns how many have not ended.
func sameAsRows(t *testing.T, st store.Store, live []*process) (left int) {
	t.Helper()
	now, err := st.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]float64{}
	for _, q := range []string{"a", "b"} {
		for _, state := range []string{"due", "scheduled", "running", "done", "dead"} {
			rows[`penstock_queue_jobs{queue="`+q+`",state="`+state+`"}`] = 0
		}
	}
	for after := int64(0); ; {
		jobs, err := st.Jobs(t.Context(), store.Filter{AfterID: after, N: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			state := j.State.String()
			if j.State == store.Waiting {
				if state = "due"; j.At > now {
					state = "scheduled"
				}
			}
			if !j.State.Ended() {
				left++
			}
			rows[`penstock_queue_jobs{queue="`+j.Queue+`",state="`+state+`"}`]++
			after = j.ID
		}
		if len(jobs) == 0 {
			break
		}
	}
	running := rows[`penstock_queue_jobs{queue="a",state="running"}`] + rows[`penstock_queue_jobs{queue="b",state="running"}`]
	for _, p := range live {
		got := scrape(t, p.m)
		want(t, got, rows)
		want(t, got, map[string]float64{`penstock_limit_in_flight{limit="api"}`: running})
	}
	return left
}

func TestTheStoreIsDown(t *testing.T) {
	st := storetest.Faulty(memory.New(memory.Options{}), nil)
	m := metrics.New(newClient(t, st, map[string]string{"api": "5/s"}))
	if got := scrape(t, m); got["penstock_store_up"] != 1 || len(got) < 5 {
		t.Errorf("got %v", got)
	}
	st.SetPlan(storetest.FailAlways(storetest.Fault{Before: storetest.ErrFault}))
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	got := parse(t, w.Body.Bytes())
	if w.Code != 200 || len(got) != 2 || got["penstock_store_up"] != 0 {
		t.Errorf("status %d, got %v", w.Code, got)
	}
	if ct := w.Header().Get("Content-Type"); ct != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("content type %q", ct)
	}
	w = httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("POST", "/metrics", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: status %d", w.Code)
	}
}

// manyKeys is a store with so many keys that a scraper does not wait for them.
type manyKeys struct{ store.Store }

func (manyKeys) ListLimits(ctx context.Context, _ string, _ int) ([]store.LimitInfo, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestLimitsThatTakeTooLongCostOnlyThemselves: queues, too, were left out of a page
// whose limits could not be read in time.
func TestLimitsThatTakeTooLongCostOnlyThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, manyKeys{memory.New(memory.Options{})}, nil)
		if _, err := c.Enqueue(t.Context(), "call", 1); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		got := scrape(t, metrics.New(c))
		want(t, got, map[string]float64{`penstock_store_up`: 0, `penstock_queue_jobs{queue="default",state="due"}`: 1, `penstock_workers`: 0})
		if took := time.Since(begun); took > 9*time.Second {
			t.Errorf("the scrape took %v", took)
		}
	})
}
