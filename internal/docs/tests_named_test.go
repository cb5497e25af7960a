package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var namedTest = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)]+)\\)")

// A test that a document names is in the file it links to.
func TestNamedTestsExist(t *testing.T) {
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, doc := range append(docs, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
			named++
			code, err := os.ReadFile(filepath.Join(filepath.Dir(doc), m[2]))
			if err != nil || !strings.Contains(string(code), "func "+m[1]+"(t *testing.T)") {
				t.Errorf("%s names %s, which is not in %s (%v)", filepath.Base(doc), m[1], m[2], err)
			}
		}
	}
	if named < 6 {
		t.Errorf("found %d named tests, expected those of the six myths at least", named)
	}
}

// Every plot is shown by some document. That links lead to one is tested elsewhere.
func TestPlotsAreShown(t *testing.T) {
	plots, err := filepath.Glob(filepath.Join(root, "docs", "plots", "*"))
	if err != nil || len(plots) == 0 {
		t.Fatalf("found %v, %v", plots, err)
	}
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, plot := range plots {
		if !strings.Contains(all.String(), "](plots/"+filepath.Base(plot)+")") {
			t.Errorf("no document shows docs/plots/%s", filepath.Base(plot))
		}
	}
}
