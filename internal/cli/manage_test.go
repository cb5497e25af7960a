package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

// object reads the one JSON line of standard output.
func (c *command) object() map[string]any {
	c.t.Helper()
	all := c.exits(0).lines()
	if len(all) != 1 {
		c.t.Fatalf("%d JSON lines, expected one:\n%s\n%s", len(all), &c.stdout, &c.stderr)
	}
	return all[0]
}

// until asks again and again, for as long as anybody has the patience.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", patience, what)
		}
	}
}

// worked makes a database in dir by a run of n calls, and returns its API.
func worked(t *testing.T, dir string, n int) *api {
	t.Helper()
	a := newAPI(t, apisim.Config{})
	write(t, dir, "first.jsonl", calls(a, n)...)
	penstock(t, dir, "run", "first.jsonl", "--limit", "1000/s", "-q").exits(0)
	return a
}

// manage are the commands of this file, as they are used rightly.
func manage(host string) [][]string {
	return [][]string{
		{"limits"}, {"limits", "show", host}, {"limits", "set", host, "500/s"}, {"limits", "reset", host},
		{"limits", "pause", host, "--for", "10m", "--reason", "x"}, {"limits", "resume", host},
		{"queues"}, {"queues", "pause", "q"}, {"queues", "resume", "q"},
		{"why", "1"}, {"why", "first.jsonl/c0"}, {"why", "--run", "first.jsonl", "c0"},
		{"doctor"}, {"doctor", "--fast"}, {"prune", "--older-than", "24h"},
	}
}

func TestManagingNeedsADatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range manage("api") {
		penstock(t, dir, args...).exits(2).says("there is no database penstock.db")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files were made: %v, %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "penstock.db"), []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range manage("api") {
		penstock(t, dir, args...).exits(3).says("penstock.db")
	}
}

func TestManagingSpeaksToPeopleAndPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := worked(t, dir, 3)
	for _, args := range manage(a.Host) {
		if c := penstock(t, dir, args...).exits(0); c.stdout.Len() == 0 {
			t.Errorf("%v says nothing", args)
		}
		for _, line := range penstock(t, dir, append(args, "--json")...).exits(0).lines() {
			for key := range line {
				if key != strings.ToLower(key) || strings.ContainsAny(key, "- ") {
					t.Errorf("%v: the key %q is not snake_case", args, key)
				}
			}
		}
		help := penstock(t, dir, args[0], "--help").exits(0)
		if !strings.Contains(help.stdout.String(), "Examples:\n  penstock ") {
			t.Errorf("%s --help has no example", args[0])
		}
	}
}

func TestManagingBadUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := worked(t, dir, 1)
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"limits", "set", a.Host}, "expected a name and a SPEC"},
		{[]string{"limits", "set", a.Host, "5 per second"}, "5 per second"},
		{[]string{"limits", "set", a.Host + "0", "5/s"}, "but there is"},
		{[]string{"limits", "set", "other/*/x", "5/s", "--new"}, ""},
		{[]string{"limits", "pause", "nobody", "--for", "10m"}, `there is no limit "nobody"`},
		{[]string{"limits", "pause", a.Host, "--for", "-1s"}, "--for"},
		{[]string{"limits", "show"}, "expected the name of one limit"},
		{[]string{"limits", "reset", "nobody"}, "there is no limit"},
		{[]string{"limits", "-n", "0"}, "-n"},
		{[]string{"limits", "extra"}, "extra"},
		{[]string{"queues", "pause"}, "expected the name of one queue"},
		{[]string{"why"}, "expected one job"},
		{[]string{"why", "seventeen"}, "RUN/CALL-ID"},
		{[]string{"why", "17"}, "there is no job 17"},
		{[]string{"why", "first.jsonl/c9"}, `there is no call "c9" of run "first.jsonl"`},
		{[]string{"prune"}, "--older-than"},
		{[]string{"prune", "--older-than", "soon"}, "soon"},
		{[]string{"doctor", "now"}, "now"},
	} {
		if c := penstock(t, dir, tt.args...); c.code != 2 && tt.says != "" || !strings.Contains(c.stderr.String(), tt.says) {
			t.Errorf("%v: exit %d, says %q, expected 2 and %q", tt.args, c.code, &c.stderr, tt.says)
		}
	}
	penstock(t, dir, "limits", "set", "later", "5/s", "--new").exits(0)
	if got := penstock(t, dir, "limits", "show", "later", "--json").object(); got["spec"] != "5/s" {
		t.Errorf("a limit that code will declare: %v", got)
	}
}

