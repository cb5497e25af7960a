package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// object reads the one JSON object that a command printed.
func object(t *testing.T, c *command) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(c.stdout.Bytes()))
	var figures map[string]any
	if err := decoder.Decode(&figures); err != nil {
		t.Fatalf("%v in %q; stderr: %s", err, &c.stdout, &c.stderr)
	}
	if decoder.More() {
		t.Errorf("more than one object: %s", &c.stdout)
	}
	return figures
}

// inEmpty has a command put its temporary files into a folder of its own.
func inEmpty(folder string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "TMPDIR="+folder) }
}

func isEmpty(t *testing.T, folder string) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestDemo_BrokenLimitFailsAndSaysSo(t *testing.T) {
	folder := t.TempDir()
	c := begin(t, folder, inEmpty(folder), "demo", "--cap", "20", "--break", "limit", "--json")
	c.wait()
	c.exits(1)
	isEmpty(t, folder)
	figures := object(t, c)
	for _, name := range []string{"calls", "refused", "fullest_window", "delivered", "dead", "killed_pid"} {
		if n, ok := figures[name].(float64); !ok || n <= 0 {
			t.Errorf("%s = %v, want a number above 0", name, figures[name])
		}
	}
	claims, _ := figures["claims"].([]any)
	wrong := 0
	for _, one := range claims {
		claim, _ := one.(map[string]any)
		if claim["name"] == "" || claim["detail"] == "" {
			t.Errorf("a claim lacks its name or detail: %v", one)
		}
		if claim["ok"] == false {
			wrong++
		}
	}
	if len(claims) < 8 || wrong == 0 {
		t.Errorf("%d claims, %d of them false: %v", len(claims), wrong, claims)
	}
	if n := figures["fullest_window"].(float64); n <= 20 {
		t.Errorf("fullest window %v without a limit, expected more than the cap", n)
	}
}

func TestDemo_InterruptLeavesNothing(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		folder := t.TempDir()
		ours, theirs := io.Pipe()
		c := begin(t, folder, func(cmd *exec.Cmd) {
			inEmpty(folder)(cmd)
			cmd.Stderr = io.MultiWriter(cmd.Stderr, theirs)
		}, "demo", "--json")
		lines := bufio.NewScanner(ours)
		for lines.Scan() && !strings.Contains(lines.Text(), "worker processes") {
		}
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		c.kill(signal)
		c.wait()
		c.exits(code)
		isEmpty(t, folder)
		if c.stdout.Len() > 0 {
			t.Errorf("printed %s", &c.stdout)
		}
	}
}

func TestDemo_Usage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--cap", "0"}, "--cap must be from 1 to 1000, got 0"},
		{[]string{"--cap", "many"}, `invalid argument "many" for "--cap"`},
		{[]string{"--algo", "none"}, `--algo must be one of sliding, fixed, bucket, gcra, inflight, got "none"`},
		{[]string{"--break", "everything"}, `--break can only be "limit", got "everything"`},
		{[]string{"50"}, `unknown command "50"`},
	} {
		penstock(t, t.TempDir(), append([]string{"demo"}, tt.args...)...).exits(2).says(tt.says)
	}
}
