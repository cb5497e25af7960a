//go:build unix

package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/internal/pgtest"
)

var commandDir string // TestMain removes it

// command builds the command, once, and returns its path.
var command = sync.OnceValues(func() (path string, err error) {
	if commandDir, err = os.MkdirTemp("", "penstock-system-"); err != nil {
		return "", err
	}
	path = filepath.Join(commandDir, "penstock")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/penstockhq/penstock/cmd/penstock").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
})

// TestDemoByCommand is the demo with the command, on a server: migrate, and three
// processes that run the same file under one limit. One is killed in the middle of a
// call; the others make that call again, with the same key, and no other.
func TestDemoByCommand(t *testing.T) {
	t.Parallel()
	const n, window, messages, processes = 5, time.Second, 40, 3
	penstockPath, err := command()
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.DSN(t)
	if out, err := exec.Command(penstockPath, "migrate", "--db", db).CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	v := newVendor(t, apisim.Config{Algorithm: apisim.Sliding, Limit: n, Window: window, Latency: 300 * time.Millisecond}, "api")
	var lines strings.Builder
	for i := range messages {
		fmt.Fprintf(&lines, "{\"id\": \"message-%d\", \"url\": \"%s/api\", \"body\": {\"n\": %d}}\n", i, v.URL, i)
	}
	file := filepath.Join(t.TempDir(), "messages.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run := make(map[int]*worker)
	for i := range processes {
		name := i + 1
		cmd := exec.Command(penstockPath, "run", file, "--db", db, "--limit", "5/s", "--concurrency", "10", "--quiet", "-H", fmt.Sprint(pidHeader, ": ", name))
		if run[name], err = follow(t, cmd, nil); err != nil {
			t.Fatal(err)
		}
	}
	v.awaitCalls(t, "api", messages/3)
	// The one that makes the next call: it takes longer than the kill.
	made := len(v.calls("api"))
	last := v.awaitCalls(t, "api", made+1)[made:]
	for name, w := range run {
		if len(v.from(last[:1], name)) > 0 {
			w.kill()
			delete(run, name)
			break
		}
	}
	broken := last[0].Key
	for _, w := range run {
		w.ends()
	}

	refused, byKey := 0, map[string]int{}
	for _, call := range v.calls("api") {
		if call.Refused {
			refused++
			continue
		}
		byKey[call.Key]++
	}
	t.Logf("%d calls, %d refused", len(v.calls("api")), refused)
	if refused > messages/50+1 { // one may have travelled for longer than the one before it
		t.Errorf("the API refused %d calls", refused)
	}
	repeated := 0
	for _, k := range byKey {
		repeated += k - 1
	}
	// The killed process may have had a second call under way.
	if len(byKey) != messages || byKey[broken] != 2 || repeated > n {
		t.Errorf("%d messages of %d arrived, %d calls were repeated, the one that was broken off %d times", len(byKey), messages, repeated, byKey[broken]-1)
	}
	c := open(t, db, penstock.Config{})
	audit(t, c, nil)
	for _, j := range states(t, c) {
		if j.State != penstock.Done {
			t.Errorf("job %d is %v (%s %s)", j.ID, j.State, j.Reason, j.Error)
		}
	}
}
