package apisim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMessages(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		param      string // the part of the body that is complained about
	}{
		{"good", sms("m1"), 201, ""},
		{"no plus", `{"to": "15550001234", "text": "x"}`, 400, "to"},
		{"letters", `{"to": "+1555CALLME", "text": "x"}`, 400, "to"},
		{"too long", `{"to": "+1555000123456789", "text": "x"}`, 400, "to"},
		{"too short", `{"to": "+1555", "text": "x"}`, 400, "to"},
		{"no text", `{"to": "+15550001234"}`, 400, "text"},
		{"no JSON", `to=1`, 400, "body"},
		{"empty", ``, 400, "body"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// A call at fault is told so, however bad the API's day is.
			rate := 0.0
			if tt.status == 400 {
				rate = 1
			}
			api := mustNew(t, Config{Error5xx: rate})
			answer, _ := send(api, "POST", "/messages", "", tt.body)
			if answer.Code != tt.status {
				t.Fatalf("status %d, want %d: %s", answer.Code, tt.status, answer.Body)
			}
			body := decode(t, answer)
			if tt.param != "" && body["error"].(map[string]any)["param"] != tt.param {
				t.Errorf("%v does not point to %q", body, tt.param)
			}
			if got, want := len(Delivered(api.Log())), map[bool]int{true: 1}[tt.status == 201]; got != want {
				t.Errorf("%d delivered, want %d", got, want)
			}
		})
	}
}

func TestDedupe(t *testing.T) {
	for _, dedupe := range []bool{true, false} {
		t.Run(fmt.Sprint(dedupe), func(t *testing.T) {
			api := mustNew(t, Config{Dedupe: dedupe})
			first, _ := send(api, "POST", "/messages", "k1", sms("m1"))
			again, _ := send(api, "POST", "/messages", "k1", sms("m1"))
			other, _ := send(api, "POST", "/messages", "k2", sms("m2"))
			if first.Code != 201 || again.Code != 201 || other.Code != 201 {
				t.Fatalf("statuses %d, %d, %d", first.Code, again.Code, other.Code)
			}
			if got := again.Header().Get("Idempotent-Replayed") == "true"; got != dedupe {
				t.Errorf("the repeat says replayed %v", got)
			}
			if first.Header().Get("Idempotent-Replayed") != "" || other.Header().Get("Idempotent-Replayed") != "" {
				t.Error("a first call says that it is replayed")
			}
			if same := decode(t, first)["id"] == decode(t, again)["id"]; same != dedupe {
				t.Errorf("the repeat has the first one's answer: %v", same)
			}
			log := api.Log()
			if log[1].Replayed != dedupe || log[1].Delivered == dedupe || log[1].Occurrence != 2 {
				t.Errorf("the repeat is logged as %+v", log[1])
			}
			if got, want := Delivered(log)["m1"], map[bool]int{true: 1, false: 2}[dedupe]; got != want {
				t.Errorf("m1 was delivered %d times, want %d", got, want)
			}
			changed, _ := send(api, "POST", "/messages", "k1", sms("m3"))
			if want := map[bool]int{true: 422, false: 201}[dedupe]; changed.Code != want {
				t.Errorf("the key with another body: %d, want %d", changed.Code, want)
			}
		})
	}
}