// A spec that a person sets wins at once over a process that works under another
// one, and over one that starts later and declares another one.
func TestLimitSetWinsAtOnceAndThroughRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 8)...)
	run := begin(t, dir, nil, "run", "calls.jsonl", "--limit", "1/h", "--json")
	a.await(t, 1)
	c := penstock(t, dir, "limits", "set", a.Host, "1000/s", "--json").object()
	if c["spec"] != "1000/s" || c["declared"] != "1/h" || c["set"] != "1000/s" {
		t.Errorf("after set: %v", c)
	}
	run.wait()
	run.exits(0).reports(map[string]int{"done": 8})

	write(t, dir, "more.jsonl", calls(a, 5)...)
	penstock(t, dir, "run", "more.jsonl", "--limit", "1/h", "--json").exits(0).reports(map[string]int{"done": 5})

	penstock(t, dir, "limits", "reset", a.Host).exits(0).prints("1/h")
	page := penstock(t, dir, "limits", "show", a.Host, "--json").object()
	changes := fmt.Sprint(page["changes"])
	if page["spec"] != "1/h" || page["set"] != nil || !strings.Contains(changes, "set to 1000/s, declared is 1/h") || !strings.Contains(changes, "reset from 1000/s") {
		t.Errorf("after reset: %v", page)
	}
}

// A limit that a person paused stands still whatever process comes, says so, and
// goes on when it is resumed.
func TestLimitPauseHoldsUntilItIsResumed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := worked(t, dir, 1)
	penstock(t, dir, "limits", "pause", a.Host, "--for", "2h", "--reason", "they deploy").exits(0).prints("paused by a person", "they deploy")
	write(t, dir, "calls.jsonl", calls(a, 4)...)
	run := begin(t, dir, nil, "run", "calls.jsonl", "--limit", "1000/s", "--json")
	var waits []any
	until(t, "no process works the run", func() bool {
		c := penstock(t, dir, "why", "calls.jsonl/c3", "--json")
		if c.code != 0 {
			return false // not loaded yet
		}
		waits, _ = c.lines()[0]["waits"].([]any)
		return !strings.Contains(fmt.Sprint(waits), "no_worker")
	})
	if text := fmt.Sprint(waits); !strings.Contains(text, "paused by a person") || !strings.Contains(text, "limit:"+a.Host) {
		t.Errorf("the job waits for %v", waits)
	}
	page := penstock(t, dir, "limits", "show", a.Host, "--json").object()
	pause, _ := page["paused"].(map[string]any)
	if pause["by"] != "person" || pause["reason"] != "they deploy" || pause["since"] == nil || page["due_jobs_in_line"] != json.Number("4") {
		t.Errorf("while it is paused: %v", page)
	}
	if n := len(a.Log()); n != 1 {
		t.Errorf("%d calls were made under a paused limit", n-1)
	}
	penstock(t, dir, "limits", "resume", a.Host).exits(0)
	run.wait()
	run.exits(0).reports(map[string]int{"done": 4})
}

// The call that had the API pause a limit is named, with its status.
func TestLimitShowNamesTheCauseOfAPause(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newAPI(t, apisim.Config{Algorithm: apisim.Sliding, Limit: 3, Window: time.Second, RetryAfter: apisim.RetryAfterSeconds})
	write(t, dir, "calls.jsonl", calls(a, 5)...)
	penstock(t, dir, "run", "calls.jsonl", "--limit", "1000/s burst 1000", "-q").exits(0)
	page := penstock(t, dir, "limits", "show", a.Host, "--json").object()
	cause, _ := page["last_pause_caused_by"].(map[string]any)
	if cause["run"] != "calls.jsonl" || !strings.HasPrefix(fmt.Sprint(cause["ref"]), "c") || cause["status"] != json.Number("429") {
		t.Errorf("the cause: %v", cause)
	}
	sum := func(name string) (n int64) {
		for _, x := range page["history"].(map[string]any)[name].([]any) {
			i, _ := x.(json.Number).Int64()
			n += i
		}
		return n
	}
	refused := 0
	for _, c := range a.Log() {
		if c.Refused {
			refused++
		}
	}
	if refused == 0 || sum("refused") != int64(refused) || sum("granted") != int64(len(a.Log())) {
		t.Errorf("the API saw %d calls and refused %d; the history has %d and %d", len(a.Log()), refused, sum("granted"), sum("refused"))
	}
	penstock(t, dir, "limits", "show", a.Host).exits(0).prints("status 429", "calls.jsonl/c", "refused ")
}

