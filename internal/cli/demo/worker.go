package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/limit/header"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store/postgres/migrate"
)

// What jobs of the demo are called and draw on, and how patient a worker is.
const (
	kind        = "send-sms"
	limitName   = "sms"
	callTimeout = time.Second
	// shortLease is how long a server, which cannot see that a process died, waits for
	// one that is silent: in a demo nobody wants to wait for long.
	shortLease  = 3 * time.Second
	concurrency = 10 // calls a worker makes at a time, so that none gets them all
)

// smsKind is how messages are sent, for the enqueuer and the workers alike.
var smsKind = penstock.Kind{
	Limits:  penstock.Draws(limitName),
	Timeout: callTimeout,
	Retry:   retry.Policy{MaxAttempts: 10, Base: 500 * time.Millisecond, Cap: 2 * time.Second},
}

// payload is what a job carries: whom to tell what.
type payload struct {
	MessageID string `json:"message_id"`
	Customer  string `json:"customer"`
	Text      string `json:"text"`
}

// A Worker is one worker process of the demo.
type Worker struct {
	Number   int    // from 1
	Database string // path or URL of the store
	Contacts string // path of the customers' numbers
	API      string // base URL
}

// Run works until hold ends, which the demo's process keeps open: if that one
// dies, however it does, no worker is left behind.
func (w Worker) Run(ctx context.Context, hold io.Reader) error {
	// Ctrl-C reaches every process of a terminal; the demo says when to stop.
	signal.Ignore(os.Interrupt)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, hold)
		stop()
	}()
	lease := time.Duration(0) // the default
	if migrate.IsDSN(w.Database) {
		lease = shortLease
	}
	client, err := penstock.Open(ctx, w.Database, penstock.Config{
		Lease:  lease,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	if err := penstock.Handle(client, kind, w.send, smsKind); err != nil {
		return errors.Join(err, client.Close())
	}
	return errors.Join(client.Work(ctx, penstock.WorkOptions{Concurrency: concurrency, Grace: callTimeout}), client.Close())
}

// send is the handler: it sends one message. The key is the job's own, so that
// a repeat, for whatever reason, is no second message.
func (w Worker) send(ctx context.Context, job *penstock.Job[payload]) error {
	book, err := loadContacts(w.Contacts)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{
		"message_id": job.Args.MessageID, "to": book[job.Args.Customer], "text": job.Args.Text,
	})
	if err != nil {
		return penstock.Permanent(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.API+"/messages", bytes.NewReader(body))
	if err != nil {
		return penstock.Permanent(err)
	}
	request.GetBody = nil // net/http must not repeat a call by itself
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", job.IdempotencyKey())
	request.Header.Set("User-Agent", fmt.Sprint(agent, w.Number))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return outcome(response, answer, time.Now())
}

// outcome says what an answer means for the job.
func outcome(response *http.Response, answer []byte, now time.Time) error {
	said := header.Read(response.StatusCode, response.Header, answer, now)
	failure := fmt.Errorf("the API answered %s: %.200s", response.Status, bytes.TrimSpace(answer))
	switch {
	case response.StatusCode < 300:
		return nil
	case said.Limited:
		return &penstock.RateLimitedError{Wait: said.RetryAfter, Limit: limitName, Err: failure}
	case response.StatusCode < 500:
		return penstock.Permanent(failure)
	}
	return failure
}
