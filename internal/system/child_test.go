//go:build unix

package system

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
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
