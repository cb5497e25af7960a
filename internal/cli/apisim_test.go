package cli_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/penstockhq/penstock/apisim"
)

// startAPISim starts the command and returns the first line it prints.
func startAPISim(t *testing.T, args ...string) (c *command, first string) {
	t.Helper()
	ours, theirs := io.Pipe()
	c = begin(t, t.TempDir(), func(cmd *exec.Cmd) { cmd.Stdout = io.MultiWriter(theirs, cmd.Stdout) }, append([]string{"apisim"}, args...)...)
	lines := bufio.NewReader(ours)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return c, first
}

func TestAPISim_CountsAndTells(t *testing.T) {
	c, line := startAPISim(t, "--limit", "2/h", "--latency", "0s", "--json")
	var hello struct{ URL string }
	if err := json.Unmarshal([]byte(line), &hello); err != nil || !strings.HasPrefix(hello.URL, "http://127.0.0.1:") {
		t.Fatalf("%q: %v", line, err)
	}
	var got []int
	for range 3 {
		response, err := http.Get(hello.URL + "/orders")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		got = append(got, response.StatusCode)
	}
	if got[0] != 200 || got[1] != 200 || got[2] != 429 {
		t.Errorf("answers %v", got)
	}
	c.kill(syscall.SIGTERM)
	c.wait()
	c.exits(0)
	var stats apisim.Stats
	_, last, _ := strings.Cut(c.stdout.String(), "\n")
	if err := json.Unmarshal([]byte(last), &stats); err != nil {
		t.Fatalf("%q: %v", last, err)
	}
	if stats.Calls != 3 || stats.Accepted != 2 || stats.Refused != 1 || stats.FullestWindow != 2 {
		t.Errorf("figures %+v", stats)
	}
}

func TestAPISim_InWords(t *testing.T) {
	c, line := startAPISim(t, "--algo", "inflight", "--limit", "8")
	if !strings.HasPrefix(line, "the pretend API listens on http://127.0.0.1:") || !strings.HasSuffix(line, " (inflight)\n") {
		t.Errorf("it says %q", line)
	}
	c.kill(syscall.SIGINT)
	c.wait()
	c.exits(0)
	if !strings.Contains(c.stdout.String(), "0 calls: 0 accepted, 0 refused") {
		t.Errorf("it says %q", &c.stdout)
	}
}

func TestAPISim_Usage(t *testing.T) {
	rates := "--limit must be calls per time, as 5/s, 100/m, 3600/h or 40/10s, or a number of calls (inflight)"
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--limit", "5"}, rates + `, got "5"`},
		{[]string{"--limit", "0/s"}, rates + `, got "0/s"`},
		{[]string{"--limit", "5/"}, rates + `, got "5/"`},
		{[]string{"--limit", "5/fortnight"}, rates + `, got "5/fortnight"`},
		{[]string{"--limit", "5/-1s"}, rates + `, got "5/-1s"`},
		{[]string{"--algo", "inflight", "--limit", "5/s"}, "--limit must be a number of calls"},
		{[]string{"--algo", "leaky"}, `algorithm must be one of [none sliding fixed bucket gcra inflight], got "leaky"`},
		{[]string{"--5xx", "0.7", "--timeouts", "0.7"}, "the shares of errors and timeouts must be from 0 to 1"},
		{[]string{"--retry-after", "soon"}, `retry-after must be one of [none seconds exact date], got "soon"`},
	} {
		penstock(t, t.TempDir(), append([]string{"apisim"}, tt.args...)...).exits(2).says(tt.says)
	}
	penstock(t, t.TempDir(), "apisim", "--addr", "127.0.0.1:99999").exits(1).says("can not listen")
}
