package rooms

import (
	"slices"
	"strings"
)

// CheckArrows reports every import that the table does not allow, and every
// package that the table does not know. Modules beside the main one are
// their own business, except that nothing imports them.
func CheckArrows(sources []Source, table []Room) []Finding {
	var found []Finding
	unknown := map[string]bool{}
	for _, s := range sources {
		if s.Side {
			continue
		}
		room, ok := roomOf(table, s.dir())
		if !ok {
			if !unknown[s.dir()] {
				unknown[s.dir()] = true
				found = append(found, Finding{File: s.dir(), Text: "a room without a rule; say its rule here: internal/rooms/table.go"})
			}
			continue
		}
		for _, spec := range s.tree.Imports {
			p := importPath(spec)
			if !allowed(room, s, p) {
				found = append(found, s.finding(spec, "room %s must not import %s: %s (%s)",
					name(s.dir()), name(inside(p)), Arrows, permits(room)))
			}
		}
	}
	return found
}

// allowed reports whether file s of the room may import the path.
func allowed(room Room, s Source, p string) bool {
	ours := p == module || strings.HasPrefix(p, module+"/")
	switch {
	case p == "C":
		return false // Penstock builds without a C compiler
	case standard(p):
		return true
	case ours && inside(p) == s.dir() && s.isTest():
		return true // package x_test imports x
	case ours && coversAny(room.May, inside(p)):
		return true
	case !ours && under(room.Modules, p):
		return true
	case s.isTest():
		also := slices.Concat(room.Tests, testsMay)
		return ours && coversAny(also, inside(p)) || !ours && under(also, p)
	}
	return false
}

// standard reports whether p is of the standard library: only other paths
// begin with a domain.
func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// inside turns an import path of this module into a folder, and leaves others.
func inside(p string) string {
	if p == module {
		return "."
	}
	return strings.TrimPrefix(p, module+"/")
}

// name is what messages call a folder.
func name(dir string) string {
	if dir == "." {
		return "penstock"
	}
	return dir
}

// permits says what the room may import, so that a reader need not look it up.
func permits(room Room) string {
	all := []string{"the standard library"}
	for _, dir := range room.May {
		all = append(all, name(dir))
	}
	return name(room.Path) + " may import " + strings.Join(append(all, room.Modules...), ", ")
}
