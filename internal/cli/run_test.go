package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

func TestRunAFileAndAgain(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 30)...)
	args := []string{"run", "calls.jsonl", "--limit", "1000/s", "--out", "out.jsonl", "--json"}

	c := penstock(t, dir, args...).exits(0)
	c.reports(map[string]int{"total": 30, "done": 30, "dead": 0, "cancelled": 0, "invalid": 0, "starts": 30, "refused": 0})
	if got := c.report()["run"]; got != "calls.jsonl" {
		t.Errorf("the run is called %v, expected calls.jsonl", got)
	}
	first := results(t, filepath.Join(dir, "out.jsonl"))
	if len(first) != 30 {
		t.Fatalf("%d results, expected 30", len(first))
	}
	for _, field := range []string{"id", "state", "reason", "status", "attempts", "starts", "throttled", "latency_seconds", "response", "truncated", "finished_at"} {
		if _, ok := first["c7"][field]; !ok {
			t.Errorf("a result lacks %q: %v", field, first["c7"])
		}
	}
	if r := first["c7"]; r["state"] != "done" || r["status"] != 200.0 || r["attempts"] != 1.0 || r["starts"] != 1.0 || r["reason"] != nil {
		t.Errorf("unexpected result: %v", r)
	}
	if n := len(keys(a)); n != 30 {
		t.Errorf("30 calls came with %d idempotency keys", n)
	}

	// A finished file writes all results again, and calls nothing.
	if err := os.Remove(filepath.Join(dir, "out.jsonl")); err != nil {
		t.Fatal(err)
	}
	penstock(t, dir, args...).exits(0).reports(map[string]int{"total": 30, "done": 30, "starts": 0})
	if again := results(t, filepath.Join(dir, "out.jsonl")); len(again) != 30 || again["c7"]["finished_at"] != first["c7"]["finished_at"] {
		t.Errorf("after another run: %d results, c7 %v", len(again), again["c7"])
	}
	if n := len(a.Log()); n != 30 {
		t.Errorf("%d calls after another run, expected 30", n)
	}

	// Lines that were added are new calls.
	write(t, dir, "calls.jsonl", calls(a, 33)...)
	penstock(t, dir, args...).exits(0).reports(map[string]int{"total": 33, "done": 33, "starts": 3})
}

func TestStandardInputAndLineNumbersAsIDs(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	in := "\n" + `{"url": "` + a.URL + `/one"}` + "\r\n\r\n" + `{"url": "` + a.URL + `/two", "method": "put"}` // no end of line
	c := begin(t, dir, func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader(in) },
		"run", "-", "--limit", "100/s", "--out", "out.jsonl", "--db", "other.db", "--json")
	c.wait()
	c.exits(0).reports(map[string]int{"total": 2, "done": 2})
	r := results(t, filepath.Join(dir, "out.jsonl"))
	if r["line-2"] == nil || r["line-4"] == nil {
		t.Errorf("expected ids line-2 and line-4, got %v", r)
	}
	var got []string
	for _, c := range a.Log() {
		got = append(got, c.Method+" "+c.Path)
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"GET /one", "PUT /two"}) {
		t.Errorf("calls: %v", got)
	}
}

func TestTwoRunsOnOneDatabaseShareALimit(t *testing.T) {
	t.Parallel()
	const limit = 20
	dir, a := t.TempDir(), newAPI(t, apisim.Config{Algorithm: apisim.Sliding, Limit: limit, RetryAfter: apisim.RetryAfterSeconds})
	write(t, dir, "one.jsonl", calls(a, 40)...)
	write(t, dir, "two.jsonl", calls(a, 40)...)
	args := []string{"--limit", "20/s", "--db", "shared.db", "--json"}
	one := begin(t, dir, nil, append([]string{"run", "one.jsonl"}, args...)...)
	two := begin(t, dir, nil, append([]string{"run", "two.jsonl"}, args...)...)
	one.wait()
	two.wait()
	one.exits(0).reports(map[string]int{"done": 40, "total": 40})
	two.exits(0).reports(map[string]int{"done": 40, "total": 40})
	s := a.Stats()
	if s.FullestWindow > limit || s.Refused > 1 {
		t.Errorf("fullest window %d of %d, %d refused", s.FullestWindow, limit, s.Refused)
	}
	log := a.Log()
	if span := log[len(log)-1].At - log[0].At; span < 3*time.Second-200*time.Millisecond {
		t.Errorf("80 calls at 20/s took %v: the limit was not shared", span)
	}
}

func TestQueuesAreServedInOrder(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	var lines []string
	for _, q := range []string{"low", "", "high"} {
		for range 5 {
			line := `{"url": "` + a.URL + `/` + q + `"`
			if q != "" {
				line += `, "queue": "` + q + `"`
			}
			lines = append(lines, line+"}")
		}
	}
	write(t, dir, "calls.jsonl", lines...)
	penstock(t, dir, "run", "calls.jsonl", "--limit", "1 in flight", "--queues", "high,low", "--quiet").exits(0)
	got := ""
	for _, c := range a.Log() {
		got += c.Path
	}
	want := strings.Repeat("/high", 5) + strings.Repeat("/low", 5) + strings.Repeat("/", 5)
	if got != want {
		t.Errorf("calls were made as %s, expected %s", got, want)
	}
}