// K1 (sidekiq/sidekiq#4975, OptimalBits/bull#247, OptimalBits/bull#1087): a
// paused queue still ran a few jobs each time a worker started or recovered what
// a dead one had left.
func TestK1_APausedQueueStartsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newAPI(t, apisim.Config{})
	line := func(queue string, i int) string {
		return fmt.Sprintf(`{"id": "%s%d", "url": "%s/%s", "queue": "%s"}`, queue, i, a.URL, queue, queue)
	}
	// Two calls of the queue are lost with their process.
	a.holdAll()
	lost := []string{line("paused", 0), line("paused", 1)}
	write(t, dir, "calls.jsonl", lost...)
	run := begin(t, dir, nil, "run", "calls.jsonl", "--limit", "1000/s")
	a.await(t, 2)
	penstock(t, dir, "queues", "pause", "paused", "--reason", "repairs").exits(0).prints("repairs")
	run.kill(syscall.SIGKILL)
	run.wait()
	a.release()

	const rounds = 5
	var text []string
	for i := range 10 {
		text = append(text, line("paused", i))
	}
	for round := range rounds {
		text = append(text, line("open", round))
		write(t, dir, "calls.jsonl", text...)
		run := begin(t, dir, nil, "run", "calls.jsonl", "--limit", "1000/s")
		until(t, "the open queue is not worked", func() bool {
			c := penstock(t, dir, "why", fmt.Sprintf("calls.jsonl/open%d", round), "--json")
			return c.code == 0 && c.lines()[0]["state"] == "done"
		})
		until(t, "the lost calls are not taken back", func() bool {
			return penstock(t, dir, "why", "calls.jsonl/paused0", "--json").object()["state"] == "waiting"
		})
		run.kill(syscall.SIGKILL)
		run.wait()
	}
	for _, c := range a.Log()[2:] {
		if c.Path == "/paused" {
			t.Errorf("call %d came from the paused queue", c.Seq)
		}
	}
	for _, q := range penstock(t, dir, "queues", "--json").exits(0).lines() {
		if q["name"] == "paused" && (q["due"] != json.Number("10") || q["running"] != json.Number("0") || q["paused"] == nil) {
			t.Errorf("the paused queue: %v", q)
		}
	}
	penstock(t, dir, "queues", "resume", "paused").exits(0)
	penstock(t, dir, "run", "calls.jsonl", "--limit", "1000/s", "--json").exits(0).reports(map[string]int{"done": 10 + rounds})
}

func TestWhyThroughAJobsLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newAPI(t, apisim.Config{})
	a.holdAll()
	write(t, dir, "calls.jsonl", append(calls(a, 3),
		fmt.Sprintf(`{"id": "later", "url": "%s", "delay": "2h"}`, a.URL),
		fmt.Sprintf(`{"id": "bad", "url": "%s/status/404", "queue": "other"}`, a.URL))...)
	run := begin(t, dir, nil, "run", "calls.jsonl", "--limit", a.Host+"=1 in flight", "--queues", "default")
	a.await(t, 1)

	why := func(args ...string) map[string]any {
		t.Helper()
		return penstock(t, dir, append(append([]string{"why"}, args...), "--json")...).object()
	}
	running := why("calls.jsonl/c0")
	in, _ := running["runs_in"].(map[string]any)
	if running["state"] != "running" || in["pid"] != json.Number(fmt.Sprint(run.cmd.Process.Pid)) || in["lost"] != false || in["since"] == nil {
		t.Errorf("c0 runs: %v", running)
	}
	waiting := why("--run", "calls.jsonl", "c2")
	if text := fmt.Sprint(waiting["waits"]); waiting["state"] != "waiting" || waiting["ahead"] != json.Number("1") || !strings.Contains(text, "in-flight cap reached") {
		t.Errorf("c2 waits: %v", waiting)
	}
	if text := fmt.Sprint(why("calls.jsonl/later")["waits"]); !strings.Contains(text, "cause:scheduled") || !strings.Contains(text, "until:20") {
		t.Errorf("the later one waits for %s", text)
	}
	penstock(t, dir, "why", "calls.jsonl/c0").exits(0).prints("running", fmt.Sprintf("process %d", run.cmd.Process.Pid))
	penstock(t, dir, "why", "calls.jsonl/c2").exits(0).prints("1 due job before it")

	run.kill(syscall.SIGKILL)
	run.wait()
	if in, _ := why("calls.jsonl/c0")["runs_in"].(map[string]any); in["lost"] != true {
		t.Errorf("after its process was killed c0 runs in %v", in)
	}
	penstock(t, dir, "why", "calls.jsonl/c2").exits(0).prints("no live worker runs its kind")

	a.release()
	run = begin(t, dir, nil, "run", "calls.jsonl", "--limit", a.Host+"=1 in flight")
	until(t, "the run does not get on", func() bool {
		return why("calls.jsonl/c2")["state"] == "done" && why("calls.jsonl/bad")["state"] == "dead"
	})
	run.kill(syscall.SIGINT)
	run.wait()
	penstock(t, dir, "why", "calls.jsonl/c2").exits(0).prints("it succeeded")
	penstock(t, dir, "why", "calls.jsonl/bad").exits(0).prints("no further attempt can help (rejected)", "404")
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := worked(t, dir, 3)
	found := func(code int) map[string]map[string]any {
		t.Helper()
		byCheck := map[string]map[string]any{}
		for _, f := range penstock(t, dir, "doctor", "--json").exits(code).lines() {
			byCheck[f["check"].(string)] = f
		}
		return byCheck
	}
	for check, f := range found(0) {
		if f["level"] != "ok" && check != "disk" {
			t.Errorf("all is well, but %s: %v", check, f)
		}
		if details, ok := f["details"].(map[string]any); check != "integrity" && (!ok || len(details) == 0) {
			t.Errorf("%s has no fields of its own: %v", check, f)
		}
	}
	penstock(t, dir, "queues", "pause", "default").exits(0)
	penstock(t, dir, "limits", "pause", a.Host).exits(0)
	notes := found(0)
	if notes["queues"]["level"] != "note" || notes["limits"]["level"] != "note" || !strings.Contains(fmt.Sprint(notes["limits"]), a.Host) {
		t.Errorf("with a paused queue and a paused limit: %v", notes)
	}
	penstock(t, dir, "queues", "resume", "default").exits(0)
	penstock(t, dir, "limits", "resume", a.Host).exits(0)

	a.holdAll()
	write(t, dir, "calls.jsonl", calls(a, 4)...)
	run := begin(t, dir, nil, "run", "calls.jsonl", "--limit", "2 in flight")
	a.await(t, 3+2)
	if f := found(0); !strings.Contains(fmt.Sprint(f["processes"]["text"]), "1 process works") || !strings.Contains(fmt.Sprint(f["leases"]["text"]), "2 jobs run") {
		t.Errorf("while a run works: %v", f)
	}
	run.kill(syscall.SIGKILL)
	run.wait()
	bad := found(1)
	if bad["processes"]["level"] != "problem" || !strings.Contains(fmt.Sprint(bad["processes"]["text"]), "2 jobs were not taken back") {
		t.Errorf("after the process was killed: %v", bad["processes"])
	}
	if bad["workers"]["level"] != "problem" || !strings.Contains(fmt.Sprint(bad["workers"]["text"]), "2 due jobs") {
		t.Errorf("after the process was killed: %v", bad["workers"])
	}
	penstock(t, dir, "doctor").exits(1).prints("PROBLEM").says("2 problems")
	a.release()
	penstock(t, dir, "run", "calls.jsonl", "--limit", "2 in flight", "-q").exits(0)
	found(0)
}

