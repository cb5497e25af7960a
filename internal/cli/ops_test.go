package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pen "github.com/penstockhq/penstock"
)

// lines reads the JSON lines of standard output.
func (c *command) lines() []map[string]any {
	c.t.Helper()
	var all []map[string]any
	for line := range strings.Lines(c.stdout.String()) {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			c.t.Fatalf("not a JSON line: %v: %s", err, line)
		}
		all = append(all, v)
	}
	return all
}

// prints checks that standard output holds the texts.
func (c *command) prints(texts ...string) *command {
	c.t.Helper()
	for _, text := range texts {
		if !strings.Contains(c.stdout.String(), text) {
			c.t.Errorf("standard output lacks %q:\n%s", text, &c.stdout)
		}
	}
	return c
}

// id is the id that enqueue printed.
func (c *command) id() string {
	c.t.Helper()
	return strings.TrimSpace(c.exits(0).stdout.String())
}

// dbIn is the database of the commands that run in dir.
func dbIn(dir string) string { return filepath.Join(dir, "penstock.db") }

// openDB opens the database of the commands that run in dir.
func openDB(t *testing.T, dir string) *pen.Client {
	t.Helper()
	c, err := pen.Open(t.Context(), dbIn(dir), pen.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), MaxPayload: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// kill makes n dead letters of the kind "mail", each with a body of size bytes
// and all under the limit "mail".
func kill(t *testing.T, c *pen.Client, n, size int, change func(i int, j *pen.NewJob)) {
	t.Helper()
	if err := c.DeclareLimit(t.Context(), "mail", "unlimited"); err != nil {
		t.Fatal(err)
	}
	jobs := make([]pen.NewJob, 0, n)
	body, err := json.Marshal(strings.Repeat("x", size))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		j := pen.NewJob{Kind: "mail", Payload: body, Limits: pen.Draws("mail")}
		if change != nil {
			change(i, &j)
		}
		jobs = append(jobs, j)
	}
	for len(jobs) > 0 {
		chunk := jobs[:min(len(jobs), 1000)]
		jobs = jobs[len(chunk):]
		if _, err := c.EnqueueMany(t.Context(), chunk); err != nil {
			t.Fatal(err)
		}
	}
	die(t, c, errors.New("no such address"))
}

// die has all due jobs of the kind "mail" fail for good.
func die(t *testing.T, c *pen.Client, why error) {
	t.Helper()
	err := pen.Handle(c, "mail", func(context.Context, *pen.RawJob) error { return pen.Permanent(why) }, pen.Kind{})
	if err != nil && !strings.Contains(err.Error(), "has a handler") {
		t.Fatal(err)
	}
	if err := c.Work(t.Context(), pen.WorkOptions{Drain: true}); err != nil {
		t.Fatal(err)
	}
}

// every calls fn with all jobs of a filter.
func every(t *testing.T, c *pen.Client, f pen.Filter, fn func(j pen.JobInfo)) (n int) {
	t.Helper()
	for f.N = 1000; ; {
		jobs, err := c.Jobs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			n++
			if fn != nil {
				fn(j)
			}
			f.AfterID = j.ID
		}
		if len(jobs) < f.N {
			return n
		}
	}
}

// TestCommandsNeedADatabase: a mistyped name must not make an empty database.
func TestCommandsNeedADatabase(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"jobs"}, {"jobs", "show", "1"}, {"jobs", "cancel", "1"}, {"dead"}, {"dead", "show", "1"}, {"dead", "replay", "--all"}, {"dead", "discard", "1"},
		{"work", "--drain"}, {"exec", "--limit", "a", "--", "true"},
	} {
		penstock(t, dir, args...).exits(2).says("there is no database penstock.db")
	}
	for _, db := range []string{"memory:", ":memory:"} {
		penstock(t, dir, "enqueue", "--url", "http://127.0.0.1:1", "--db", db).exits(2).says("name a file")
		penstock(t, dir, "exec", "--limit", "a=5/s", "--db", db, "--", "true").exits(2).says("name a file")
		penstock(t, dir, "work", "--db", db).exits(2).says("name a file")
	}
	if found, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(found) > 0 {
		t.Errorf("there is %v now", found)
	}
}

// TestHelpHasExamples: each command's help shows how it is used.
func TestHelpHasExamples(t *testing.T) {
	for _, name := range []string{"jobs", "jobs show", "jobs cancel", "dead", "dead show", "dead replay", "dead discard", "work", "exec", "enqueue", "completion"} {
		c := penstock(t, t.TempDir(), append(strings.Fields(name), "--help")...).exits(0)
		c.prints("Examples:", "penstock "+name)
	}
}

// TestCompletion: a shell completes what is in the database, and makes none.
func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	penstock(t, dir, "__complete", "exec", "--limit", "").exits(0).prints(":4")
	c := openDB(t, dir)
	kill(t, c, 1, 1, func(_ int, j *pen.NewJob) { j.Queue = "outbox" })
	for want, args := range map[string][]string{
		"mail\tunlimited": {"exec", "--limit", "m"},
		"outbox":          {"jobs", "--queue", ""},
		"1\tdead mail":    {"dead", "show", ""},
		"rejected":        {"dead", "replay", "--reason", ""},
		"powershell":      {"completion", ""},
		"Make the HTTP":   {"wor"},
		"cancelled\n":     {"jobs", "--state", ""},
		"\tdead mail":     {"jobs", "show", "--db", dbIn(dir), ""},
	} {
		penstock(t, dir, append([]string{"__complete"}, args...)...).exits(0).prints(want)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		penstock(t, dir, "completion", shell).exits(0).prints("penstock")
	}
	penstock(t, dir, "completion", "tcsh").exits(2)
}

// await waits until something has happened that only the store tells.
func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for !happened() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// state is the state of a job.
func state(t *testing.T, c *pen.Client, id string) pen.State {
	t.Helper()
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	j, err := c.Job(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return j.State
}

func sprint(v any) string { return fmt.Sprint(v) }
