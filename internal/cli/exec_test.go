//go:build unix

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sh runs a shell command under a limit that lets one run at a time.
func sh(t *testing.T, dir, script string) *command {
	t.Helper()
	return begin(t, dir, nil, "exec", "--limit", "one=1 in flight", "--", "sh", "-c", script)
}

// awaitFile waits for a file with a text and returns it.
func awaitFile(t *testing.T, path string) string {
	t.Helper()
	text := ""
	await(t, filepath.Base(path)+" is written", func() bool {
		b, err := os.ReadFile(path)
		text = strings.TrimSpace(string(b))
		return err == nil && text != ""
	})
	return text
}

func TestExecCodesAndStreams(t *testing.T) {
	dir := t.TempDir()
	for code, args := range map[int][]string{
		0:   {"true"},
		7:   {"sh", "-c", "exit 7"},
		143: {"sh", "-c", "kill -TERM $$"},
		127: {"there-is-no-such-command"},
		126: {dir},
	} {
		penstock(t, dir, append([]string{"exec", "--limit", "a=100/s", "--"}, args...)...).exits(code)
	}
	c := begin(t, dir, func(c *exec.Cmd) { c.Stdin = strings.NewReader("in\n") }, "exec", "--limit", "a", "--", "sh", "-c", "cat; echo err >&2; echo $0 $1", "x", "-n")
	c.wait()
	if c.exits(0).stdout.String() != "in\nsh -n\n" && c.stdout.String() != "in\nx -n\n" || c.stderr.String() != "err\n" {
		t.Errorf("stdout %q, stderr %q", &c.stdout, &c.stderr)
	}
}

func TestExecUsage(t *testing.T) {
	dir := t.TempDir()
	penstock(t, dir, "exec", "--limit", "orders=5/s", "--", "true").exits(0)
	for want, args := range map[string][]string{
		`limit "ordres" is not declared; did you mean "orders"?`: {"--limit", "ordres", "--", "true"},
		`write zebra=SPEC to declare it`:                         {"--limit", "zebra", "--", "true"},
		`expected at least one --limit`:                          {"--", "true"},
		`expected a command behind --`:                           {"--limit", "orders"},
		`behind the --limit`:                                     {"--cost", "2", "--limit", "orders", "--", "true"},
		`a number of permits, at least 1`:                        {"--limit", "orders", "--cost", "0", "--", "true"},
		`given twice`:                                            {"--limit", "orders", "--limit", "orders", "--", "true"},
		`at most 5`:                                              {"--limit", "orders", "--cost", "9", "--", "true"},
		`looks like a spec`:                                      {"--limit", "5/s", "--", "true"},
		`stands for all its keys`:                                {"--limit", "shop/*", "--", "true"},
		`per what`:                                               {"--limit", "a=5", "--", "true"},
	} {
		c := penstock(t, dir, append([]string{"exec"}, args...)...).exits(2)
		if want != "per what" { // the parser's words are its own
			c.says(want)
		}
	}
	penstock(t, dir, "exec", "--limit", "shop/*=5/s", "--limit", "shop/a", "--cost", "2", "--limit", "orders", "--", "true").exits(0)
	c := openDB(t, dir)
	if info, err := c.LimitByName(t.Context(), "shop/a"); err != nil || info.Spec.String() != "5/s" {
		t.Errorf("shop/a is %v, %v", info.Spec, err)
	}
}

