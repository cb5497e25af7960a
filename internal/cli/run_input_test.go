package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	penstockapi "github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

func TestBadLinesArePrintedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	long := `{"url": "` + a.URL + `", "body": "` + strings.Repeat("x", 1<<20) + `"}`
	write(t, dir, "calls.jsonl",
		`{"url": "`+a.URL+`/good"}`,
		`{"url": "`+a.URL+`", "prioritty": 3}`,
		`nonsense`,
		long,
		`{"url": "`+a.URL+`", "limits": ["sms"]}`,
		`{"url": "`+a.URL+`", "headers": {"Authorization": "Bearer seekrit"}}`,
		`{"url": "`+a.URL+`", "delay": "-5s"}`,
		`{"url": "`+a.URL+`", "cost": 99}`,
		`{"id": "line-1", "url": "`+a.URL+`/other"}`,
		`{"url": "`+a.URL+`", "idempotency_key": "a\nb"}`,
	)
	args := []string{"run", "calls.jsonl", "--limit", "10/s", "--limit", "smss=5/s", "--json"}
	c := penstock(t, dir, args...).exits(2).says(
		`line 2: unknown field "prioritty"; did you mean "priority"?`,
		`line 3: is not JSON`,
		`line 4: has 1048`,
		`line 5: limit "sms" is not declared; did you mean "smss"?`,
		`line 6: `, "${NAME}",
		`line 7: delay: must not be negative`,
		`line 8: limit "`+a.Host+`": `,
		`line 9: id "line-1" is that of line 1`,
		`line 10: idempotency key "a\nb": it is sent in a header`,
		"9 lines of calls.jsonl are bad", "--skip-invalid")
	if n := len(a.Log()); n > 0 {
		t.Fatalf("%d calls were made", n)
	}
	if strings.Contains(c.stderr.String(), "seekrit") || c.stdout.Len() > 0 {
		t.Errorf("stdout: %s\nstderr: %s", &c.stdout, &c.stderr)
	}
	penstock(t, dir, append(args, "--skip-invalid")...).exits(1).
		reports(map[string]int{"total": 1, "done": 1, "invalid": 9, "starts": 1}).says("line 2: ")
}

func TestOnlyTheFirstFiftyBadLinesArePrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lines := make([]string, 120)
	for i := range lines {
		lines[i] = "[]"
	}
	write(t, dir, "calls.jsonl", lines...)
	c := penstock(t, dir, "run", "calls.jsonl").exits(2).says("line 50: ", "and 70 more bad lines")
	if n := strings.Count(c.stderr.String(), "line "); n != 50 {
		t.Errorf("%d bad lines were printed, expected 50", n)
	}
}

// The same id twice is one call; with other content it is an error that names
// both lines, also against what was stored before.
func TestIDsAreUniqueWithinARun(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	same := `{"id": "x", "url": "` + a.URL + `/x", "body": {"n": 1}}`
	otherwise := `{"method": "POST", "body": { "n":1 }, "limits": null, "url": "` + a.URL + `/x", "id": "x"}`
	args := []string{"run", "calls.jsonl", "--limit", "100/s", "--json"}
	write(t, dir, "calls.jsonl", same, same, otherwise)
	penstock(t, dir, args...).exits(0).reports(map[string]int{"total": 1, "done": 1, "starts": 1})

	write(t, dir, "calls.jsonl", `{"id": "y", "url": "`+a.URL+`/y"}`, `{"id": "x", "url": "`+a.URL+`/x", "body": {"n": 2}}`)
	penstock(t, dir, args...).exits(2).says(`line 2: id "x" was in run "calls.jsonl" before, at line 1, with other content`)
	if n := len(a.Log()); n != 1 {
		t.Errorf("%d calls, expected 1: nothing of a bad file is sent", n)
	}
	penstock(t, dir, append(args, "--run", "another")...).exits(0).reports(map[string]int{"total": 2, "done": 2})
}

func TestAnUnsetVariableStopsBeforeAnyCall(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", `{"url": "`+a.URL+`/good"}`, `{"url": "`+a.URL+`/?k=${PENSTOCK_TEST_NOT_SET}&l=${PENSTOCK_TEST_NOR_THIS}"}`)
	for _, args := range [][]string{{}, {"--skip-invalid"}} {
		penstock(t, dir, append([]string{"run", "calls.jsonl", "--limit", "9/s"}, args...)...).exits(2).
			says("PENSTOCK_TEST_NOT_SET", "PENSTOCK_TEST_NOR_THIS")
	}
	if n := len(a.Log()); n > 0 {
		t.Errorf("%d calls were made", n)
	}
}

// A variable with a line break cannot be sent in a header: each call would fail.
func TestAVariableWithALineBreakStopsBeforeAnyCall(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", `{"url": "`+a.URL+`/good"}`, `{"url": "`+a.URL+`", "headers": {"Authorization": "Bearer ${PENSTOCK_TEST_BROKEN}"}}`)
	c := begin(t, dir, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "PENSTOCK_TEST_BROKEN=seekrit\n") }, "run", "calls.jsonl", "--limit", "9/s")
	c.wait()
	c.exits(2).says("nothing was sent", "PENSTOCK_TEST_BROKEN has a line break")
	if n := len(a.Log()); n > 0 || strings.Contains(c.stderr.String(), "seekrit") {
		t.Errorf("%d calls were made; stderr: %s", n, &c.stderr)
	}
}

func TestAHostWithoutALimitIsWarnedAboutOnce(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 5)...)
	c := penstock(t, dir, "run", "calls.jsonl").exits(0).says("no limit is known for " + a.Host)
	if n := strings.Count(c.stderr.String(), "no limit"); n != 1 {
		t.Errorf("warned %d times", n)
	}
}

