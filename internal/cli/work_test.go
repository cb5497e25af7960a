package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	pen "github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

// TestWorkDrains: the calls of all runs, and those that belong to none.
func TestWorkDrains(t *testing.T) {
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	db := openDB(t, dir)
	for _, run := range []string{"one", "two"} {
		write(t, dir, run+".jsonl", calls(a, 5)...)
		begun := begin(t, dir, nil, "run", run+".jsonl", "--run", run, "--limit", "paused")
		await(t, "the calls are there", func() bool { return every(t, db, pen.Filter{Run: run}, nil) == 5 })
		begun.kill(syscall.SIGINT)
		begun.wait()
		begun.exits(130)
	}
	penstock(t, dir, "enqueue", "--url", a.URL+"/extra", "--limit", a.Host+"=100/s").id()
	c := penstock(t, dir, "work", "--drain", "--json", "-H", "X-Who: me").exits(0)
	if left := every(t, db, pen.Filter{States: []pen.State{pen.Waiting, pen.Running}}, nil); left != 0 {
		t.Errorf("%d are left", left)
	}
	if done := every(t, db, pen.Filter{States: []pen.State{pen.Done}}, nil); done != 11 {
		t.Errorf("%d are done, of 11", done)
	}
	if r := c.report(); r["done"] != 11.0 || r["dead"] != 0.0 || r["starts"] != r["done"] {
		t.Errorf("reported %v", r)
	}
	a.mu.Lock()
	who := a.header[len(a.header)-1].Get("X-Who")
	a.mu.Unlock()
	if who != "me" {
		t.Errorf("the header of -H is %q", who)
	}
	for key, n := range keys(a) {
		if n != 1 {
			t.Errorf("%d calls with the key %s", n, key)
		}
	}
}

// TestWorkServesItsQueuesOnly: and in their order.
func TestWorkServesItsQueuesOnly(t *testing.T) {
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	for _, q := range []string{"low", "high", "other"} {
		penstock(t, dir, "enqueue", "--url", a.URL+"/"+q, "--queue", q).id()
	}
	penstock(t, dir, "work", "--drain", "--queues", "high,low", "--concurrency", "1").exits(0)
	log := a.Log()
	if len(log) != 2 || log[0].Path != "/high" || log[1].Path != "/low" {
		t.Errorf("calls %+v", log)
	}
	penstock(t, dir, "work", "--queues", "a,a").exits(2).says("--queues")
	penstock(t, dir, "work", "--concurrency", "0").exits(2)
	penstock(t, dir, "work", "--timeout", "0s").exits(2)
	penstock(t, dir, "work", "-H", "nonsense").exits(2)
}

// TestWorkEndsGracefully: the first signal lets running calls finish, the second
// one breaks them off, without an attempt spent.
func TestWorkEndsGracefully(t *testing.T) {
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	a.holdAll()
	first := penstock(t, dir, "enqueue", "--url", a.URL+"/first").id()
	w := begin(t, dir, nil, "work")
	a.await(t, 1)
	w.kill(syscall.SIGTERM)
	c := openDB(t, dir)
	second := penstock(t, dir, "enqueue", "--url", a.URL+"/second").id()
	a.release()
	w.wait()
	w.exits(143)
	if state(t, c, first) != pen.Done || state(t, c, second) != pen.Waiting {
		t.Errorf("the first is %v, the second %v", state(t, c, first), state(t, c, second))
	}
	a.holdAll()
	w, log := beginLogged(t, dir, "work")
	a.await(t, 2)
	w.kill(syscall.SIGINT)
	log.awaits("a second signal stops at once")
	w.kill(syscall.SIGINT)
	w.wait()
	w.exits(130)
	a.release()
	if j, err := c.Job(t.Context(), 2); err != nil || j.State != pen.Waiting || j.Attempts != 0 {
		t.Errorf("the second is %v with %d attempts, %v", j.State, j.Attempts, err)
	}
}

// get reads a page.
func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: status %d, %v", url, resp.StatusCode, err)
	}
	return string(text)
}

// metricsOf waits until a command says where its metrics are.
func metricsOf(t *testing.T, log string) string {
	t.Helper()
	var found []string
	await(t, "the address of the metrics is told", func() bool {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		found = regexp.MustCompile(`metrics at (http://127\.0\.0\.1:\d+/metrics)`).FindStringSubmatch(string(text))
		return found != nil
	})
	return found[1]
}

