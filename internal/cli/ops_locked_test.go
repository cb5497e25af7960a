package cli_test

import (
	"testing"

	"github.com/penstockhq/penstock/apisim"
)

// A command that changes something waits for half a minute where another program
// holds the database locked, though it was opened at once: somebody has to be told.
func TestCommandsSayThatTheDatabaseIsLocked(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"limits", "pause", "a"}, {"queues", "pause", "default"}, {"jobs", "cancel", "2"}, {"dead", "replay", "1"}, {"prune", "--older-than", "1h"},
		{"enqueue", "--url", "http://127.0.0.1:1"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			dir, a := t.TempDir(), newAPI(t, apisim.Config{})
			penstock(t, dir, "enqueue", "--url", a.URL+"/status/400").exits(0)
			penstock(t, dir, "work", "--drain", "-q").exits(1)
			penstock(t, dir, "enqueue", "--url", a.URL, "--limit", "a=5/s").exits(0)
			other := shell(t, dir)
			do(t, other, "BEGIN IMMEDIATE")
			c, says := spoken(t, dir, args...)
			says(waitsForLock)
			do(t, other, "COMMIT")
			c.wait()
			c.exits(0)
		})
	}
}

// Whatever keeps the permit away, --wait is --wait.
func TestExecGivesUpInTimeOnALockedDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	penstock(t, dir, "exec", "--limit", "a=50/s", "--", "true").exits(0)
	other := shell(t, dir)
	do(t, other, "BEGIN IMMEDIATE")
	penstock(t, dir, "exec", "--limit", "a", "--wait", "1s", "--", "true").exits(1).says("no permit was granted in time (--wait 1s)")
	do(t, other, "COMMIT")
}
