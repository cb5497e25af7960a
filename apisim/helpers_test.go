package apisim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// stepClock is a clock that moves only when it is told to.
type stepClock struct{ now time.Time }

// newClock starts at a whole second, so that fixed windows of a second start there.
func newClock() *stepClock { return &stepClock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *stepClock) Now() time.Time        { return c.now }
func (c *stepClock) after(d time.Duration) { c.now = c.now.Add(d) }
func ms(n float64) time.Duration           { return time.Duration(n * float64(time.Millisecond)) }

func mustNew(t testing.TB, c Config) *API {
	t.Helper()
	api, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// send makes one call without a network. aborted tells that the connection was
// closed instead of an answer.
func send(h http.Handler, method, path, key, body string) (answer *httptest.ResponseRecorder, aborted bool) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer = httptest.NewRecorder()
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				panic(p)
			}
			aborted = true
		}
	}()
	h.ServeHTTP(answer, r)
	return answer, false
}

// get makes one call that must be answered, and returns its status.
func get(t testing.TB, h http.Handler) int {
	t.Helper()
	answer, aborted := send(h, "GET", "/", "", "")
	if aborted {
		t.Fatal("the connection was closed")
	}
	return answer.Code
}

func sms(id string) string {
	return fmt.Sprintf(`{"to": "+15550001234", "text": "hello", "message_id": %q}`, id)
}

func decode(t testing.TB, answer *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &v); err != nil {
		t.Fatalf("%q: %v", answer.Body, err)
	}
	return v
}
