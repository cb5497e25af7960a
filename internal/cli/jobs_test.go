package cli_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pen "github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

// TestShowTellsTheWholeHistory: each start with its status, the headers about
// limits, the beginning of the answer, and how long it waited.
func TestShowTellsTheWholeHistory(t *testing.T) {
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch calls.Add(1) {
		case 1:
			w.WriteHeader(500)
			_, _ = fmt.Fprint(w, strings.Repeat("long ", 1000))
		case 2:
			w.Header().Set("Retry-After", "1")
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("Set-Cookie", "secret=1")
			w.WriteHeader(429)
		default:
			_, _ = fmt.Fprint(w, `{"id": 9007199254740993, "access_token": "tok-12345678"}`)
		}
	}))
	defer s.Close()
	dir := t.TempDir()
	id := penstock(t, dir, "enqueue", "--url", s.URL+"/x?api_key=${K}", "-H", "Authorization: Bearer ${K}",
		"--data", `{"n": 899999999999999990, "password": "hunter22", "at": "https://u:p@h.example/"}`).id()
	penstock(t, dir, "jobs", "show", id).exits(0).prints("waiting", "waits for", "no live worker")
	t.Setenv("K", "key-12345678")
	penstock(t, dir, "work", "--drain").exits(0)
	page := penstock(t, dir, "jobs", "show", id, "--json").exits(0).lines()[0]
	history := page["history"].([]any)
	if len(history) != 4 {
		t.Fatalf("history %v", history)
	}
	for i, want := range []map[string]string{
		{"what": "enqueued", "started_at": "<nil>"},
		{"what": "retry", "status": "500"},
		{"what": "throttled", "status": "429"},
		{"what": "done", "status": "200", "response": `{"id": 9007199254740993, "access_token": "***"}`, "next_at": "<nil>"},
	} {
		got := history[i].(map[string]any)
		for k, v := range want {
			if sprint(got[k]) != v {
				t.Errorf("history %d: %s is %v, want %s", i, k, got[k], v)
			}
		}
	}
	failed, refused := history[1].(map[string]any), history[2].(map[string]any)
	if n := len(failed["response"].(string)); n < 2000 || n > 2100 {
		t.Errorf("%d bytes of the first answer are shown", n)
	}
	if h := sprint(refused["headers"]); !strings.Contains(h, "Retry-After:1") || !strings.Contains(h, "X-Ratelimit-Remaining:0") || strings.Contains(h, "secret") {
		t.Errorf("headers %s", h)
	}
	if failed["next_at"] == nil || refused["started_at"] == nil {
		t.Errorf("history %v", history)
	}
	payload := penstock(t, dir, "jobs", "show", id).exits(0)
	payload.prints("899999999999999990", "9007199254740993", `"password": "***"`, "***@h.example", "Bearer ${K}", "api_key=${K}", "1 refusal by the API", "Retry-After: 1", "due again at")
	for _, secret := range []string{"hunter22", "u:p@", "tok-12345678"} {
		if strings.Contains(payload.stdout.String(), secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	penstock(t, dir, "jobs", "show", id, "--unmasked").exits(0).prints("hunter22", "https://u:p@h.example/")
	penstock(t, dir, "jobs", "show", "99").exits(2).says("there is no job 99")
	penstock(t, dir, "jobs", "show", "no-id").exits(2).says("RUN/CALL-ID")
}

// TestListOfJobs: filters, pages and JSON, without bodies.
func TestListOfJobs(t *testing.T) {
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", append(calls(a, 5), fmt.Sprintf(`{"id": "bad", "url": "%s/status/404", "limits": {"tokens": 7}}`, a.URL))...)
	penstock(t, dir, "run", "calls.jsonl", "--run", "r", "--limit", "tokens=100/s").exits(1)
	penstock(t, dir, "enqueue", "--url", a.URL+"/later", "--delay", "1h", "--queue", "slow", "--data", `{"secret": "body"}`).id()
	for n, filters := range map[int][]string{
		7: {"--kind http", "--limit " + a.Host, "--newer-than 1h"},
		6: {"--run r", "--state done,dead"},
		5: {"--state done"},
		1: {"--state dead", "--state waiting", "--queue slow", "--limit tokens", "--text 404", "--after 6", "--reason rejected"},
		0: {"--state running", "--older-than 1h", "--queue none"},
	} {
		for _, f := range filters {
			c := penstock(t, dir, append([]string{"jobs", "--json"}, strings.Fields(f)...)...).exits(0)
			if got := len(c.lines()); got != n {
				t.Errorf("%s selects %d, want %d", f, got, n)
			}
			if strings.Contains(c.stdout.String(), "body") {
				t.Errorf("a body is in the list: %s", &c.stdout)
			}
		}
	}
	penstock(t, dir, "dead", "show", "r/bad").exits(0).prints("404")
	penstock(t, dir, "jobs", "cancel", "r/none").exits(2).says("no call \"none\"")
	dead := penstock(t, dir, "jobs", "--state", "dead", "--json").lines()[0]
	for k, v := range map[string]string{"ref": "bad", "run": "r", "kind": "http", "reason": "rejected", "limits": "map[" + a.Host + ":1 tokens:7]", "starts": "1"} {
		if sprint(dead[k]) != v {
			t.Errorf("%s is %v, want %s", k, dead[k], v)
		}
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z", sprint(dead["finished_at"])); err != nil {
		t.Error(err)
	}
	penstock(t, dir, "jobs", "-n", "2").exits(0).says("--after 2").prints("ID", "STATE")
	penstock(t, dir, "jobs", "--queue", "slow").exits(0).prints("due in")
	penstock(t, dir, "jobs", "--state", "lost").exits(2).says("expected waiting")
	penstock(t, dir, "jobs", "5").exits(2).says("takes no arguments")
}

// The newest jobs come first if asked for, and the pages go down to the oldest one.
func TestListOfTheNewestJobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var ids []string
	for range 5 {
		ids = append(ids, penstock(t, dir, "enqueue", "--url", "http://127.0.0.1:1/x").id())
	}
	penstock(t, dir, "jobs", "cancel", ids[3]).exits(0)
	slices.Reverse(ids)
	for _, list := range []string{"jobs", "dead"} {
		penstock(t, dir, list, "--before", "0").exits(2).says("expected the id of a job")
	}
	var got []string
	for args := []string{"jobs", "--newest", "-n", "2", "--json"}; ; args = append(args[:5:5], "--before", got[len(got)-1]) {
		c := penstock(t, dir, args...).exits(0)
		page := c.lines()
		for _, j := range page {
			got = append(got, sprint(j["id"]))
		}
		if len(page) < 2 {
			break
		}
		c.says("go on with --before " + got[len(got)-1])
	}
	if !slices.Equal(got, ids) {
		t.Errorf("listed %q, want %q", got, ids)
	}
	if page := penstock(t, dir, "jobs", "--after", ids[4], "--before", ids[1], "--json").exits(0).lines(); len(page) != 2 || sprint(page[0]["id"]) != ids[3] {
		t.Errorf("between two ids there are %v", page)
	}
	if q := penstock(t, dir, "queues", "--json").object(); q["cancelled"] != json.Number("1") || q["due"] != json.Number("4") {
		t.Errorf("the queue is %v, want 1 cancelled and 4 due", q)
	}
	penstock(t, dir, "queues").exits(0).prints("CANCELLED")
}

