package apisim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestServeConcurrently: many clients at once over a real connection; the log
// keeps the strict limit's promise and agrees with what the clients saw.
func TestServeConcurrently(t *testing.T) {
	const clients, calls, limit = 16, 50, 100
	server, err := Serve(t.Context(), Config{Algorithm: Sliding, Limit: limit, Window: time.Hour, Dedupe: true, RetryAfter: RetryAfterSeconds, JitterMean: 100 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()

	var mu sync.Mutex
	statuses := map[int]int{}
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			for i := range calls {
				// Two clients each send the same messages.
				key := fmt.Sprintf("%d-%d", c/2, i)
				request, err := http.NewRequest("POST", server.URL+"/messages", strings.NewReader(sms(key)))
				if err != nil {
					t.Error(err)
					return
				}
				request.Header.Set("Idempotency-Key", key)
				response, err := client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				mu.Lock()
				statuses[response.StatusCode]++
				mu.Unlock()
				_ = server.API.Stats() // reading disturbs nobody
			}
		})
	}
	wait.Wait()

	log := server.API.Log()
	if statuses[201] != limit || statuses[429] != clients*calls-limit || len(log) != clients*calls {
		t.Errorf("statuses %v in %d logged calls, want %d accepted of %d", statuses, len(log), limit, clients*calls)
	}
	for i, c := range log {
		if c.Seq != i+1 || i > 0 && c.At < log[i-1].At {
			t.Fatalf("call %d of the log is %+v", i, c)
		}
	}
	for id, n := range Delivered(log) {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	if got := FullestWindow(log, time.Hour); got != limit {
		t.Errorf("fullest window %d, want %d", got, limit)
	}
	server.API.mu.Lock()
	defer server.API.mu.Unlock()
	if server.API.inFlight != 0 {
		t.Errorf("%d calls are still in flight", server.API.inFlight)
	}
}

func TestServerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server, err := Listen(ctx, "127.0.0.1:0", Config{})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(server.URL + "/_apisim/config")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.NewDecoder(response.Body).Decode(&config); err != nil || config["algorithm"] != "none" {
		t.Errorf("config %v, error %v", config, err)
	}
	response.Body.Close()
	cancel()
	if err := server.Wait(); err != nil {
		t.Errorf("Wait: %v", err)
	}
	server.Close()
	if _, err := http.Get(server.URL); err == nil {
		t.Error("the server still answers")
	}
}

func TestListenRefuses(t *testing.T) {
	if _, err := Serve(t.Context(), Config{Algorithm: "guess"}); err == nil {
		t.Error("a faulty config is served")
	}
	if _, err := Listen(t.Context(), "127.0.0.1:notaport", Config{}); err == nil || !strings.Contains(err.Error(), "notaport") {
		t.Errorf("a bad address: %v", err)
	}
}

func BenchmarkCalls(b *testing.B) {
	api := mustNew(b, Config{Algorithm: Sliding, Limit: 1000, Dedupe: true})
	for i := 0; b.Loop(); i++ {
		send(api, "POST", "/messages", fmt.Sprint(i), sms("m"))
	}
}