// TestFailuresPassOnRepeat: which calls fail follows from the seed alone, about
// the share that was asked for does, and a repeat can pass. A failure after the
// effect is told from one before by the log only.
func TestFailuresPassOnRepeat(t *testing.T) {
	run := func(seed uint64) (statuses []int, api *API) {
		api = mustNew(t, Config{Error5xx: 0.3, Dedupe: true, Seed: seed})
		for i := range 1000 {
			key := fmt.Sprintf("k%d", i)
			for try := 1; ; try++ {
				answer, _ := send(api, "POST", "/messages", key, sms(key))
				statuses = append(statuses, answer.Code)
				if answer.Code == 201 {
					break
				}
				if try == 50 {
					t.Fatalf("%s never passes", key)
				}
			}
		}
		return statuses, api
	}
	statuses, api := run(1)
	if same, _ := run(1); fmt.Sprint(same) != fmt.Sprint(statuses) {
		t.Error("the same seed gives other failures")
	}
	if other, _ := run(2); fmt.Sprint(other) == fmt.Sprint(statuses) {
		t.Error("another seed gives the same failures")
	}
	s := api.Stats()
	if share := float64(s.Failed) / float64(s.Calls); share < 0.25 || share > 0.35 {
		t.Errorf("%.3f of the calls failed, want about 0.3", share)
	}
	afterEffect := 0
	for _, c := range api.Log() {
		if c.Status >= 500 && (c.Delivered || c.Replayed) {
			afterEffect++
		}
	}
	if share := float64(afterEffect) / float64(s.Failed); share < 0.4 || share > 0.6 {
		t.Errorf("%.3f of the failures came after the effect, want about a half", share)
	}
	if s.Delivered != 1000 || s.Messages != 1000 {
		t.Errorf("%d deliveries of %d messages, want 1000 of 1000", s.Delivered, s.Messages)
	}
}

func TestAfterEffect(t *testing.T) {
	for share, want := range map[float64]int{-1: 0, 1: 100} {
		api := mustNew(t, Config{Error5xx: 1, AfterEffect: share})
		for i := range 100 {
			send(api, "POST", "/messages", "", sms(fmt.Sprint(i)))
		}
		if s := api.Stats(); s.Failed != 100 || s.Delivered != want {
			t.Errorf("share %v: %d failed, %d delivered, want 100 and %d", share, s.Failed, s.Delivered, want)
		}
	}
}

func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := mustNew(t, Config{TimeoutRate: 1, TimeoutHold: time.Minute, Latency: time.Second})
		aborts := 0
		for i := range 40 {
			start := time.Now()
			answer, aborted := send(api, "POST", "/messages", "", sms(fmt.Sprint(i)))
			if took := time.Since(start); took != 61*time.Second {
				t.Fatalf("the call hung for %v", took)
			}
			logged := api.LogFrom(i)[0]
			if aborted {
				aborts++
			} else if answer.Code != 504 {
				t.Fatalf("status %d", answer.Code)
			}
			if !logged.Held || aborted != (logged.Status == 0) {
				t.Errorf("aborted %v, logged as %+v", aborted, logged)
			}
		}
		if aborts == 0 || aborts == 40 {
			t.Errorf("%d of 40 connections were closed", aborts)
		}
	})
}

// TestCloseEndsWaits: a hung call does not outlive the API.
func TestCloseEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := mustNew(t, Config{Latency: time.Hour})
		start := time.Now()
		done := make(chan int)
		go func() { done <- get(t, api) }()
		synctest.Wait()
		api.Close()
		api.Close()
		<-done
		if time.Since(start) != 0 {
			t.Errorf("the call ended after %v", time.Since(start))
		}
	})
}

// TestCountedAtArrival: jitter comes before the count, latency after it.
func TestCountedAtArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := mustNew(t, Config{Latency: 5 * time.Second})
		get(t, api)
		if at := api.Log()[0].At; at != 0 || time.Since(api.start) != 5*time.Second {
			t.Errorf("latency: counted at %v, answered after %v", at, time.Since(api.start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		api := mustNew(t, Config{JitterMean: 10 * time.Millisecond, Seed: 3})
		var sum time.Duration
		for range n {
			start := time.Since(api.start)
			get(t, api)
			log := api.LogFrom(len(api.Log()) - 1)
			if answered := time.Since(api.start); answered != log[0].At {
				t.Fatalf("counted at %v, answered at %v", log[0].At, answered)
			}
			sum += log[0].At - start
		}
		if mean := sum / n; mean < 9*time.Millisecond || mean > 11*time.Millisecond {
			t.Errorf("mean jitter %v, want about 10 ms", mean)
		}
	})
}