// A --limit whose name no call draws on is warned about: it may be mistyped. And
// what holds though no option says it is said.
func TestALimitThatNoCallDrawsOnIsWarnedAbout(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", `{"url": "`+a.URL+`", "limits": ["orders", "shop/7"]}`)
	args := []string{"run", "calls.jsonl", "--limit", "orders=99/s", "--limit", "shop/*=50/s"}
	quiet := penstock(t, dir, append(args, "--limit", "77/s")...).exits(0).stderr.String()
	if strings.Contains(quiet, "warning") || strings.Contains(quiet, "from before") {
		t.Errorf("all limits are drawn on, but it says:\n%s", quiet)
	}
	penstock(t, dir, append(args, "--limit", a.Host+"0=5/s", "--limit", "zz=5/s", "--limit", "shops/*=5/s", "--limit", "orders/*=5/s")...).exits(0).says(
		"warning: --limit "+a.Host+`0=5/s: no call of the file draws on that limit; did you mean "`+a.Host+`"?`,
		"warning: --limit zz=5/s: no call of the file draws on that limit; they draw on "+a.Host+", orders, shop/7\n",
		`warning: --limit shops/*=5/s: no call of the file draws on that limit; did you mean "shop/*"?`,
		"limits that the database knows from before: "+a.Host+" is 77/s\n")
}

// A run that changes a limit changes it for others, too, and says so; one that
// agrees says nothing.
func TestAChangedLimitIsSaid(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", `{"url": "`+a.URL+`"}`)
	const said = "--limit changes, for all that use this database: "
	penstock(t, dir, "run", "calls.jsonl", "--run", "a", "--limit", "10/s").exits(0)
	penstock(t, dir, "run", "calls.jsonl", "--run", "b", "--limit", "50/s").exits(0).says(said + a.Host + " from 10/s to 50/s\n")
	if again := penstock(t, dir, "run", "calls.jsonl", "--run", "c", "--limit", "50/s").exits(0).stderr.String(); strings.Contains(again, said) {
		t.Errorf("nothing changed, but it says:\n%s", again)
	}
}

// What a file that is refused says of limits does not reach other runs.
func TestARefusedFileChangesNoLimit(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 1)...)
	penstock(t, dir, "run", "calls.jsonl", "--limit", "2/s").exits(0)
	write(t, dir, "bad.jsonl", append(calls(a, 1), "nonsense")...)
	penstock(t, dir, "run", "bad.jsonl", "--limit", "1000/s").exits(2)
	// Were it 1000/s now, a cost of 3 would be possible.
	write(t, dir, "costly.jsonl", `{"url": "`+a.URL+`", "cost": 3}`)
	penstock(t, dir, "run", "costly.jsonl").exits(2).says("line 1: limit")
}

// The database's failures are said plainly.
func TestStoreFailuresExitWithThree(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	write(t, dir, "calls.jsonl", calls(a, 1)...)
	write(t, dir, "text.db", strings.Repeat("this is no database\n", 300))
	if err := os.Mkdir(filepath.Join(dir, "folder.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	for db, text := range map[string]string{
		"text.db":           "not a Penstock database",
		"folder.db":         "folder.db",
		"nowhere/at/all.db": "nowhere",
	} {
		c := penstock(t, dir, "run", "calls.jsonl", "--limit", "9/s", "--db", db).exits(3).says("penstock: the database "+db, text)
		if lines := strings.Count(c.stderr.String(), "\n"); lines != 1 {
			t.Errorf("%s: %d lines:\n%s", db, lines, &c.stderr)
		}
	}
	readOnly := filepath.Join(dir, "readonly")
	if err := os.Mkdir(readOnly, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 { // root writes everywhere
		penstock(t, dir, "run", "calls.jsonl", "--limit", "9/s", "--db", "readonly/x.db").exits(3)
		penstock(t, dir, "run", "calls.jsonl", "--limit", "9/s", "--out", "readonly/out.jsonl").exits(3)
	}
	penstock(t, dir, "run", "calls.jsonl", "--limit", "9/s", "--out", "nowhere/out.jsonl").exits(3).says("--out: ")
	if n := len(a.Log()); n > 0 {
		t.Errorf("%d calls were made", n)
	}
}

// A call draws on the limits its line names, in their order, and then on its
// host's. The line's cost is for the host's limit, and for limits in a list.
func TestDraws(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAPI(t, apisim.Config{})
	url := `"url": "` + a.URL + `"`
	write(t, dir, "calls.jsonl",
		`{`+url+`}`,
		`{`+url+`, "cost": 3}`,
		`{`+url+`, "limits": ["b", "shop/7"], "cost": 2}`,
		`{`+url+`, "limits": {"b": 5, "a": 1}, "cost": 2}`,
		`{`+url+`, "limits": {"`+a.Host+`": 4, "a": 1}, "cost": 2}`)
	penstock(t, dir, "run", "calls.jsonl", "--run", "r", "--limit", "100/s", "--limit", "a=100/s", "--limit", "b=100/s", "--limit", "shop/*=100/s").exits(0)
	client, err := penstockapi.Open(t.Context(), filepath.Join(dir, "penstock.db"), penstockapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	jobs, err := client.Jobs(t.Context(), penstockapi.Filter{Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range jobs {
		got = append(got, strings.ReplaceAll(fmt.Sprint(j.Draws), a.Host, "host"))
	}
	want := []string{"[{host 1}]", "[{host 3}]", "[{b 2} {shop/7 2} {host 2}]", "[{b 5} {a 1} {host 2}]", "[{host 4} {a 1}]"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
}
