package rooms

import (
	"strings"
	"testing"
	"testing/fstest"
)

// house makes a repository in memory out of pairs of file name and text.
func house(t *testing.T, pairs ...string) []Source {
	t.Helper()
	files := fstest.MapFS{"go.mod": {Data: []byte("module " + module)}}
	for i := 0; i < len(pairs); i += 2 {
		files[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	sources, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// expect compares the findings with want: each must contain its string.
// An empty want is a clean house.
func expect(t *testing.T, found []Finding, want ...string) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("%d findings, want %d:\n%v", len(found), len(want), found)
	}
	for i, f := range found {
		if !strings.Contains(f.String(), want[i]) {
			t.Errorf("finding %q does not say %q", f, want[i])
		}
	}
}

func TestCheckArrows(t *testing.T) {
	// A file that imports the given paths; %/ stands for the module.
	imports := func(paths ...string) string {
		text := "package p\n"
		for _, p := range paths {
			text += "import _ \"" + strings.ReplaceAll(p, "%", module) + "\"\n"
		}
		return text
	}
	tests := []struct {
		about string
		file  string
		text  string
		want  []string
	}{
		{"downwards", "store/a.go", imports("context", "%/dispatch", "%/limit"), nil},
		{"upwards", "limit/a.go", imports("time", "%/store"), []string{"limit/a.go:3: room limit must not import store: " + Arrows}},
		{"the root from below", "store/a.go", imports("%"), []string{"room store must not import penstock"}},
		{"the command from the root", "a.go", imports("%/cmd/penstock"), []string{"room penstock must not import cmd/penstock"}},
		{"helpers from the root", "a.go", imports("%/internal/cli", "%/httpcall", "%/apisim"), []string{"internal/cli", "httpcall", "apisim"}},
		{"nobody imports the command", "internal/cli/a.go", imports("%/cmd/penstock"), []string{"room internal/cli must not import cmd/penstock"}},
		{"the command only wires", "cmd/penstock/a.go", imports("os", "%/internal/cli", "%/store"), []string{"room cmd/penstock must not import store"}},
		{"sibling stores", "store/sqlite/a.go", imports("%/store/engine", "%/store/memory"), []string{"must not import store/memory"}},
		{"a driver where it belongs", "store/sqlite/a.go", imports("modernc.org/sqlite", "modernc.org/sqlite/lib"), nil},
		{"a driver elsewhere", "dispatch/a.go", imports("modernc.org/sqlite"), []string{"room dispatch must not import modernc.org/sqlite"}},
		{"a name that only begins alike", "store/sqlite/a.go", imports("modernc.org/sqlite3"), []string{"must not import modernc.org/sqlite3"}},
		{"a tree of rooms", "internal/cli/run/a.go", imports("%/internal/cli/show", "%"), nil},
		{"an example", "examples/sms/main.go", imports("%", "%/httpcall", "%/store"), []string{"room examples/sms must not import store"}},
		{"the pretend API stands alone", "apisim/a.go", imports("net/http", "%/limit"), []string{"room apisim must not import limit"}},
		{"no C", "store/sqlite/a.go", imports("C"), []string{"must not import C"}},
		{"a build tag hides nothing", "limit/a.go", "//go:build plan9\n\n" + imports("%/store"), []string{"limit/a.go:4: room limit"}},
		{"an operating system hides nothing", "limit/a_windows.go", imports("%/store"), []string{"room limit"}},
		{"a room without a rule", "attic/a.go", imports("%/store"), []string{"attic: a room without a rule; say its rule here"}},
		{"a room below a room is no part of it", "store/redis/a.go", imports("%/store"), []string{"store/redis: a room without a rule"}},
		{"tests have their tools", "limit/a_test.go", imports("%/limit", "%/apisim", "%/store/storetest", "pgregory.net/rapid"), nil},
		{"tools are for tests", "limit/a.go", imports("pgregory.net/rapid"), []string{"room limit must not import pgregory.net/rapid"}},
		{"tests keep to the arrows", "limit/a_test.go", imports("%/store/sqlite"), []string{"room limit must not import store/sqlite"}},
		{"a room's own tests", "httpcall/a_test.go", imports("%/store/memory"), nil},
		{"testdata is not code", "limit/testdata/a.go", imports("%/store"), nil},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			expect(t, CheckArrows(house(t, test.file, test.text), Table), test.want...)
		})
	}
}

// The bench module measures peers, so it imports what no room may.
func TestCheckArrowsLeavesOtherModulesAlone(t *testing.T) {
	peer := "package bench\nimport _ \"example.com/peer\"\n"
	side := house(t, "bench/go.mod", "module x", "bench/a.go", peer, "bench/deep/a.go", peer)
	expect(t, CheckArrows(side, Table))
	// Its end is seen, too: benches sorts after bench.
	expect(t, CheckArrows(house(t, "bench/go.mod", "module x", "benches/a.go", peer), Table), "benches: a room without a rule")
}