func TestEchoAndStatus(t *testing.T) {
	api := mustNew(t, Config{})
	for path, want := range map[string]int{"/anything": 200, "/status/503": 503, "/status/204": 204, "/status/42": 400, "/status/x": 400, "/messages": 200} {
		if answer, _ := send(api, "GET", path, "k", ""); answer.Code != want {
			t.Errorf("GET %s: %d, want %d", path, answer.Code, want)
		}
	}
	answer, _ := send(api, "PUT", "/orders", "key-1", "{}")
	body := decode(t, answer)
	if body["key"] != "key-1" || body["method"] != "PUT" || body["n"] != 7.0 {
		t.Errorf("echo %v", body)
	}
	if answer, _ := send(api, "POST", "/x", "", strings.Repeat("x", maxBody+1)); answer.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a huge body: %d", answer.Code)
	}
}

func TestControl(t *testing.T) {
	clock := newClock()
	api := mustNew(t, Config{Algorithm: GCRA, Limit: 20, RetryAfter: RetryAfterSeconds, Now: clock.Now})
	control := func(method, path, body string, status int) map[string]any {
		t.Helper()
		answer, _ := send(api, method, "/_apisim/"+path, "", body)
		if answer.Code != status {
			t.Fatalf("%s %s: %d %s, want %d", method, path, answer.Code, answer.Body, status)
		}
		if answer.Body.Len() == 0 {
			return nil
		}
		return decode(t, answer)
	}
	send(api, "POST", "/messages", "k", sms("m1"))
	for range 3 {
		get(t, api)
	}
	stats := control("GET", "stats", "", 200)
	if stats["calls"] != 4.0 || stats["accepted"] != 2.0 || stats["refused"] != 2.0 || stats["delivered"] != 1.0 {
		t.Errorf("stats %v", stats)
	}
	answer, _ := send(api, "GET", "/_apisim/log?from=1", "", "")
	lines := bufio.NewScanner(answer.Body)
	var seqs []int
	for lines.Scan() {
		var c Call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, c.Seq)
	}
	if fmt.Sprint(seqs) != "[2 3 4]" {
		t.Errorf("the log from 1 has %v", seqs)
	}

	config := control("GET", "config", "", 200)
	if config["limit"] != 20.0 || config["burst"] != 2.0 || config["window"] != "1s" {
		t.Errorf("config %v", config)
	}
	config = control("POST", "config", `{"limit": 50, "latency": "0s", "pause_for": "90s"}`, 200)
	if config["limit"] != 50.0 || config["burst"] != 5.0 || config["pause_for"] != "1m30s" {
		t.Errorf("config after the change %v", config)
	}
	clock.after(time.Second)
	if answer, _ := send(api, "GET", "/", "", ""); answer.Code != 429 || answer.Header().Get("Retry-After") != "89" {
		t.Errorf("paused: %d, Retry-After %q", answer.Code, answer.Header().Get("Retry-After"))
	}
	control("POST", "config", `{"pause_for": "0s"}`, 200)
	if got := get(t, api); got != 200 {
		t.Errorf("after the pause: %d", got)
	}
	for _, bad := range []string{`{"limits": 5}`, `{"limit": -1}`, `{"window": 5}`, `{"window": "soon"}`, `{"algorithm": "guess"}`, ``} {
		control("POST", "config", bad, 400)
	}
	control("GET", "nothing", "", 404)
	control("DELETE", "log", "", 404)
	control("GET", "log?from=-1", "", 400)

	control("POST", "reset", "", 204)
	if len(api.Log()) != 0 {
		t.Error("the log is not empty after a reset")
	}
	if limit := control("GET", "config", "", 200)["limit"]; limit != 50.0 {
		t.Errorf("the limit after a reset is %v", limit)
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	_, err := New(Config{Algorithm: "guess", RetryAfter: "soon", Announce: "loudly", Window: -1, Burst: -1, MaxInFlight: -1,
		JitterMean: -1, Latency: -1, TimeoutHold: -1, Error5xx: 0.7, TimeoutRate: 0.7, AfterEffect: 2})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"algorithm", "limit", "retry-after", "announce", "window", "burst", "max in flight", "jitter", "latency", "timeout hold", "errors and timeouts", "after the effect"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not speak of %s:\n%v", want, err)
		}
	}
}