// TestMetricsOfWorkAndRun: they are served on this machine, while the command
// works.
func TestMetricsOfWorkAndRun(t *testing.T) {
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	a.holdAll()
	write(t, dir, "calls.jsonl", calls(a, 5)...)
	for i, args := range [][]string{{"run", "calls.jsonl", "--limit", "100/s, 2 in flight", "--metrics", ":0", "--grace", "100ms"}, {"work", "--metrics", ":0", "--grace", "100ms"}} {
		log := filepath.Join(dir, args[0]+".log")
		f, err := os.Create(log)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c := beginTo(t, dir, f, args...)
		url := metricsOf(t, log)
		if i == 0 {
			a.await(t, 2)
		}
		var text string
		await(t, "both calls are counted", func() bool {
			text = get(t, url)
			return strings.Contains(text, `penstock_starts_total{queue="default",kind="http"} 2`+"\n")
		})
		for _, line := range []string{
			`penstock_queue_jobs{queue="default",state="running"} 2`,
			`penstock_queue_jobs{queue="default",state="due"} ` + fmt.Sprint(3),
			`penstock_limit_in_flight{limit="` + a.Host + `"} 2`,
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("%s: no line %s in\n%s", args[0], line, text)
			}
		}
		c.kill(syscall.SIGINT)
		c.wait()
		c.exits(130)
		if resp, err := http.Get(url); err == nil {
			resp.Body.Close()
			t.Errorf("%s: metrics are served after the end", args[0])
		}
	}
	penstock(t, dir, "work", "--metrics", "nonsense").exits(2).says("--metrics")
	penstock(t, dir, "work", "--metrics", a.Host).exits(2).says("address already in use")
}

// beginTo starts the command with standard error in a file, to be read while it runs.
func beginTo(t *testing.T, dir string, log *os.File, args ...string) *command {
	t.Helper()
	return begin(t, dir, func(c *exec.Cmd) { c.Stderr = log }, args...)
}

// logged is what a command says on stderr while it runs.
type logged struct {
	t    *testing.T
	path string
}

// beginLogged starts a command whose stderr can be read while it runs.
func beginLogged(t *testing.T, dir string, args ...string) (*command, logged) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return beginTo(t, dir, f, args...), logged{t, f.Name()}
}

func (l logged) awaits(text string) {
	l.t.Helper()
	await(l.t, "it says "+text, func() bool {
		said, err := os.ReadFile(l.path)
		return err == nil && strings.Contains(string(said), text)
	})
}

