package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/penstockhq/penstock/apisim"
)

// A database that must be there is not made, and what is no file's name makes no
// file.
func TestWhatIsNoDatabaseIsNotMadeOne(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 1)...)
	if err := os.WriteFile(filepath.Join(dir, "empty.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"jobs"}, {"dead"}, {"limits"}, {"queues"}, {"why", "1"}, {"doctor"}, {"work", "--drain"}, {"prune", "--older-than", "24h"},
	} {
		for db, text := range map[string]string{
			"empty.db":   "empty.db is an empty file",
			"missing.db": "there is no database missing.db",
			":memory:":   "the database :memory: ends with its process",
			"memory:":    "the database memory: ends with its process",
		} {
			penstock(t, dir, append(command, "--db", db)...).exits(2).says(text)
		}
	}
	for _, command := range [][]string{
		{"run", "calls.jsonl", "--limit", "9/s"}, {"exec", "--limit", "x=9/s", "--", "true"}, {"enqueue", "--url", a.URL},
	} {
		for _, db := range []string{"memory:", ":memory:"} {
			penstock(t, dir, slices.Insert(command, 1, "--db", db)...).exits(2).says("the database " + db + " ends with ")
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("the folder holds %v, %v: expected calls.jsonl and empty.db", files, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "empty.db")); err != nil || info.Size() != 0 {
		t.Errorf("empty.db: %v, %v", info, err)
	}
	if n := len(a.Log()); n > 0 {
		t.Errorf("%d calls were made", n)
	}
}
