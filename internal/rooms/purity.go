package rooms

import (
	"go/ast"
	"slices"
	"strings"
)

// impurePackages are what pure rooms may not import, each with all below it:
// values come in as arguments, among them the time and the dice.
var impurePackages = []string{
	"C", "crypto/rand", "database/sql", "io/ioutil", "log", "math/rand", "net",
	"os", "plugin", "syscall", "unsafe",
}

// pureNet are parts of net that only handle values.
var pureNet = []string{"net/textproto", "net/url"}

// impureNames are what pure rooms may not mention of the packages they may
// import: clocks, timers, and the machine's own time zone.
var impureNames = map[string][]string{
	"time":    {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker", "Local"},
	"context": {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
}

// CheckPurity reports clocks, I/O, dice and goroutines in the rooms that the
// table calls pure. Their tests are free.
func CheckPurity(sources []Source, table []Room) []Finding {
	var found []Finding
	for _, s := range sources {
		room, ok := roomOf(table, s.dir())
		if !ok || !room.Pure || s.Side || s.isTest() {
			continue
		}
		found = append(found, impureImports(s, room)...)
		s.eachUse(func(at ast.Node, pkg, what string) {
			names, excepted := room.Impure[pkg]
			if slices.Contains(impureNames[pkg], what) || excepted && !matches(names, what) {
				found = append(found, s.finding(at, "pure room %s must not use %s.%s: take the value as an argument", name(room.Path), pkg, what))
			}
		})
		ast.Inspect(s.tree, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				found = append(found, s.finding(g, "pure room %s must not start goroutines: leave that to the caller", name(room.Path)))
			}
			return true
		})
	}
	return found
}

// impureImports reports the standard packages that s must not import.
func impureImports(s Source, room Room) []Finding {
	var found []Finding
	for _, spec := range s.tree.Imports {
		p := importPath(spec)
		switch {
		case spec.Name != nil && spec.Name.Name == ".":
			found = append(found, s.finding(spec, "pure room %s must not dot-import %s: its uses could not be checked", name(room.Path), p))
		case under(impurePackages, p) && !under(pureNet, p) && room.Impure[p] == nil:
			found = append(found, s.finding(spec, "pure room %s must not import %s: no clock, I/O or dice in here, values come in as arguments", name(room.Path), p))
		}
	}
	return found
}

// matches reports whether one of the patterns of Room.Impure stands for name.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		begin, open := strings.CutSuffix(p, "*")
		return name == p || open && strings.HasPrefix(name, begin)
	})
}