// TestK3_CancelTellsTheTruth: cancel reported success while the work ran on, was
// overwritten by "completed", or marked a finished job cancelled
// (grantcarthew/node-rethinkdb-job-queue#82).
func TestK3_CancelTellsTheTruth(t *testing.T) {
	var broken sync.WaitGroup
	arrived := make(chan string, 16)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.Path
		if r.URL.Path == "/long" {
			<-r.Context().Done()
			broken.Done()
		}
	}))
	defer s.Close()
	dir := t.TempDir()
	enqueue := func(path string, more ...string) string {
		return penstock(t, dir, append([]string{"enqueue", "--url", s.URL + path}, more...)...).id()
	}
	later := enqueue("/later", "--delay", "1h")
	done := enqueue("/done")
	work := begin(t, dir, nil, "work")
	if path := <-arrived; path != "/done" {
		t.Fatal(path)
	}
	broken.Add(1)
	long := enqueue("/long")
	if path := <-arrived; path != "/long" {
		t.Fatal(path)
	}
	begun := time.Now()
	penstock(t, dir, "jobs", "cancel", long, later).exits(0).prints("job "+long+": cancelled", "job "+later+": cancelled")
	broken.Wait() // the API saw the call broken off
	t.Logf("cancelled after %v", time.Since(begun))
	c := openDB(t, dir)
	await(t, "the other call is done", func() bool { return state(t, c, done) == pen.Done })
	penstock(t, dir, "jobs", "cancel", done).exits(1).prints("job " + done + ": done: it had ended before")
	penstock(t, dir, "jobs", "cancel", long, "77").exits(1).prints("it was cancelled before", "job 77: there is no such job")
	got := penstock(t, dir, "jobs", "cancel", later, "--json").exits(0).lines()[0]
	if sprint(got["state"]) != "cancelled" || got["cancelled_now"] != false {
		t.Errorf("printed %v", got)
	}
	penstock(t, dir, "jobs", "show", long).exits(0).prints("cancelled")
	for id, want := range map[string]pen.State{later: pen.Cancelled, long: pen.Cancelled, done: pen.Done} {
		if got := state(t, c, id); got != want {
			t.Errorf("job %s is %v, want %v", id, got, want)
		}
	}
	work.kill(syscall.SIGTERM)
	work.wait()
	work.exits(143)
}

