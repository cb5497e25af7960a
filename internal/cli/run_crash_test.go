package cli_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/penstockhq/penstock/apisim"
)

// A killed run goes on where it was: finished calls are not made again,
// unfinished ones are repeated with the same key, at most once per kill.
func TestKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{Dedupe: true})
	write(t, dir, "calls.jsonl", calls(a, 60)...)
	args := []string{"run", "calls.jsonl", "--limit", "4 in flight", "--out", "out.jsonl", "--json"}
	const kills = 3
	for kill := range kills {
		seen := len(a.Log())
		c := begin(t, dir, nil, args...)
		a.await(t, seen+8)
		a.holdAll() // so that calls are unfinished when it dies
		a.await(t, len(a.Log())+2)
		c.kill(syscall.SIGKILL)
		c.wait()
		a.release()
		if c.code == 0 {
			t.Fatalf("kill %d came too late", kill)
		}
	}
	penstock(t, dir, args...).exits(0).reports(map[string]int{"total": 60, "done": 60})
	seen, repeats := keys(a), 0
	for key, n := range seen {
		if n > 1+kills {
			t.Errorf("key %s was sent %d times after %d kills", key, n, kills)
		}
		repeats += n - 1
	}
	if len(seen) != 60 {
		t.Errorf("%d keys for 60 calls", len(seen))
	}
	// At most 4 were in flight at each kill.
	if repeats == 0 || repeats > 4*kills {
		t.Errorf("%d calls were repeated, expected 1 to %d", repeats, 4*kills)
	}
	r := results(t, filepath.Join(dir, "out.jsonl"))
	if len(r) != 60 {
		t.Errorf("%d results", len(r))
	}
}

// Killed while the file is read, nothing of it is there, and the next command
// begins anew.
func TestKilledWhileLoading(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 8000)...)
	pipe := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	c := begin(t, dir, nil, "run", pipe, "--run", "r", "--limit", "1000/s", "--json")
	feed := openPipe(t, pipe)
	text := readFile(t, filepath.Join(dir, "calls.jsonl"))
	// When this returns, all but two buffers of 64 KiB have been read, so several
	// chunks of 1,000 lines have been staged.
	if _, err := feed.Write(text[:len(text)-10]); err != nil {
		t.Fatal(err)
	}
	c.kill(syscall.SIGKILL)
	c.wait()
	_ = feed.Close()
	if n := len(a.Log()); n > 0 {
		t.Fatalf("%d calls were made before the file was read", n)
	}
	write(t, dir, "few.jsonl", calls(a, 5)...)
	penstock(t, dir, "run", "few.jsonl", "--run", "r", "--limit", "1000/s", "--json").exits(0).
		reports(map[string]int{"total": 5, "done": 5})
	if n := len(a.Log()); n != 5 {
		t.Errorf("%d calls, expected 5", n)
	}
}

// The first signal starts nothing new and lets running calls finish.
func TestInterruptedItFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		dir, a := t.TempDir(), newAPI(t, apisim.Config{})
		write(t, dir, "calls.jsonl", calls(a, 20)...)
		args := []string{"run", "calls.jsonl", "--limit", "3 in flight", "--out", "out.jsonl", "--json"}
		a.holdAll()
		c, says := spoken(t, dir, args...)
		a.await(t, 3)
		c.kill(end.signal)
		says("ending: running calls may finish") // a signal takes its time to arrive
		a.release()
		says("goes on")
		c.wait()
		c.exits(end.code)
		ran := len(a.Log())
		if ran >= 20 {
			t.Errorf("%v: all calls were made", end.signal)
		}
		c.reports(map[string]int{"total": 20, "done": ran, "starts": ran})
		if r := results(t, filepath.Join(dir, "out.jsonl")); len(r) != ran {
			t.Errorf("%v: %d results of %d calls", end.signal, len(r), ran)
		}
		penstock(t, dir, args...).exits(0).reports(map[string]int{"done": 20})
		for key, n := range keys(a) {
			if n != 1 {
				t.Errorf("%v: key %s was sent %d times", end.signal, key, n)
			}
		}
	}
}

// The second signal does not wait for running calls.
func TestInterruptedTwiceItStopsAtOnce(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 5)...)
	a.holdAll()
	c, log := beginLogged(t, dir, "run", "calls.jsonl", "--limit", "2 in flight", "--grace", "1h", "--json")
	a.await(t, 2)
	c.kill(syscall.SIGINT)
	log.awaits("a second signal stops at once")
	c.kill(syscall.SIGTERM)
	c.wait()
	c.exits(130).reports(map[string]int{"total": 5, "done": 0})
}

// With --at-most-once, a call whose process died under it is dead, in doubt, and
// is not made again.
func TestAtMostOnceIsDeadInDoubt(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	lines := calls(a, 1)
	lines = append(lines, `{"id": "again", "url": "`+a.URL+`/again"}`)
	lines[0] = lines[0][:len(lines[0])-1] + `, "at_most_once": true}`
	write(t, dir, "calls.jsonl", lines...)
	args := []string{"run", "calls.jsonl", "--limit", "100/s", "--out", "out.jsonl", "--json"}
	a.holdAll()
	c := begin(t, dir, nil, args...)
	a.await(t, 2)
	c.kill(syscall.SIGKILL)
	c.wait()
	a.release()
	penstock(t, dir, args...).exits(1).reports(map[string]int{"total": 2, "done": 1, "dead": 1})
	r := results(t, filepath.Join(dir, "out.jsonl"))
	if r["c0"]["state"] != "dead" || r["c0"]["reason"] != "in_doubt" || r["again"]["state"] != "done" {
		t.Errorf("results: %v", r)
	}
	// Nor does --retry-dead make it.
	penstock(t, dir, append(args, "--retry-dead")...).exits(1).says("in doubt")
	if n := len(a.Log()); n != 3 {
		t.Errorf("%d calls, expected 3", n)
	}
}

// A signal does not wait for whoever writes to the pipe.
func TestInterruptedWhileItReads(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	c := begin(t, dir, func(cmd *exec.Cmd) { cmd.Stdin = reader }, "run", "-", "--limit", "1000/s")
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(calls(a, 4000), "\n") // more than the pipe and the reader hold, so it is reading
	if _, err := io.WriteString(writer, text); err != nil {
		t.Fatal(err)
	}
	c.kill(syscall.SIGTERM)
	c.wait()
	c.exits(143).says("nothing was sent")
	if n := len(a.Log()); n > 0 {
		t.Errorf("%d calls were made", n)
	}
}
