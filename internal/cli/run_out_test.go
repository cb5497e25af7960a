package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstockhq/penstock/apisim"
)

func openPipe(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Whatever became of the file of results, the next command leaves in it one
// line for each call that has ended.
func TestOutIsPutRight(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 20)...)
	args := []string{"run", "calls.jsonl", "--limit", "1000/s", "--out", "out.jsonl"}
	penstock(t, dir, args...).exits(0)
	out := filepath.Join(dir, "out.jsonl")
	whole := readFile(t, out)
	lines := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
	lines[19] = append(lines[19], '\n')
	for name, damage := range map[string][]byte{
		"a torn tail":        whole[:len(whole)-25],
		"a line without end": whole[:len(whole)-1],
		"missing lines":      bytes.Join([][]byte{lines[3], lines[17], lines[5]}, nil),
		"lines twice":        bytes.Join([][]byte{whole, lines[0], lines[7], lines[7]}, nil),
		"zeros at the end":   append(bytes.Join(lines[:9], nil), make([]byte, 4096)...),
		"nothing":            nil,
	} {
		if err := os.WriteFile(out, damage, 0o644); err != nil {
			t.Fatal(err)
		}
		penstock(t, dir, args...).exits(0)
		r := results(t, out)
		if len(r) != 20 {
			t.Errorf("%s: %d results, expected 20", name, len(r))
		}
		if got := len(readFile(t, out)); got != len(whole) {
			t.Errorf("%s: the file has %d bytes, expected %d", name, got, len(whole))
		}
	}
	if n := len(a.Log()); n != 20 {
		t.Errorf("%d calls, expected 20", n)
	}
	if _, err := os.Stat(out + ".tmp"); err == nil {
		t.Error("a temporary file was left behind")
	}
}

// A file that holds something else is not touched.
func TestOutOfAnotherRunIsRefused(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	// The same ids in both files: an id alone proves nothing.
	write(t, dir, "one.jsonl", calls(a, 3)...)
	write(t, dir, "two.jsonl", calls(a, 3)...)
	write(t, dir, "other.jsonl", `{"id": "other", "url": "`+a.URL+`"}`)
	write(t, dir, "notes.txt", "important")
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"my":"precious"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	penstock(t, dir, "run", "one.jsonl", "--limit", "1000/s", "--out", "one.out").exits(0)
	penstock(t, dir, "run", "two.jsonl", "--limit", "1000/s", "--out", "two.out").exits(0)
	calls := len(a.Log())
	for _, c := range []struct{ file, out, db string }{
		{"two.jsonl", "one.out", "penstock.db"},   // loaded before
		{"other.jsonl", "one.out", "penstock.db"}, // not loaded yet
		{"one.jsonl", "one.out", "fresh.db"},      // another database
		{"one.jsonl", "notes.txt", "penstock.db"},
		{"one.jsonl", "config.json", "penstock.db"}, // one line without an end is no torn tail
		{"one.jsonl", "config.json", "fresh.db"},
		{"one.jsonl", ".", "penstock.db"},
		{"one.jsonl", "one.jsonl", "penstock.db"},
	} {
		before, _ := os.ReadFile(filepath.Join(dir, c.out))
		penstock(t, dir, "run", c.file, "--limit", "1000/s", "--out", c.out, "--db", c.db).exits(2).says("--out")
		if after, _ := os.ReadFile(filepath.Join(dir, c.out)); !bytes.Equal(before, after) {
			t.Errorf("%s was changed", c.out)
		}
	}
	if n := len(a.Log()); n != calls {
		t.Errorf("%d calls were made by commands that were refused", n-calls)
	}
}

// A call that fails for good is dead; --retry-dead gives it another chance, and
// its result is replaced.
func TestDeadAndRetried(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl",
		`{"id": "good", "url": "`+a.URL+`/status/200"}`,
		`{"id": "bad", "url": "`+a.URL+`/status/400"}`,
		`{"id": "late", "url": "`+a.URL+`/status/201", "expires_at": "2001-01-01T00:00:00Z"}`)
	args := []string{"run", "calls.jsonl", "--limit", "1000/s", "--out", "out.jsonl", "--json"}
	out := filepath.Join(dir, "out.jsonl")

	penstock(t, dir, args...).exits(1).reports(map[string]int{"total": 3, "done": 1, "dead": 2, "starts": 2})
	r := results(t, out)
	if b := r["bad"]; b["state"] != "dead" || b["reason"] != "rejected" || b["status"] != 400.0 || b["attempts"] != 1.0 {
		t.Errorf("bad: %v", b)
	}
	if l := r["late"]; l["state"] != "dead" || l["reason"] != "expired" || l["status"] != nil {
		t.Errorf("late: %v", l)
	}

	penstock(t, dir, args...).exits(1).reports(map[string]int{"starts": 0, "dead": 2})
	before := r["bad"]["finished_at"]
	penstock(t, dir, append(args, "--retry-dead")...).exits(1).
		reports(map[string]int{"done": 2, "dead": 1, "starts": 2}).says("2 dead calls back in line")
	r = results(t, out)
	if b := r["bad"]; len(r) != 3 || b["starts"] != 2.0 || b["finished_at"] == before {
		t.Errorf("after the retry: %v", r)
	}
	if r["late"]["state"] != "done" {
		t.Errorf("late, when somebody wants it to run: %v", r["late"])
	}
	ks := keys(a)
	if len(ks) != 3 {
		t.Errorf("%d keys for 3 calls: a replay has the same key", len(ks))
	}
}

// Nothing that is secret is in the database, its log, the results or what is
// printed.
func TestSecretsAreNotStored(t *testing.T) {
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl",
		`{"url": "`+a.URL+`/echo/${A_PATH}?api_key=${A_QUERY}", "headers": {"X-Api-Key": "${A_HEADER}"}}`,
		`{"url": "`+a.URL+`/status/400?api_key=${A_QUERY}"}`)
	t.Setenv("A_PATH", "seekrit-path")
	t.Setenv("A_QUERY", "seekrit-query")
	t.Setenv("A_HEADER", "seekrit-header")
	c := penstock(t, dir, "run", "calls.jsonl", "--limit", "1 in flight", "--out", "out.jsonl", "-H", "Authorization: Bearer seekrit-flag").exits(1)
	if h := a.headers(0); h.Get("Authorization") != "Bearer seekrit-flag" || h.Get("X-Api-Key") != "seekrit-header" {
		t.Errorf("headers: %v", h)
	}
	if log := a.Log(); !strings.HasSuffix(log[0].Path, "/seekrit-path") {
		t.Errorf("path: %s", log[0].Path)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 3 {
		t.Fatal(err, files)
	}
	texts := map[string][]byte{"stderr": c.stderr.Bytes(), "stdout": c.stdout.Bytes()}
	for _, f := range files {
		texts[filepath.Base(f)] = readFile(t, f)
	}
	for name, text := range texts {
		for _, secret := range []string{"query", "header", "flag"} {
			if bytes.Contains(text, []byte("seekrit-"+secret)) {
				t.Errorf("%s holds the %s's secret", name, secret)
			}
		}
		// The echo says the path back: an answer is the API's word, and is kept.
		if name == "stderr" && bytes.Contains(text, []byte("seekrit-path")) {
			t.Errorf("%s holds the path's secret", name)
		}
	}
}
