package rooms

import (
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// root is the repository: go test runs in the package's own folder.
const root = "../.."

// report fails the test with every finding, one a line.
func report(t *testing.T, found []Finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}

// repository parses the repository, and makes sure that it was found.
func repository(t *testing.T) []Source {
	t.Helper()
	sources, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	self := func(s Source) bool { return s.File == "internal/rooms/rooms_test.go" }
	if !slices.ContainsFunc(sources, self) {
		t.Fatalf("%d files loaded, but not this one: the checks would see nothing", len(sources))
	}
	return sources
}

func TestArrows(t *testing.T) { report(t, CheckArrows(repository(t), Table)) }
func TestPurity(t *testing.T) { report(t, CheckPurity(repository(t), Table)) }
func TestSleep(t *testing.T)  { report(t, CheckSleep(repository(t))) }

func TestPaths(t *testing.T) {
	found, err := CheckPaths(os.DirFS(root), tracked(t))
	if err != nil {
		t.Fatal(err)
	}
	report(t, found)
}

// tracked lists the files under version control that are there. Where git is
// missing or declines (an unpacked archive, a clone owned by another user), it
// lists all files.
func tracked(t *testing.T) []string {
	t.Helper()
	fsys := os.DirFS(root)
	var files []string
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err == nil && len(out) > 0 {
		for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if info, err := fs.Stat(fsys, name); err == nil && info.Mode().IsRegular() {
				files = append(files, name)
			}
		}
		return files
	}
	t.Logf("git ls-files: %v; reading all files instead", err)
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin"):
			return fs.SkipDir
		case d.Type().IsRegular():
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A table whose arrows point up, or at nothing, would prove nothing.
func TestTablePointsDown(t *testing.T) {
	for i, r := range Table {
		for j, other := range Table {
			if i != j && r.Path == other.Path {
				t.Errorf("%s has two rules", r.Path)
			}
		}
		for _, may := range r.May {
			below := func(o Room) bool { return o.Path == may || covers(o.Path, may) }
			if may != r.Path && !slices.ContainsFunc(Table[i+1:], below) {
				t.Errorf("%s may import %s, which is no room further down the table", r.Path, may)
			}
		}
		if len(r.Impure) > 0 && !r.Pure {
			t.Errorf("%s has exceptions from purity without being pure", r.Path)
		}
	}
}

func TestRoomOf(t *testing.T) {
	table := []Room{{Path: "a/..."}, {Path: "a/b/c/..."}, {Path: "a/b/..."}, {Path: "a/b/c"}, {Path: "d"}}
	for dir, want := range map[string]string{
		"a": "a/...", "a/x": "a/...", "a/b": "a/b/...", "a/b/x": "a/b/...", "a/b/c": "a/b/c", "a/b/c/x": "a/b/c/...",
		"ab": "", "d": "d", "d/x": "", ".": "",
	} {
		if r, ok := roomOf(table, dir); r.Path != want || ok != (want != "") {
			t.Errorf("roomOf(%q) = %q, %v, want %q", dir, r.Path, ok, want)
		}
	}
}
