// Package docs holds tests that keep the documents true to the code.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The Go example of the README is the one that is compiled.
func TestREADMEExampleIsTheCompiledOne(t *testing.T) {
	_, rest, ok := strings.Cut(read(t, "README.md"), "```go\n")
	block, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("README.md has no Go block")
	}
	if code := read(t, "examples/readme/main.go"); !strings.HasSuffix(code, block) || !strings.HasPrefix(block, "package main\n") {
		t.Fatal("the Go block of README.md differs from examples/readme/main.go: copy the program into it, from its package clause on")
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// Links between documents lead somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(docs, filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md")) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", filepath.Base(doc), m[1], err)
			}
		}
	}
}
