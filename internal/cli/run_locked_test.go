package cli_test

import (
	"bufio"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/penstockhq/penstock" // it brings the driver "sqlite"
	"github.com/penstockhq/penstock/apisim"
)

const waitsForLock = "penstock: waiting for the database: locked by another program\n"

// shell is a connection of another program to the database.
func shell(t *testing.T, dir string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "penstock.db")+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func do(t *testing.T, c *sql.Conn, statement string) {
	t.Helper()
	if _, err := c.ExecContext(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// spoken starts the command, and returns a function that waits until it has said
// a text on standard error.
func spoken(t *testing.T, dir string, args ...string) (*command, func(text string)) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	c := begin(t, dir, func(cmd *exec.Cmd) { cmd.Stderr = w }, args...)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(r)
	return c, func(text string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			c.stderr.WriteString(line)
			if strings.Contains(line, text) {
				return
			}
			if err != nil {
				t.Fatalf("it never said %q: %v\n%s", text, err, &c.stderr)
			}
		}
	}
}

// A database that another program holds locked is waited for, and that is said,
// wherever the run stands.
func TestALockedDatabaseIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 3)...)
	penstock(t, dir, "limits").exits(2) // there is no database yet
	penstock(t, dir, "run", "calls.jsonl", "--limit", "2 in flight", "-q").exits(0)
	other := shell(t, dir)

	do(t, other, "BEGIN EXCLUSIVE")
	write(t, dir, "calls.jsonl", calls(a, 6)...)
	run, says := spoken(t, dir, "run", "calls.jsonl", "--json")
	says(waitsForLock)
	if n := len(a.Log()); n != 3 {
		t.Errorf("%d calls were made while the database was locked, expected none", n-3)
	}
	a.holdAll()
	do(t, other, "ROLLBACK")
	a.await(t, 3+2)

	do(t, other, "BEGIN EXCLUSIVE")
	says(waitsForLock)
	says(", " + strings.TrimPrefix(waitsForLock, "penstock: ")) // the progress, too
	do(t, other, "ROLLBACK")
	a.release()
	run.wait()
	run.exits(0).reports(map[string]int{"total": 6, "done": 6, "starts": 3})
}

// One that stays locked is given up, and the exit code is that of the store.
func TestADatabaseThatStaysLockedExitsWithThree(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apisim.Config{})
	var locked []*command // each has a database of its own, so that none waits behind another
	var unlock []func()
	for _, args := range [][]string{{"run", "calls.jsonl", "--limit", "9/s"}, {"queues", "pause", "default"}} {
		dir := t.TempDir()
		write(t, dir, "calls.jsonl", calls(a, 1)...)
		penstock(t, dir, "run", "calls.jsonl", "--limit", "9/s", "-q").exits(0)
		other := shell(t, dir)
		do(t, other, "BEGIN EXCLUSIVE")
		locked = append(locked, begin(t, dir, nil, args...))
		unlock = append(unlock, func() {
			do(t, other, "ROLLBACK")
			penstock(t, dir, args...).exits(0)
		})
	}
	for _, c := range locked {
		c.wait()
		c.exits(3).says("penstock: the database penstock.db: ", "another program holds it locked")
	}
	locked[0].says(waitsForLock)
	for _, f := range unlock {
		f()
	}
}

// A database of a newer version is not touched.
func TestANewerSchemaExitsWithThree(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 1)...)
	penstock(t, dir, "run", "calls.jsonl", "--limit", "9/s", "-q").exits(0)
	do(t, shell(t, dir), "PRAGMA user_version = 9999")
	for _, args := range [][]string{{"run", "calls.jsonl", "--limit", "9/s"}, {"jobs"}, {"work", "--drain"}} {
		penstock(t, dir, args...).exits(3).says("penstock: the database penstock.db: ", "9999", "use that newer version")
	}
	if n := len(a.Log()); n != 1 {
		t.Errorf("%d calls, expected 1", n)
	}
}
