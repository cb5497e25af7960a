package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/limit/header"
	"github.com/penstockhq/penstock/retry"
)

// Message is one SMS. Its ID is what makes it the same message.
type Message struct {
	ID   string `json:"message_id"`
	To   string `json:"to"`
	Text string `json:"text"`
}

const callTimeout = 400 * time.Millisecond

// kind is how messages are sent; the parent needs it for its defaults only.
var kind = penstock.Kind{
	Limits:  penstock.Draws("sms"),
	Timeout: callTimeout,
	Retry:   retry.Policy{MaxAttempts: 8, Base: 100 * time.Millisecond},
}

// open returns a client; each process has its own, on one file.
func open(path string, window time.Duration) *penstock.Client {
	client, err := penstock.Open(context.Background(), path, penstock.Config{
		Limits: map[string]string{"sms": fmt.Sprintf("%d/%dms", capacity, window.Milliseconds())},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(err)
	check(client.DeclareKind("sms", kind))
	return client
}

// work is one worker process.
func work(path, url string, window time.Duration) {
	client := open(path, window)
	defer client.Close()
	web := &http.Client{Transport: penstock.Transport(nil)}
	check(penstock.Handle(client, "sms", func(ctx context.Context, job *penstock.Job[Message]) error {
		// The guard survives the job, so a message that comes again next week is
		// known. Whatever happens to this process, the API knows it by its key.
		_, err := penstock.Once(ctx, "sms/"+job.Args.ID, func(ctx context.Context) (bool, error) {
			return true, send(ctx, web, url, job.Args)
		})
		return err
	}, kind))
	check(client.Work(context.Background(), penstock.WorkOptions{Drain: true}))
}

// send makes the call, and says what its answer means.
func send(ctx context.Context, web *http.Client, url string, m Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return penstock.Permanent(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/messages", bytes.NewReader(body))
	if err != nil {
		return penstock.Permanent(err)
	}
	r.GetBody = nil // one start is one call: net/http must not repeat it by itself
	r.Header.Set("Idempotency-Key", m.ID)
	answer, err := web.Do(r)
	if err != nil {
		return err // a timeout or a broken connection: retried
	}
	defer answer.Body.Close()
	said := header.Read(answer.StatusCode, answer.Header, nil, time.Now())
	switch status := answer.StatusCode; {
	case said.Limited:
		return penstock.RateLimited(said.RetryAfter)
	case status >= 500:
		return fmt.Errorf("status %d", status)
	case status >= 400:
		return penstock.Permanent(fmt.Errorf("status %d", status))
	}
	return nil
}
