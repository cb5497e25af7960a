//go:build unix

package system

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/postgres"
	"github.com/penstockhq/penstock/store/sqlite"
)

// orders is what a worker process is told, by its environment.
type orders struct {
	DB  string // target of the store
	URL string // of the API
	// Ahead is how far the process's own clock is ahead of the store's.
	Ahead time.Duration
	// Shift is how far the store's clock is ahead: as if so much time had passed.
	Shift       time.Duration
	Limits      map[string]string
	Concurrency int
	Lease       time.Duration
	LostMax     int
	MaxPayload  int
	Drain       bool // end when no job is left
	Digest      bool // send the payload's SHA-256 instead of the payload
	Tell        bool // say what became of each start, see ended
}

const ordersEnv = "PENSTOCK_TEST_ORDERS"

// grace is what handlers get when their process is told to stop: a call that
// the API holds does not end by itself.
const grace = 100 * time.Millisecond

// trials is how many trials run at a time, unless -parallel says so: most of them
// wait most of the time.
const trials = 4

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
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(max(trials, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if commandDir != "" {
		_ = os.RemoveAll(commandDir)
	}
	os.Exit(code)
}

// obey is the main function of a worker process.
func (o orders) obey() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // a test that died leaves no worker behind
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	st, err := o.open(ctx)
	if err != nil {
		if ctx.Err() != nil { // told to stop before it began
			return nil
		}
		return err
	}
	c, err := penstock.New(st, penstock.Config{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Lease: o.Lease,
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
	if err := penstock.Handle(c, "guarded", o.guarded, k); err != nil {
		return err
	}
	if err := penstock.Handle(c, "killer", killSelf, k); err != nil {
		return err
	}
	wo := penstock.WorkOptions{Concurrency: o.Concurrency, Grace: grace, Drain: o.Drain}
	if o.Tell {
		wo.OnEnd = ended
	}
	fmt.Println("ready")
	if err := c.Work(ctx, wo); err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	return st.Close()
}

// open opens the store, as it looks by the process's clock.
func (o orders) open(ctx context.Context) (st store.Store, err error) {
	var now func() int64
	if o.Shift != 0 {
		now = func() int64 { return time.Now().Add(o.Shift).UnixMicro() }
	}
	if strings.HasPrefix(o.DB, "postgres://") {
		st, err = postgres.Open(ctx, o.DB, postgres.Options{Now: now})
	} else {
		st, err = sqlite.Open(ctx, o.DB, sqlite.Options{Now: now})
	}
	if err == nil && o.Ahead != 0 {
		st = skewed{st, o.Ahead}
	}
	return st, err
}

// ended says what became of a start: whether the store took its outcome, the job,
// which start of it, and the outcome.
func ended(e *penstock.End) {
	verb := "refused"
	if e.Recorded {
		verb = "recorded"
	}
	fmt.Println(verb, e.Job.ID, e.Job.Starts, e.Outcome)
}

// Headers of a call: what the worker knew when its handler began.
const (
	sentHeader = "X-Sent" // when, µs since the Unix epoch, by the machine's clock
	slotHeader = "X-Slot" // when the limit allowed it, by the same clock
	pidHeader  = "X-Pid"  // of the worker process
)

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// call makes one call to the API, at the path of the job's limit, else of its kind.
func (o orders) call(ctx context.Context, j *penstock.RawJob) error {
	to := j.Kind
	if len(j.Draws) > 0 {
		to = j.Draws[0].Limit
	}
	return o.post(ctx, j, to)
}

// guarded makes a call that must not be made twice, and then one that may.
func (o orders) guarded(ctx context.Context, j *penstock.RawJob) error {
	_, err := penstock.Once(ctx, fmt.Sprintf("effect/%d", j.ID), func(ctx context.Context) (bool, error) {
		return true, o.post(ctx, j, "effect")
	}, penstock.AtMostOnce())
	if err != nil {
		return err
	}
	return o.post(ctx, j, "after")
}

// post makes one call to the API. The key tells of the start: job, number of the
// start, lease.
func (o orders) post(ctx context.Context, j *penstock.RawJob, to string) error {
	sent := time.Now()
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
	if j.Slot != 0 {
		r.Header.Set(slotHeader, fmt.Sprint(j.Slot+o.Ahead.Microseconds()))
	}
	r.Header.Set(pidHeader, fmt.Sprint(os.Getpid()))
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
