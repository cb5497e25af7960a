// Package examples runs every example and checks what it prints.
package examples

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/penstockhq/penstock" // so that a change of it runs these tests again
	_ "github.com/penstockhq/penstock/apisim"
)

// An example is run with args; its output must be the lines, each a regular
// expression. Numbers caught in them are checked apart, in the order they come.
type example struct {
	args  []string
	lines []string
	check func(t *testing.T, numbers []float64)
}

func TestExamples(t *testing.T) {
	folders, err := filepath.Glob("*/main.go")
	if err != nil || len(folders) < len(examples) {
		t.Fatalf("found %v, %v", folders, err)
	}
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin+string(filepath.Separator), "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, folder := range folders {
		name := filepath.Dir(folder)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, ok := examples[name]
			if !ok {
				t.Fatal("nothing is known about its output: say in examples_test.go what is expected")
			}
			source, err := os.ReadFile(folder)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(index), "]("+filepath.ToSlash(folder)+")") {
				t.Error("examples/README.md does not list it")
			}
			if !strings.HasPrefix(string(source), "// ") {
				t.Error("it must begin with a comment that says what to look for")
			}
			program := filepath.Join(bin, name)
			if runtime.GOOS == "windows" {
				program += ".exe"
			}
			e.run(t, program)
		})
	}
}

// run runs the example in an empty folder, which must be empty afterwards.
func (e example) run(t *testing.T, program string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, aside bytes.Buffer
	folder, temp := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(ctx, program, e.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &out, &aside
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "TMP="+temp)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &aside)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output:\n%s%s", &out, &aside)
		}
	})
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	var numbers []float64
	for i, want := range e.lines {
		if i >= len(got) {
			t.Fatalf("%d lines, expected %d", len(got), len(e.lines))
		}
		match := regexp.MustCompile("^" + want + "$").FindStringSubmatch(got[i])
		if match == nil {
			t.Fatalf("line %d is %q, expected %q", i+1, got[i], want)
		}
		for _, text := range match[1:] {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, n)
		}
	}
	if len(got) > len(e.lines) {
		t.Errorf("%d lines, expected %d", len(got), len(e.lines))
	}
	if e.check != nil {
		e.check(t, numbers)
	}
}

// atLeast and atMost say which bound a figure broke. Where a busy machine can
// only make a figure larger, only the lower bound is asked for.
func atLeast(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want {
		t.Errorf("%s is %v, expected at least %v", what, got, want)
	}
}

func atMost(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got > want {
		t.Errorf("%s is %v, expected at most %v", what, got, want)
	}
}

// repeat returns n lines made by line.
func repeat(n int, line func(i int) string) (all []string) {
	for i := range n {
		all = append(all, line(i))
	}
	return all
}

func sum(numbers []float64) (all float64) {
	for _, n := range numbers {
		all += n
	}
	return all
}

const number = `(-?\d+(?:\.\d+)?)`

// fill puts patterns of numbers in for each #, and quotes the rest.
func fill(line string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(line), "#", number)
}

func filled(lines ...string) (all []string) {
	for _, line := range lines {
		all = append(all, fill(line))
	}
	return all
}

func filledf(n int, format string) []string {
	return repeat(n, func(i int) string { return fill(fmt.Sprintf(format, i+1)) })
}