// TestEnqueue: what the options say arrives at the API, and is in the job.
func TestEnqueue(t *testing.T) {
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "body.txt", "two", "lines")
	one := penstock(t, dir, "enqueue", "--url", a.URL+"/echo", "--json", "--unique", "u", "--idempotency-key", "mine", "--limit", "tokens=100/m", "--cost", "7",
		"-X", "PUT", "-d", `{"n": 1.50}`, "--group", "g", "--priority", "9", "--queue", "q", "--timeout", "9s", "--attempts", "3", "--at-most-once").exits(0).report()
	if one["id"] != 1.0 || one["new"] != true || one["state"] != "waiting" {
		t.Errorf("printed %v", one)
	}
	c := openDB(t, dir)
	j, err := c.Job(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	o := j.Options
	if j.Queue != "q" || j.Group != "g" || j.Priority != 9 || j.Unique != "u" || o.IdempotencyKey != "mine" || !o.AtMostOnce || o.MaxAttempts != 3 ||
		o.Timeout != (9*time.Second).Microseconds() || sprint(j.Draws) != "[{tokens 7} {"+a.Host+" 1}]" || !strings.Contains(string(j.Payload), `{"n": 1.50}`) || !strings.Contains(string(j.Payload), "PUT") {
		t.Errorf("it is %+v with %s", j, j.Payload)
	}
	penstock(t, dir, "enqueue", "--url", a.URL, "--unique", "u").exits(0).says("job 1 has the unique key").prints("1\n")
	penstock(t, dir, "enqueue", "--url", a.URL+"/new", "--unique", "u", "--replace").exits(0).says("makes this call now").prints("1\n")
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	penstock(t, dir, "enqueue", "--url", a.URL, "--run-at", later.Format(time.RFC3339), "--expires-at", later.Add(time.Hour).Format(time.RFC3339)).id()
	if j, err := c.Job(t.Context(), 2); err != nil || !pen.Instant(j.At).Equal(later) || j.ExpiresAt == 0 {
		t.Errorf("it is due at %v, %v", pen.Instant(j.At), err)
	}
	for i, data := range []string{"@body.txt", "plain text", `"quoted"`, ""} {
		penstock(t, dir, "enqueue", "--url", fmt.Sprintf("%s/text/%d", a.URL, i), "--data", data).id()
	}
	for i, want := range []string{`"two\nlines\n"`, `"plain text"`, `"\"quoted\""`, ""} {
		j, err := c.Job(t.Context(), int64(3+i))
		if err != nil || want != "" && !strings.Contains(string(j.Payload), `"body":`+want) || want == "" && strings.Contains(string(j.Payload), "body") {
			t.Errorf("payload %s, want %s, %v", j.Payload, want, err)
		}
	}
	for want, args := range map[string][]string{
		"expected --url":    {},
		"not both":          {"--url", a.URL, "--delay", "1s", "--run-at", later.Format(time.RFC3339)},
		"--run-at":          {"--url", a.URL, "--run-at", "tomorrow"},
		"secret":            {"--url", a.URL, "-H", "Authorization: Bearer abc"},
		"--replace needs":   {"--url", a.URL, "--replace"},
		"from 1 to 9":       {"--url", a.URL, "--priority", "10"},
		"is not declared":   {"--url", a.URL, "--limit", "none"},
		"expected an absol": {"--url", "example.com"},
		"no such file":      {"--url", a.URL, "--data", "@none"},
	} {
		penstock(t, dir, append([]string{"enqueue"}, args...)...).exits(2).says(want)
	}
}

// TestK4_MetricsAfterKills: three processes work, some calls fail, and processes
// are killed; what the others say in the end is what is stored.
func TestK4_MetricsAfterKills(t *testing.T) {
	const n = 240
	dir, a := t.TempDir(), newAPI(t, apisim.Config{Error5xx: 0.1, Latency: 20 * time.Millisecond, Seed: 4})
	write(t, dir, "calls.jsonl", calls(a, n)...)
	db := openDB(t, dir)
	load := begin(t, dir, nil, "run", "calls.jsonl", "--limit", "paused")
	await(t, "the calls are there", func() bool { return every(t, db, pen.Filter{}, nil) == n })
	load.kill(syscall.SIGTERM)
	load.wait()
	if err := db.DeclareLimit(t.Context(), a.Host, "100/s, 30 in flight"); err != nil {
		t.Fatal(err)
	}
	var urls []string
	var workers []*command
	start := func() {
		log := filepath.Join(dir, fmt.Sprintf("work%d.log", len(workers)))
		f, err := os.Create(log)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		workers = append(workers, beginTo(t, dir, f, "work", "--metrics", ":0", "--attempts", "20"))
		urls = append(urls, metricsOf(t, log))
	}
	for range 3 {
		start()
	}
	for i := range 3 {
		a.await(t, (i+1)*n/5)
		workers[i].kill(syscall.SIGKILL)
		workers[i].wait()
		start()
	}
	open := pen.Filter{States: []pen.State{pen.Waiting, pen.Running}}
	await(t, "no call is left", func() bool { return every(t, db, open, nil) == 0 })
	for _, url := range urls[3:] {
		text := get(t, url)
		for _, line := range []string{
			`penstock_queue_jobs{queue="default",state="due"} 0`, `penstock_queue_jobs{queue="default",state="scheduled"} 0`,
			`penstock_queue_jobs{queue="default",state="running"} 0`, `penstock_queue_jobs{queue="default",state="done"} ` + fmt.Sprint(n),
			`penstock_limit_in_flight{limit="` + a.Host + `"} 0`, `penstock_sweep_finds_total 0`, `penstock_workers 3`,
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line %s in\n%s", line, text)
			}
		}
		if strings.Contains(text, "} -") {
			t.Errorf("a number is negative in\n%s", text)
		}
	}
	for _, w := range workers[3:] {
		w.kill(syscall.SIGTERM)
		w.wait()
	}
}