// TestK3_CancelRaces: jobs are cancelled at any moment around their start and
// end; what is reported is what the API saw.
func TestK3_CancelRaces(t *testing.T) {
	var mu sync.Mutex
	answered := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(50 * time.Millisecond):
			mu.Lock()
			answered[r.URL.Path] = true
			mu.Unlock()
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	const n = 200
	dir := t.TempDir()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"url": "%s/%d"}`, s.URL, i+1)
	}
	write(t, dir, "calls.jsonl", lines...)
	run := begin(t, dir, nil, "run", "calls.jsonl", "--limit", "50/s, 10 in flight", "--concurrency", "10")
	c := openDB(t, dir)
	await(t, "the calls are there", func() bool { return every(t, c, pen.Filter{}, nil) == n })
	order := rand.New(rand.NewPCG(3, 3)).Perm(n)[:60]
	reported := map[int]string{}
	for len(order) > 0 {
		args := []string{"jobs", "cancel", "--json"}
		for range 6 {
			args = append(args, fmt.Sprint(order[0]+1))
			order = order[1:]
		}
		for _, l := range penstock(t, dir, args...).lines() {
			var id int
			_, _ = fmt.Sscan(sprint(l["id"]), &id)
			reported[id] = sprint(l["state"])
		}
	}
	run.wait()
	saw := map[string]int{}
	for id, said := range reported {
		got := state(t, c, fmt.Sprint(id)).String()
		if said != got {
			t.Errorf("job %d was reported %s and is %s", id, said, got)
		}
		mu.Lock()
		if said == "done" && !answered[fmt.Sprintf("/%d", id)] {
			t.Errorf("job %d is done, and the API has not answered it", id)
		}
		mu.Unlock()
		saw[said]++
	}
	t.Logf("reported: %v", saw)
	info, err := c.LimitByName(t.Context(), strings.TrimPrefix(s.URL, "http://"))
	if err != nil || info.State.InFlight() != 0 {
		t.Errorf("in flight %d in the end, %v", info.State.InFlight(), err)
	}
}
