// Package rooms keeps the house in order: it reads the repository's sources
// and reports whatever breaks the rules that no compiler checks.
//
//   - Arrows: which package may import which ([CheckArrows] against [Table]).
//     They point one way, cmd -> penstock -> store -> dispatch -> limit, so
//     that policy stays pure and a store stays replaceable.
//   - Purity: the rooms that hold policy never read a clock, do I/O, roll
//     dice or start goroutines ([CheckPurity]).
//   - Habits: tests do not sleep ([CheckSleep]), and no file names a path of
//     somebody's machine ([CheckPaths]).
//
// Files are read as text, so every build tag and operating system is covered.
// The tests of this package run the checks on the repository itself.
package rooms

import (
	"fmt"
	"strings"
)

// module is the import path of the repository's root.
const module = "github.com/penstockhq/penstock"

// Arrows is the direction of the dependencies, quoted by every message.
const Arrows = "arrows point cmd -> penstock -> store -> dispatch -> limit"

// A Room is one package, or a tree of packages, and what it may import besides
// the standard library. Rooms are named by their folder, "." being the root.
type Room struct {
	// Path is the room's folder. A path that ends in "/..." is the folder and
	// all below it.
	Path string
	// May lists the rooms that every file may import; "/..." works here, too.
	May []string
	// Modules lists packages of other modules that every file may import,
	// each with all below it.
	Modules []string
	// Tests lists what only the *_test.go files may import besides, and beside
	// what all tests may: a room, or a package of another module.
	Tests []string
	// Pure holds a room to the rules of CheckPurity.
	Pure bool
	// Impure names what this pure room may use of packages that pure rooms in
	// general may not import: by package, the names, "*" at the end of one
	// standing for any ending.
	Impure map[string][]string
}

// A Finding is one broken rule.
type Finding struct {
	File string // slash-separated, from the repository's root
	Line int    // 1-based; 0 is the file or folder as a whole
	Text string // what is wrong, and what to do
}

// String formats f the way compilers do, so that editors can jump to it.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// roomOf returns the rule for the package in folder dir, and whether there is
// one. An exact path wins over a tree, a longer tree over a shorter one.
func roomOf(table []Room, dir string) (Room, bool) {
	var best Room
	found := false
	for _, r := range table {
		if r.Path == dir {
			return r, true
		}
		if covers(r.Path, dir) && len(r.Path) > len(best.Path) {
			best, found = r, true
		}
	}
	return best, found
}

// covers reports whether pattern is dir, or a tree ("a/...") that holds it.
func covers(pattern, dir string) bool {
	tree, isTree := strings.CutSuffix(pattern, "/...")
	return dir == tree || isTree && strings.HasPrefix(dir, tree+"/")
}

// coversAny reports whether one of the patterns covers dir.
func coversAny(patterns []string, dir string) bool {
	for _, p := range patterns {
		if covers(p, dir) {
			return true
		}
	}
	return false
}

// under reports whether the import path is one of the packages, or below one.
func under(packages []string, path string) bool {
	for _, p := range packages {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}
