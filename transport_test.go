package penstock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/penstockhq/penstock"
)

// answers is a base transport that answers with the status in the path, or
// fails where there is none.
type answers struct{}

func (answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status := map[string]int{"/ok": 200, "/moved": 302, "/missing": 404, "/busy": 429, "/down": 503, "/odd": 599}[r.URL.Path]
	if status == 0 {
		return nil, errors.New("connection reset\nby peer")
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func TestTransport_TellsOfSwallowedErrors(t *testing.T) {
	gone := errors.New("the gateway is gone")
	get := func(ctx context.Context, path string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://user:secret@api.test"+path+"?token=secret", nil)
		if err != nil {
			return err
		}
		answer, err := penstock.Transport(answers{}).RoundTrip(r)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	for _, tt := range []struct {
		name      string
		handler   func(ctx context.Context, job *penstock.RawJob) error
		swallowed string // "": nothing is
		detail    string
	}{
		{"no call", func(context.Context, *penstock.RawJob) error { return nil }, "", ""},
		{"a call that was well", func(ctx context.Context, _ *penstock.RawJob) error { return get(ctx, "/ok") }, "", ""},
		{"a redirect", func(ctx context.Context, _ *penstock.RawJob) error { return get(ctx, "/moved") }, "", ""},
		{"a status nobody looked at", func(ctx context.Context, _ *penstock.RawJob) error { return get(ctx, "/down") },
			"GET api.test/down: status 503 Service Unavailable", `{"swallowed":"GET api.test/down: status 503 Service Unavailable"}`},
		{"a refusal", func(ctx context.Context, _ *penstock.RawJob) error { return get(ctx, "/busy") },
			"GET api.test/busy: status 429 Too Many Requests", `{"swallowed":"GET api.test/busy: status 429 Too Many Requests"}`},
		{"a status without a name", func(ctx context.Context, _ *penstock.RawJob) error { return get(ctx, "/odd") },
			"GET api.test/odd: status 599", `{"swallowed":"GET api.test/odd: status 599"}`},
		{"an error that was dropped", func(ctx context.Context, _ *penstock.RawJob) error { _ = get(ctx, "/reset"); return nil },
			"GET api.test/reset: connection reset", `{"swallowed":"GET api.test/reset: connection reset"}`},
		{"an error that was returned", func(ctx context.Context, _ *penstock.RawJob) error { return penstock.Permanent(get(ctx, "/reset")) }, "", ""},
		{"a failure that was made good", func(ctx context.Context, _ *penstock.RawJob) error { _ = get(ctx, "/down"); return get(ctx, "/ok") }, "", ""},
		{"a failure that is meant", func(ctx context.Context, _ *penstock.RawJob) error {
			return errors.Join(get(ctx, "/missing"), penstock.Watch(ctx, nil))
		}, "", ""},
		{"a call of another kind", func(ctx context.Context, _ *penstock.RawJob) error { _ = penstock.Watch(ctx, gone); return nil },
			"the gateway is gone", `{"swallowed":"the gateway is gone"}`},
		{"beside a detail", func(ctx context.Context, job *penstock.RawJob) error {
			_ = penstock.Watch(ctx, gone)
			return job.SetDetail(map[string]int{"n": 1})
		}, "the gateway is gone", `{"n":1,"swallowed":"the gateway is gone"}`},
		{"beside a detail that is a list", func(ctx context.Context, job *penstock.RawJob) error {
			_ = penstock.Watch(ctx, gone)
			return job.SetDetail([]int{1})
		}, "the gateway is gone", `{"detail":[1],"swallowed":"the gateway is gone"}`},
		{"beside a detail that is no JSON", func(ctx context.Context, job *penstock.RawJob) error {
			_ = penstock.Watch(ctx, gone)
			return job.SetDetail([]byte("a < b"))
		}, "the gateway is gone", `{"detail":"a \u003c b","swallowed":"the gateway is gone"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				var log bytes.Buffer
				var mu sync.Mutex
				c := newClient(t, penstock.Config{Logger: slog.New(slog.NewTextHandler(&lockedWriter{&mu, &log}, nil))})
				handle(t, c, "capture", penstock.Kind{}, tt.handler)
				id := enqueue(t, c, "capture", nil)
				told := ""
				drain(t, c, penstock.WorkOptions{OnEnd: func(e *penstock.End) { told = e.Swallowed }})
				if told != tt.swallowed {
					t.Errorf("End.Swallowed = %q, want %q", told, tt.swallowed)
				}
				count := int64(0)
				if tt.swallowed != "" {
					count = 1
					wantState(t, c, id, penstock.Done, "")
				}
				if c.Swallowed() != count {
					t.Errorf("Swallowed() = %d, want %d", c.Swallowed(), count)
				}
				line := log.String()
				if tt.swallowed != "" && (!strings.Contains(line, "level=WARN") || !strings.Contains(line, `swallowed="`+tt.swallowed)) {
					t.Errorf("the log does not point at it: %s", line)
				}
				if strings.Contains(line, "secret") || tt.swallowed == "" && strings.Contains(line, "swallowed") {
					t.Errorf("the log says too much: %s", line)
				}
				events, err := c.Events(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				detail := ""
				for _, e := range events {
					detail += string(e.Detail)
				}
				if detail != tt.detail {
					t.Errorf("history: %s, want %s", detail, tt.detail)
				}
			})
		})
	}
}

// One line shows the errors that handlers drop.
func ExampleTransport() {
	ctx := context.Background()
	client, err := penstock.Open(ctx, "memory:", penstock.Config{Logger: quiet()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	web := &http.Client{Transport: penstock.Transport(answers{})} // nil: http.DefaultTransport

	err = penstock.Handle(client, "capture", func(ctx context.Context, job *penstock.Job[string]) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.test/down", nil)
		if err != nil {
			return err
		}
		answer, err := web.Do(r)
		if err != nil {
			return nil // the bug
		}
		return answer.Body.Close() // and another one: nobody looked at the status
	}, penstock.Kind{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := client.Enqueue(ctx, "capture", "order-1"); err != nil {
		fmt.Println(err)
		return
	}
	err = client.Work(ctx, penstock.WorkOptions{Drain: true, OnEnd: func(e *penstock.End) {
		fmt.Println(e.Outcome, "but", e.Swallowed)
	}})
	if err != nil {
		fmt.Println(err)
	}
	// Output: done but POST api.test/down: status 503 Service Unavailable
}

// Each start stands for itself: what the one before swallowed is forgotten.
func TestTransport_ForgetsTheStartBefore(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		handle(t, c, "capture", penstock.Kind{}, func(ctx context.Context, job *penstock.RawJob) error {
			if job.Attempts == 0 {
				return penstock.Watch(ctx, errors.New("first"))
			}
			return nil
		})
		id := enqueue(t, c, "capture", nil)
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, penstock.Done, "")
		if n := c.Swallowed(); n != 0 {
			t.Errorf("%d starts are said to swallow, want none", n)
		}
	})
}

func TestTransport_WithoutAJob(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test/down", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := penstock.Transport(answers{}).RoundTrip(r)
	if err != nil || answer.StatusCode != 503 {
		t.Fatalf("got %v, %v", answer, err)
	}
	_ = answer.Body.Close()
	gone := errors.New("gone")
	if got := penstock.Watch(t.Context(), gone); got != gone {
		t.Errorf("Watch returned %v", got)
	}
	if got := penstock.Watch(t.Context(), nil); got != nil {
		t.Errorf("Watch returned %v", got)
	}
}
