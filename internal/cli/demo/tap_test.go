package demo

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/penstockhq/penstock/apisim"
)

// post sends a message as a worker would.
func post(t *testing.T, url, worker, key string) (status int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/messages",
		bytes.NewReader([]byte(`{"message_id": "of `+key+`", "to": "+447700900001", "text": "hello"}`)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("User-Agent", agent+worker)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

func TestTap_KnowsWhoCalled(t *testing.T) {
	tap, err := serve(t.Context(), apisim.Config{Dedupe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tap.close()
	for _, call := range [][2]string{{"1", "a"}, {"2", "b"}, {"3", "a"}, {"x", "c"}} {
		if status := post(t, tap.url, call[0], call[1]); status != http.StatusCreated {
			t.Fatalf("status %d", status)
		}
	}
	want := []int{1, 2, 3, 0}
	for i, c := range tap.log() {
		if c.Worker != want[i] || c.Left.Before(c.Arrival) {
			t.Errorf("call %d: worker %d (want %d), came %v, left %v", i, c.Worker, want[i], c.Arrival, c.Left)
		}
	}
}

// What duringCall does, it does while the caller has no answer.
func TestTap_DuringCallKeepsTheAnswerBack(t *testing.T) {
	tap, err := serve(t.Context(), apisim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tap.close()
	if tap.duringCall(func(Call) {}) {
		t.Error("found a call where there was none")
	}
	answered := make(chan int, 1)
	go func() { answered <- post(t, tap.url, "2", "a") }()
	// The answer may be on its way out before it is looked at: then another call
	// is made, until one is caught.
	for !tap.duringCall(func(c Call) {
		if c.Worker != 2 || c.Key != "a" || c.MessageID != "of a" {
			t.Errorf("caught %+v", c)
		}
		select {
		case <-answered:
			t.Error("the answer went out")
		default:
		}
	}) {
		select {
		case <-answered:
			tap.api.Reset()
			tap.mu.Lock()
			clear(tap.visits)
			tap.mu.Unlock()
			go func() { answered <- post(t, tap.url, "2", "a") }()
		default:
		}
	}
	if status := <-answered; status != http.StatusCreated {
		t.Errorf("status %d", status)
	}
	if tap.duringCall(func(Call) {}) {
		t.Error("found a call that was answered")
	}
}