func TestAnOpenAIBatchFileRunsAsItIs(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "batch.jsonl",
		`{"custom_id": "request-1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages": [{"role": "user", "content": "Hi <&>"}]}}`,
		`{"custom_id": "request-2", "method": "POST", "url": "/v1/embeddings", "body": {"model": "m", "input": "x"}}`)
	penstock(t, dir, "run", "batch.jsonl", "--limit", "100/s").exits(2).says("line 1: ", "--base-url")
	for i, base := range []string{a.URL, a.URL + "/v1/"} {
		penstock(t, dir, "run", "batch.jsonl", "--limit", "100/s", "--base-url", base, "--run", []string{"a", "b"}[i]).exits(0)
	}
	got := map[string]int{}
	for _, c := range a.Log() {
		got[c.Method+" "+c.Path]++
	}
	if got["POST /v1/chat/completions"] != 2 || got["POST /v1/embeddings"] != 2 || len(got) != 2 {
		t.Errorf("calls: %v", got)
	}
}

func TestUsageErrorsExitWithTwoAndAHint(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 1)...)
	for _, args := range [][]string{
		{"run"},
		{"run", "a", "b"},
		{"run", "calls.jsonl", "--nonsense"},
		{"run", "calls.jsonl", "--limit", "5"},
		{"run", "calls.jsonl", "--limit", "x=5 per second"},
		{"run", "calls.jsonl", "--limit", "5/s", "--limit", "6/s"},
		{"run", "calls.jsonl", "--concurrency", "none"},
		{"run", "calls.jsonl", "--attempts", "0"},
		{"run", "calls.jsonl", "-H", "no colon"},
		{"run", "calls.jsonl", "--base-url", "ftp://x"},
		{"run", "calls.jsonl", "--queues", "a,a"},
		{"run", "calls.jsonl", "--out", "-"},
		{"frobnicate"},
	} {
		c := penstock(t, dir, args...).exits(2).says("penstock: ", "--help")
		if c.stdout.Len() > 0 {
			t.Errorf("%v: standard output is not empty: %s", args, &c.stdout)
		}
	}
	penstock(t, dir, "run", "missing.jsonl").exits(2).says("missing.jsonl")
	if n := len(a.Log()); n > 0 {
		t.Errorf("%d calls were made", n)
	}
	help := penstock(t, dir, "run", "--help").exits(0).stdout.String()
	for _, text := range []string{"Examples:", "--retry-dead", "idempotency_key", "Exit code"} {
		if !strings.Contains(help, text) {
			t.Errorf("the help lacks %q", text)
		}
	}
}

// Two processes may work on one run: each call is made once, and each process
// leaves all results in its own file. They do not share one.
func TestTwoProcessesWorkOnOneRun(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 40)...)
	args := []string{"run", "calls.jsonl", "--limit", "6 in flight", "--concurrency", "3", "--json"}
	a.holdAll()
	one := begin(t, dir, nil, append(args, "--out", "one.out")...)
	a.await(t, 3)
	two := begin(t, dir, nil, append(args, "--out", "two.out")...)
	a.await(t, 6) // both are at work
	penstock(t, dir, append(args, "--out", "one.out")...).exits(2).says("another process is writing it")
	a.release()
	one.wait()
	two.wait()
	for _, c := range []*command{one, two} {
		c.exits(0).reports(map[string]int{"total": 40, "done": 40})
	}
	if n := len(a.Log()); n != 40 {
		t.Errorf("%d calls, expected 40", n)
	}
	for _, out := range []string{"one.out", "two.out"} {
		if n := len(results(t, filepath.Join(dir, out))); n != 40 {
			t.Errorf("%s has %d results, expected 40", out, n)
		}
	}
}

// An API that says "not now" holds up its calls, and spends none of their
// attempts.
func TestRefusalsAreNoFailures(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{Algorithm: apisim.Fixed, Limit: 5, RetryAfter: apisim.RetryAfterExact})
	write(t, dir, "calls.jsonl", calls(a, 12)...)
	c := penstock(t, dir, "run", "calls.jsonl", "--limit", "1000/s", "--attempts", "1", "--out", "out.jsonl", "--json").exits(0)
	c.reports(map[string]int{"done": 12, "dead": 0})
	r := c.report()
	if r["refused"].(float64) < 1 || r["starts"] != r["refused"].(float64)+12 {
		t.Errorf("report: %s", &c.stdout)
	}
	throttled := 0.0
	for _, line := range results(t, filepath.Join(dir, "out.jsonl")) {
		throttled += line["throttled"].(float64)
		if line["attempts"] != 1.0 {
			t.Errorf("attempts: %v", line)
		}
	}
	if throttled != r["refused"] {
		t.Errorf("%v starts were throttled by the results, %v refused by the report", throttled, r["refused"])
	}
}
