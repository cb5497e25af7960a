package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	pen "github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

// into runs a command whose standard output goes to a file.
func into(t *testing.T, dir, path string, args ...string) *command {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("%s is not here: %v", path, err)
	}
	defer f.Close()
	c := begin(t, dir, func(c *exec.Cmd) { c.Stdout = f }, args...)
	c.wait()
	return c
}

// Who is told that the database has no room and to run the same command again
// puts a call in twice.
func TestAFullDiskBehindStandardOutputIsNotTheDatabases(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	for _, args := range [][]string{
		{"enqueue", "--url", a.URL}, {"jobs"}, {"jobs", "--json"}, {"jobs", "show", "1"}, {"why", "1"}, {"limits"}, {"queues", "--json"},
		{"queues", "pause", "q"}, {"doctor", "--fast"}, {"jobs", "cancel", "1"}, {"dead", "replay", "1"}, {"prune", "--older-than", "1h"},
	} {
		c := into(t, dir, "/dev/full", args...).exits(1).says("what the command did is done", "standard output could not be written")
		if strings.Contains(c.stderr.String(), "database") {
			t.Errorf("%v blames the database: %s", args, &c.stderr)
		}
	}
}

// dead discard --queue "$QUEUE" --older-than 7d, with QUEUE not set, must not
// discard what is in all queues; nor --db "$DB" choose another database.
func TestAnOptionFromAnUnsetVariableIsRefused(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	id := penstock(t, dir, "enqueue", "--url", a.URL+"/status/400").id()
	penstock(t, dir, "work", "--drain", "-q").exits(1)
	for _, option := range []string{"--queue", "--kind", "--limit", "--run", "--text", "--reason"} {
		penstock(t, dir, "dead", "discard", "--newer-than", "7d", option, "").exits(2).says(option, "got none")
		penstock(t, dir, "dead", option, "").exits(2).says(option)
		penstock(t, dir, "jobs", option, "").exits(2).says(option)
	}
	penstock(t, dir, "jobs", "--state", "").exits(2).says("--state")
	for _, args := range [][]string{
		{"work", "--drain", "--queues", ""}, {"run", "c.jsonl", "--queues", ""}, {"run", "c.jsonl", "--run", ""}, {"run", "c.jsonl", "--out", ""},
		{"enqueue", "--url", a.URL, "--unique", ""}, {"enqueue", "--url", a.URL, "--queue", ""}, {"enqueue", "--url", a.URL, "--run-at", ""},
		{"dead", "replay", "--all", "--rate", ""}, {"why", "--run", "", id},
	} {
		penstock(t, dir, args...).exits(2).says("expected a text, got none")
	}
	for _, args := range [][]string{{"dead", "discard", "--all"}, {"jobs"}, {"limits"}, {"why", id}, {"work", "--drain"}, {"enqueue", "--url", a.URL}, {"exec", "--limit", "a=1/s", "--", "true"}} {
		args = append([]string{args[0], "--db", ""}, args[1:]...)
		penstock(t, dir, args...).exits(2).says("expected the path of a database, got none")
	}
	penstock(t, dir, "dead", "show", id).exits(0)
}

// An age beyond the epoch selects nothing, which is no fault of the options.
func TestOlderThanEverythingSelectsNothing(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	penstock(t, dir, "enqueue", "--url", a.URL).exits(0)
	penstock(t, dir, "jobs", "--older-than", "99999d").exits(0).prints("no such jobs")
	penstock(t, dir, "jobs", "--newer-than", "99999d").exits(0).prints("http")
}