func TestPrune(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := worked(t, dir, 5)
	write(t, dir, "bad.jsonl", fmt.Sprintf(`{"id": "bad", "url": "%s/status/404"}`, a.URL))
	penstock(t, dir, "run", "bad.jsonl", "-q").exits(1)
	report := func(args ...string) map[string]any {
		t.Helper()
		return penstock(t, dir, append([]string{"prune", "--json", "--older-than"}, args...)...).object()
	}
	if r := report("24h"); r["jobs"] != json.Number("0") || r["lines"] != json.Number("0") {
		t.Errorf("nothing is that old, but gone is %v", r)
	}
	if r := report("1us"); r["jobs"] != json.Number("5") || r["lines"] == json.Number("0") || r["interrupted"] != false {
		t.Errorf("done calls: %v", r)
	}
	penstock(t, dir, "why", "bad.jsonl/bad").exits(0).prints("dead")
	if r := report("1us", "--dead"); r["jobs"] != json.Number("1") || r["bands"] == json.Number("0") {
		t.Errorf("dead letters: %v", r)
	}
	penstock(t, dir, "why", "bad.jsonl/bad").exits(2)
	penstock(t, dir, "doctor").exits(0)
	// The run knows the calls all the same, and what comes new to it.
	penstock(t, dir, "run", "bad.jsonl", "--json").exits(0).reports(map[string]int{"starts": 0, "total": 0, "pruned": 1})
	write(t, dir, "first.jsonl", append(calls(a, 5), fmt.Sprintf(`{"id": "new", "url": "%s/x"}`, a.URL))...)
	before := len(a.Log())
	penstock(t, dir, "run", "first.jsonl", "--limit", "1000/s").exits(0).says("1 of 1 call done, 5 ended before and pruned since; 1 start")
	penstock(t, dir, "run", "first.jsonl", "--limit", "1000/s", "--json").exits(0).reports(map[string]int{"starts": 0, "done": 1, "pruned": 5})
	if n := len(a.Log()) - before; n != 1 {
		t.Errorf("%d calls were made, expected the new one", n)
	}
	// Unless they are to be forgotten.
	write(t, dir, "again.jsonl", calls(a, 3)...)
	penstock(t, dir, "run", "again.jsonl", "-q").exits(0)
	report("1us", "--forget-calls")
	penstock(t, dir, "run", "again.jsonl", "--json").exits(0).reports(map[string]int{"starts": 3, "done": 3, "pruned": 0})
}

// The file of results keeps the lines of calls that were pruned: nothing else has them.
func TestPrunedCallsKeepTheirResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 3)...)
	run := []string{"run", "calls.jsonl", "--limit", "1000/s", "--out", "results.jsonl", "--json"}
	penstock(t, dir, run...).exits(0).reports(map[string]int{"done": 3})
	text, err := os.ReadFile(filepath.Join(dir, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	penstock(t, dir, "prune", "--older-than", "1us").exits(0).prints("removed 3 jobs")
	write(t, dir, "calls.jsonl", calls(a, 4)...)
	for _, starts := range []int{1, 0} {
		penstock(t, dir, run...).exits(0).reports(map[string]int{"starts": starts, "pruned": 3})
		now, err := os.ReadFile(filepath.Join(dir, "results.jsonl"))
		if err != nil || !strings.HasPrefix(string(now), string(text)) || strings.Count(string(now), "\n") != 4 {
			t.Errorf("the results were\n%s and are\n%s (%v)", text, now, err)
		}
	}
}

// A limit that is set lower than what a job costs holds that job up for good.
func TestLimitSetTellsOfJobsThatCostMoreThanItGrants(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	for _, cost := range []string{"1", "8", "3"} {
		penstock(t, dir, "enqueue", "--url", a.URL, "--limit", "big=10/s", "--cost", cost, "--limit", "shop/*=10/s", "--limit", "shop/a", "--cost", cost).exits(0)
	}
	penstock(t, dir, "limits", "set", "big", "2/s").exits(0).says("job 2 and 1 more cost more than that can ever grant")
	penstock(t, dir, "limits", "set", "big", "5/s").exits(0).says("job 2 costs more")
	penstock(t, dir, "limits", "set", "shop/*", "5/s").exits(0).says("job 2 costs more")
	if c := penstock(t, dir, "limits", "set", "big", "9/s").exits(0); c.stderr.Len() > 0 {
		t.Errorf("it says %s", &c.stderr)
	}
}
