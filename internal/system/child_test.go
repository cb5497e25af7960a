//go:build unix

package system

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store/sqlite"
)

// orders is what a worker process is told, by its environment.
type orders struct {
	Path string // of the store
	URL  string // of the API
	// Shift is how far the store's clock is ahead: as if so much time had passed.
	Shift       time.Duration
	Limits      map[string]string
	Concurrency int
	LostMax     int
	MaxPayload  int
	Drain       bool // end when no job is left
	Digest      bool // send the payload's SHA-256 instead of the payload
}

const ordersEnv = "PENSTOCK_TEST_ORDERS"

// grace is what handlers get when their process is told to stop: a call that
// the API holds does not end by itself.
const grace = 100 * time.Millisecond

func TestMain(m *testing.M) {
	if text := os.Getenv(ordersEnv); text != "" {
		var o orders
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			panic(err)
		}
		if err := o.obey(); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// obey is the main function of a worker process.
func (o orders) obey() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // a test that died leaves no worker behind
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var so sqlite.Options
	if o.Shift != 0 {
		so.Now = func() int64 { return time.Now().Add(o.Shift).UnixMicro() }
	}
	st, err := sqlite.Open(ctx, o.Path, so)
	if err != nil {
		return err
	}
	c, err := penstock.New(st, penstock.Config{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Limits: o.Limits, LostMax: o.LostMax, MaxPayload: o.MaxPayload,
		OnDead: func(_ context.Context, j penstock.JobInfo) { fmt.Println("dead", j.ID, j.Reason) },
	})
	if err != nil {
		return err
	}
	k := penstock.Kind{Timeout: -1, Retry: retry.Policy{MaxAttempts: 10, Base: 10 * time.Millisecond}}
	for _, kind := range []string{"call", "later", "busy"} {
		if err := penstock.Handle(c, kind, o.call, k); err != nil {
			return err
		}
	}
	if err := penstock.Handle(c, "killer", killSelf, k); err != nil {
		return err
	}
	fmt.Println("ready")
	if err := c.Work(ctx, penstock.WorkOptions{Concurrency: o.Concurrency, Grace: grace, Drain: o.Drain}); err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	return st.Close()
}

// Headers of a call: what the worker knew when its handler began.
const (
	sentHeader = "X-Sent" // when, µs since the Unix epoch
	slotHeader = "X-Slot" // when the limit allowed it
)

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// call makes one call to the API, at the path of the job's limit, else of its
// kind. The key tells of the start: job, number of the start, lease.
func (o orders) call(ctx context.Context, j *penstock.RawJob) error {
	sent := time.Now()
	to := j.Kind
	if len(j.Draws) > 0 {
		to = j.Draws[0].Limit
	}
	body := j.Args
	if o.Digest {
		body = []byte(digest(body))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL+"/"+to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", fmt.Sprintf("%d.%d.%d", j.ID, j.Starts, j.Token))
	r.Header.Set(sentHeader, fmt.Sprint(sent.UnixMicro()))
	r.Header.Set(slotHeader, fmt.Sprint(j.Slot))
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the API answers %s", res.Status)
	}
	return nil
}

// digest is the SHA-256 of b, in hexadecimal.
func digest(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// killSelf is a job that takes its process with it.
func killSelf(context.Context, *penstock.RawJob) error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return err
	}
	select {}
}

// worker is a worker process, seen from the test.
type worker struct {
	t     *testing.T
	cmd   *exec.Cmd
	ready chan struct{} // closed when it is about to work
	gone  chan struct{} // closed when it has ended; then cmd.ProcessState tells how
}

// start starts a worker process, see launch.
func start(t *testing.T, o orders, hear func(line string)) *worker {
	t.Helper()
	w, err := launch(t, o, hear)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// launch starts a worker process, which ends with the test at the latest. What
// it says beyond "ready" goes to hear, if that is given, from one goroutine.
func launch(t *testing.T, o orders, hear func(line string)) (*worker, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	w := &worker{t: t, cmd: exec.Command(os.Args[0]), ready: make(chan struct{}), gone: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), ordersEnv+"="+string(text))
	w.cmd.Stderr = os.Stderr
	if _, err := w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.gone)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			switch line := lines.Text(); {
			case line == "ready":
				close(w.ready)
			case hear != nil:
				hear(line)
			}
		}
		_ = w.cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(w.kill)
	return w, nil
}

// starts starts n workers alike.
func starts(t *testing.T, n int, o orders) []*worker {
	t.Helper()
	ws := make([]*worker, n)
	for i := range ws {
		ws[i] = start(t, o, nil)
	}
	return ws
}

// kill is kill -9; it returns when the process is gone.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill() // an error if it is gone already
	<-w.gone
}

// stop is a deploy's SIGTERM; the process must end well.
func (w *worker) stop() {
	w.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	w.ends()
}

// ends waits until the process has ended by itself, which must be well.
func (w *worker) ends() {
	w.t.Helper()
	select {
	case <-w.gone:
	case <-time.After(patience):
		w.t.Fatalf("after %v worker %d has not ended", patience, w.cmd.Process.Pid)
	}
	if s := w.cmd.ProcessState; !s.Success() {
		w.t.Errorf("worker %d ended with %v", s.Pid(), s)
	}
}

// stopAll stops workers, all at a time.
func stopAll(ws []*worker) {
	for _, w := range ws {
		w.t.Helper()
		if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, w := range ws {
		w.ends()
	}
}

// open returns a client of the test's own on the store, which enqueues and looks.
func open(t *testing.T, path string, cfg penstock.Config) *penstock.Client {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	c, err := penstock.Open(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// enqueue stores n jobs alike, in one commit.
func enqueue(t *testing.T, c *penstock.Client, n int, j penstock.NewJob) []int64 {
	t.Helper()
	if j.Payload == nil {
		j.Payload = []byte("x")
	}
	jobs := make([]penstock.NewJob, n)
	for i := range jobs {
		jobs[i] = j
	}
	return enqueueAll(t, c, jobs)
}

func enqueueAll(t *testing.T, c *penstock.Client, jobs []penstock.NewJob) []int64 {
	t.Helper()
	es, err := c.EnqueueMany(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(es))
	for i, e := range es {
		ids[i] = e.ID
	}
	return ids
}

// jobs lists what the filter selects, at most 10,000.
func jobs(t *testing.T, c *penstock.Client, f penstock.Filter) []penstock.JobInfo {
	t.Helper()
	f.N = 10_000
	js, err := c.Jobs(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// dbPath is the path of a store that ends with the test.
func dbPath(t *testing.T) string { return strings.TrimSuffix(t.TempDir(), "/") + "/jobs.db" }