// penstock why prints a call as RUN/CALL-ID; every command must find it by that,
// with slashes in either name.
func TestACallIsFoundByItsNameWithSlashes(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "c.jsonl", `{"id":"a/b","url":"`+a.URL+`"}`, `{"id":"17","url":"`+a.URL+`"}`)
	penstock(t, dir, "run", "c.jsonl", "--run", "x/y", "-q").exits(0)
	for _, name := range []string{"x/y/a/b", "x/y/17"} {
		penstock(t, dir, "why", name).exits(0).prints("(" + name + ")")
		penstock(t, dir, "jobs", "show", name).exits(0)
		penstock(t, dir, "jobs", "cancel", name).exits(1).prints("it had ended before")
	}
	write(t, dir, "d.jsonl", `{"id":"y/17","url":"`+a.URL+`"}`)
	penstock(t, dir, "run", "d.jsonl", "--run", "x", "-q").exits(0)
	penstock(t, dir, "why", "x/y/17").exits(2).says(`call "y/17" of run "x"`, `call "17" of run "x/y"`, "3 or 2")
	penstock(t, dir, "why", "--run", "x", "y/17").exits(0)
	for _, id := range []string{"0", "-1"} {
		penstock(t, dir, "why", "--", id).exits(2).says("expected the id of a job")
	}
}

// A file without an end must not fill the memory.
func TestDataWithoutAnEndIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip("no /dev/zero here")
	}
	penstock(t, t.TempDir(), "enqueue", "--url", "http://127.0.0.1:1", "--data", "@/dev/zero").exits(2).says("more than 1.0 MiB")
}

// Resuming a limit that its spec stops changes nothing, and says so.
func TestResumeSaysThatTheSpecStopsTheLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	penstock(t, dir, "exec", "--limit", "a=1/s", "--", "true").exits(0)
	penstock(t, dir, "limits", "set", "a", "paused").exits(0)
	penstock(t, dir, "limits", "resume", "a").exits(0).says(`its spec is "paused"`)
	penstock(t, dir, "limits", "reset", "a").exits(0)
	c := penstock(t, dir, "limits", "resume", "a").exits(0)
	if c.stderr.Len() > 0 {
		t.Errorf("it says %s", &c.stderr)
	}
}

// penstock work 2>&1 | head -1: the calls go on though nobody reads what it says.
func TestWorkSurvivesTheEndOfItsReader(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	for _, path := range []string{"/status/400", "/status/404", "/ok"} {
		penstock(t, dir, "enqueue", "--url", a.URL+path).exits(0)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	c := begin(t, dir, func(c *exec.Cmd) { c.Stderr = w }, "work", "--drain", "--concurrency", "1")
	c.wait()
	c.exits(1)
	if left := penstock(t, dir, "jobs", "--state", "waiting,running", "--json").exits(0).lines(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// A command that holds a permit dies of it as ever.
	c = begin(t, dir, nil, "exec", "--limit", "a=9/s", "--", "sh", "-c", "kill -PIPE $$; echo alive")
	c.wait()
	c.exits(128 + 13)
}

// Shells show what may come next as it is. And of many limits the one that is meant
// may be far down.
func TestCompletionOffersWhatIsMeantAndNothingThatSteersTheTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openDB(t, dir)
	for i := range 210 {
		if err := c.DeclareLimit(t.Context(), fmt.Sprintf("a%03d", i), "5/s"); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"good", "goo\u009b31md", "goo\u202ed"} {
		if err := c.DeclareLimit(t.Context(), name, "5/s"); err != nil {
			t.Fatal(err)
		}
	}
	kill(t, c, 1, 1, func(_ int, j *pen.NewJob) { j.Run, j.Ref = "run", "x\u009b31m" })
	offered := penstock(t, dir, "__complete", "limits", "show", "goo").exits(0).prints("good\t5/s")
	offered.stdout.Write(penstock(t, dir, "__complete", "jobs", "show", "").exits(0).stdout.Bytes())
	offered.prints("1\tdead mail x?31m")
	if strings.ContainsAny(offered.stdout.String(), "\u009b\u202e") {
		t.Errorf("offered:\n%q", &offered.stdout)
	}
}

// An error says once which database it is of, and on one line what helps.
func TestAFailureToOpenNamesTheDatabaseOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "letter.db", strings.Repeat("a letter to somebody\n", 100))
	c := penstock(t, dir, "jobs", "--db", "letter.db").exits(3).says("penstock: the database letter.db: not a Penstock database", "name another one with --db")
	if text := c.stderr.String(); strings.Count(text, "letter.db") != 1 || strings.Count(text, "\n") != 1 {
		t.Errorf("it says %q", text)
	}
}
