package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

// binary is the real command, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "penstock-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "penstock")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "github.com/penstockhq/penstock/cmd/penstock").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "building penstock: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// patience bounds every wait of a test. It is long: only a failure reaches it.
const patience = time.Minute

// api is a pretend API that tells of its calls, and can hold them.
type api struct {
	*apisim.API
	URL  string
	Host string // the name of its limit

	mu      sync.Mutex
	arrived chan struct{} // closed and renewed at each call
	n       int
	hold    chan struct{} // while not nil: calls wait here before they are answered
	header  []http.Header
}

func newAPI(t *testing.T, c apisim.Config) *api {
	t.Helper()
	sim, err := apisim.New(c)
	if err != nil {
		t.Fatal(err)
	}
	a := &api{API: sim, arrived: make(chan struct{})}
	s := httptest.NewServer(a)
	t.Cleanup(func() {
		a.release()
		sim.Close()
		s.CloseClientConnections()
		s.Close()
	})
	a.URL, a.Host = s.URL, strings.TrimPrefix(s.URL, "http://")
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.n++
	a.header = append(a.header, r.Header.Clone())
	close(a.arrived)
	a.arrived = make(chan struct{})
	hold := a.hold
	a.mu.Unlock()
	if hold == nil {
		a.API.ServeHTTP(w, r)
		return
	}
	// The API has the call, and takes its time to answer.
	a.API.ServeHTTP(&late{ResponseWriter: w, after: hold, gone: r.Context().Done()}, r)
}

// late keeps an answer back.
type late struct {
	http.ResponseWriter
	after, gone <-chan struct{}
}

func (l *late) WriteHeader(status int) {
	select {
	case <-l.after:
	case <-l.gone:
	}
	l.ResponseWriter.WriteHeader(status)
}

// holdAll keeps back the answers of the calls to come, until release.
func (a *api) holdAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hold = make(chan struct{})
}

func (a *api) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hold != nil {
		close(a.hold)
		a.hold = nil
	}
}

// await waits for the n-th call.
func (a *api) await(t *testing.T, n int) {
	t.Helper()
	late := time.After(patience)
	for {
		a.mu.Lock()
		got, arrived := a.n, a.arrived
		a.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-arrived:
		case <-late:
			t.Fatalf("after %v the API has had %d calls of %d", patience, got, n)
		}
	}
}

// headers returns those of call i, from 0.
func (a *api) headers(i int) http.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.header[i]
}

// command is a run of the real command.
type command struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	code           int
}

// penstock runs the command in dir to its end.
func penstock(t *testing.T, dir string, args ...string) *command {
	t.Helper()
	c := begin(t, dir, nil, args...)
	c.wait()
	return c
}

// begin starts the command in dir.
func begin(t *testing.T, dir string, change func(*exec.Cmd), args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c := &command{t: t, cmd: exec.CommandContext(ctx, binary, args...)}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = dir, &c.stdout, &c.stderr
	c.cmd.Env = append(os.Environ(), "PENSTOCK_DB=")
	if change != nil {
		change(c.cmd)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.cmd.Wait() // an error if it was waited for
	})
	return c
}

func (c *command) wait() {
	c.t.Helper()
	_ = c.cmd.Wait()
	c.code = c.cmd.ProcessState.ExitCode()
}

func (c *command) kill(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// exits checks the exit code.
func (c *command) exits(code int) *command {
	c.t.Helper()
	if c.code != code {
		c.t.Fatalf("exit code %d, expected %d\nstdout: %s\nstderr: %s", c.code, code, &c.stdout, &c.stderr)
	}
	return c
}

// says checks that standard error holds the texts.
func (c *command) says(texts ...string) *command {
	c.t.Helper()
	for _, text := range texts {
		if !strings.Contains(c.stderr.String(), text) {
			c.t.Errorf("standard error lacks %q:\n%s", text, &c.stderr)
		}
	}
	return c
}

// report reads the object that --json prints.
func (c *command) report() map[string]any {
	c.t.Helper()
	var r map[string]any
	if err := json.Unmarshal(c.stdout.Bytes(), &r); err != nil {
		c.t.Fatalf("standard output is not one JSON object: %v\n%s\n%s", err, &c.stdout, &c.stderr)
	}
	return r
}

// reports checks numbers of the report.
func (c *command) reports(want map[string]int) *command {
	c.t.Helper()
	r := c.report()
	for k, v := range want {
		if r[k] != float64(v) {
			c.t.Errorf("report: %s is %v, expected %d\n%s", k, r[k], v, &c.stdout)
		}
	}
	return c
}

// write writes a file of lines in dir.
func write(t *testing.T, dir, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// calls are n lines that post {"n": i} with ids c0, c1, …
func calls(a *api, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"id": "c%d", "url": "%s/echo", "body": {"n": %d}}`, i, a.URL, i)
	}
	return lines
}

// results reads a file of results: its lines by id. More than one line of an id
// is a failure.
func results(t *testing.T, path string) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]map[string]any{}
	for i, line := range strings.SplitAfter(string(text), "\n") {
		if line == "" {
			continue
		}
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%s, line %d is not a whole JSON line: %v\n%s", path, i+1, err, line)
		}
		id := r["id"].(string)
		if byID[id] != nil {
			t.Errorf("%s has id %q twice", path, id)
		}
		byID[id] = r
	}
	return byID
}

// keys counts the calls of each idempotency key.
func keys(a *api) map[string]int {
	n := map[string]int{}
	for _, c := range a.Log() {
		n[c.Key]++
	}
	return n
}