// TestExecHoldsItsPermit: of several processes one at a time runs.
func TestExecHoldsItsPermit(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	var all sync.WaitGroup
	for i := range 6 {
		c := sh(t, dir, fmt.Sprintf("echo + >> %s; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo - >> %[1]s; exit %d", log, i))
		all.Go(func() {
			c.wait()
			if c.code != i {
				t.Errorf("exit code %d, expected %d: %s", c.code, i, &c.stderr)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(log)
	if err != nil || strings.ReplaceAll(string(text), "\n", "") != strings.Repeat("+-", 6) {
		t.Errorf("they ran like this: %q, %v", text, err)
	}
}

// TestExecKeepsTheRate: starts are under the limit.
func TestExecKeepsTheRate(t *testing.T) {
	dir := t.TempDir()
	begun := time.Now()
	for range 4 {
		penstock(t, dir, "exec", "--limit", "slow=4/s", "--cost", "2", "--", "true").exits(0)
	}
	// 8 permits at 4 a second, 4 of them in the first window.
	if took := time.Since(begun); took < time.Second {
		t.Errorf("took %v", took)
	}
}

func TestExecPassesSignalsOn(t *testing.T) {
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	c := sh(t, dir, "trap 'echo usr > usr' USR1; trap 'echo term >&2; exit 9' TERM; echo y > "+ready+"; while :; do sleep 0.05; done")
	awaitFile(t, ready)
	c.kill(syscall.SIGUSR1)
	awaitFile(t, filepath.Join(dir, "usr"))
	c.kill(syscall.SIGTERM)
	c.wait()
	c.exits(9).says("term")
	penstock(t, dir, "exec", "--limit", "one", "--wait", "10s", "--", "true").exits(0)
}

// TestExecGivesUp: after --wait, or at a signal, the command is not started.
func TestExecGivesUp(t *testing.T) {
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	holder := sh(t, dir, "echo y > "+ready+"; exec sleep 60")
	awaitFile(t, ready)
	penstock(t, dir, "exec", "--limit", "one", "--wait", "200ms", "--", "touch", "made").exits(1).says("no permit was granted in time")
	waiting := begin(t, dir, nil, "exec", "--limit", "one", "--", "touch", "made")
	c := openDB(t, dir)
	await(t, "it stands in line", func() bool {
		queues, err := c.Store().Queues(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		due := int64(0)
		for _, q := range queues {
			due += q.Due
		}
		return due == 1
	})
	waiting.kill(syscall.SIGINT)
	waiting.wait()
	waiting.exits(130).says("the command was not started")
	if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
		t.Error("a command was started without a permit")
	}
	holder.kill(syscall.SIGTERM)
	holder.wait()
	holder.exits(143)
}

// TestExecKilled: a process that is killed gives its permit back, and its command
// does not run on without it.
func TestExecKilled(t *testing.T) {
	dir := t.TempDir()
	pid := filepath.Join(dir, "pid")
	c := sh(t, dir, "echo $$ > "+pid+"; exec sleep 61")
	n, err := strconv.Atoi(awaitFile(t, pid))
	if err != nil {
		t.Fatal(err)
	}
	c.kill(syscall.SIGKILL)
	c.wait()
	penstock(t, dir, "exec", "--limit", "one", "--wait", "30s", "--", "true").exits(0)
	if runtime.GOOS == "linux" {
		await(t, "the command has ended, too", func() bool {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
			return err != nil || strings.Contains(string(b), ") Z ")
		})
	} else {
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
}

// A permit that somebody cancelled was not lost for want of the database, and is not
// running on because nothing is kept of it.
func TestACancelledPermitIsSaidToBeCancelled(t *testing.T) {
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	c := sh(t, dir, "echo y > "+ready+"; exec sleep 60")
	awaitFile(t, ready)
	running := penstock(t, dir, "jobs", "--state", "running", "--json").exits(0).lines()
	if len(running) != 1 {
		t.Fatalf("running: %v", running)
	}
	penstock(t, dir, "jobs", "cancel", "--wait", "20s", sprint(running[0]["id"])).exits(0).prints("cancelled; a permit is not kept")
	c.wait()
	c.exits(1).says("somebody cancelled the permit")
}

// A process that was killed while it waited for a permit leaves its wish in line
// until another one works for a while. No worker can help that.
func TestDoctorTakesNoWishOfADeadProcessForWork(t *testing.T) {
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	holder := sh(t, dir, "echo y > "+ready+"; exec sleep 60")
	awaitFile(t, ready)
	waiting := begin(t, dir, nil, "exec", "--limit", "one", "--", "true")
	await(t, "it stands in line", func() bool {
		return len(penstock(t, dir, "jobs", "--state", "waiting", "--json").exits(0).lines()) == 1
	})
	waiting.kill(syscall.SIGKILL)
	waiting.wait()
	holder.kill(syscall.SIGTERM)
	holder.wait()
	penstock(t, dir, "doctor", "--fast").exits(0).prints("1 wish for a permit, of processes that are gone")
}

// What is wrong with a limit's name is not the database's fault.
func TestABadNameOfALimitIsBadUsage(t *testing.T) {
	dir := t.TempDir()
	penstock(t, dir, "exec", "--limit", "x\ny=5/s", "--", "true").exits(2).says("limit name")
	penstock(t, dir, "enqueue", "--url", "http://127.0.0.1:1", "--limit", strings.Repeat("l", 600)+"=5/s").exits(2).says("limit name")
}