func TestCheckPurity(t *testing.T) {
	tests := []struct {
		about string
		file  string
		text  string
		want  []string
	}{
		{"values only", "limit/a.go", "package p\nimport \"time\"\nvar d = time.Second\nfunc f(now int64) time.Time { return time.UnixMicro(now).UTC() }", nil},
		{"a clock", "limit/a.go", "package p\nimport \"time\"\nvar t = time.Now()", []string{"limit/a.go:3: pure room limit must not use time.Now"}},
		{"a clock under another name", "retry/a.go", "package p\nimport clock \"time\"\nvar f = clock.Since", []string{"must not use time.Since"}},
		{"a clock by dot", "retry/a.go", "package p\nimport . \"time\"\nvar t = Now()", []string{"must not dot-import time"}},
		{"timers", "dispatch/a.go", "package p\nimport \"time\"\nvar a, b, c, d = time.Until, time.After, time.Sleep, time.NewTimer", []string{"Until", "After", "Sleep", "NewTimer"}},
		{"the machine's zone", "limit/a.go", "package p\nimport \"time\"\nvar z = time.Local", []string{"time.Local"}},
		{"a deadline", "limit/a.go", "package p\nimport \"context\"\nvar f = context.WithTimeout", []string{"context.WithTimeout"}},
		{"dice", "retry/a.go", "package p\nimport \"math/rand/v2\"\nvar n = rand.Int()", []string{"must not import math/rand/v2"}},
		{"I/O", "dispatch/a.go", "package p\nimport (\n\"os\"\n\"database/sql\"\n\"log/slog\"\n\"net\"\n\"net/http\"\n\"sync\"\n\"math\"\n)", []string{"a.go:3", "database/sql", "log/slog", "import net:", "net/http"}},
		{"headers", "limit/header/a.go", "package p\nimport \"net/http\"\nvar h http.Header = http.Header{}\nvar d, _ = http.ParseTime(\"\")\nvar n = http.StatusOK", nil},
		{"a call among headers", "limit/header/a.go", "package p\nimport \"net/http\"\nvar f = http.Get\nvar c http.Client", []string{"a.go:3: pure room limit/header must not use net/http.Get", "net/http.Client"}},
		{"more of the network than headers", "limit/header/a.go", "package p\nimport \"net/http/httptest\"\nvar f = httptest.NewServer", []string{"must not import net/http/httptest"}},
		{"a goroutine", "limit/a.go", "package p\nfunc f() { go f() }", []string{"must not start goroutines"}},
		{"tests are free", "limit/a_test.go", "package p\nimport (\n\"os\"\n\"time\"\n)\nvar a, b = os.Args, time.Now()", nil},
		{"stores are free", "store/sqlite/a.go", "package p\nimport \"time\"\nvar t = time.Now()", nil},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			expect(t, CheckPurity(house(t, test.file, test.text), Table), test.want...)
		})
	}
}

// No fixture below puts a bracket behind the sleep, nor names a path in one
// piece: cruder searches for both should find nothing in this file either.
func TestCheckSleep(t *testing.T) {
	nap := "package p\nimport \"time\"\nvar nap = time.Sleep\n"
	expect(t, CheckSleep(house(t, "store/a_test.go", nap)), "store/a_test.go:3: tests must not sleep")
	expect(t, CheckSleep(house(t, "bench/go.mod", "module x", "bench/a_test.go", nap)), "bench/a_test.go:3")
	expect(t, CheckSleep(house(t, "a_test.go", strings.ReplaceAll(nap, "time.", "t.")+"\n", "b_test.go", "package p\nimport t \"time\"\nvar nap = t.Sleep\n")), "b_test.go:3")
	expect(t, CheckSleep(house(t, "a_test.go", "package p\nimport . \"time\"\nvar nap = Sleep\n")), "must not dot-import time")
	expect(t, CheckSleep(house(t, "store/a.go", nap)))
	expect(t, CheckSleep(house(t, "a_test.go", "package p\nvar s = \"time.Sleep\" // time.Sleep\n")))
}

func TestCheckPaths(t *testing.T) {
	const slash = "/"
	bad := []string{
		slash + "root" + slash + "x", "see " + slash + "work" + slash + "main", "(`" + slash + "farm" + slash + "a`)",
		"db=" + slash + "home" + slash + "ann" + slash + "p.db", "\"" + slash + "Users" + slash + "ann" + slash + "p.db\"",
		slash + "tmp" + slash + "plan" + slash + "a",
	}
	for _, line := range bad {
		files := fstest.MapFS{"docs/a.md": {Data: []byte("fine\n" + line + "\n")}}
		found, err := CheckPaths(files, []string{"docs/a.md"})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, found, "docs/a.md:2: a path of one machine (/")
	}
	good := strings.Join([]string{
		"https://example.com" + slash + "work" + slash + "a", "./" + "work" + slash + "a", "$HOME" + slash + "work" + slash + "a",
		slash + "usr/local/go/bin", slash + "tmp" + slash + "penstock.db", "net" + slash + "work" + slash + "a", "at /work.",
	}, "\n")
	files := fstest.MapFS{
		"a.md":    {Data: []byte(good)},
		"a.db":    {Data: []byte("\x00" + bad[0])},
		"go.sum":  {Data: []byte(bad[0])},
		"list.md": {Data: []byte(bad[0])}, // not asked for
	}
	found, err := CheckPaths(files, []string{"a.md", "a.db", "go.sum"})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, found)
	if _, err := CheckPaths(files, []string{"missing.md"}); err == nil {
		t.Error("a file that cannot be read went unnoticed")
	}
}

func TestLoadRefusesWhatDoesNotParse(t *testing.T) {
	_, err := Load(fstest.MapFS{"limit/a.go": {Data: []byte("package p\nfunc {")}})
	if err == nil || !strings.Contains(err.Error(), "limit/a.go:2") {
		t.Errorf("error %v, want one that names limit/a.go:2", err)
	}
}
