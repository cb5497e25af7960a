package store

import (
	"fmt"
	"slices"
	"strings"
)

// UnknownLimitError refuses a job that names a limit nobody has declared.
type UnknownLimitError struct {
	Name string
	// Pattern is Name with "/*" behind it, if that is declared: Name needs a key.
	Pattern string
	// Nearest are declared names that look alike, best first; a key stays as it is
	// behind the name of a declared pattern.
	Nearest []string
}

func (e *UnknownLimitError) Error() string {
	hint := e.Hint()
	if hint == "" {
		hint = "declare it before enqueueing jobs that draw on it"
	}
	return fmt.Sprintf("limit %q is not declared; %s", e.Name, hint)
}

// Hint says which name may be meant; "": no declared one looks alike.
func (e *UnknownLimitError) Hint() string {
	switch {
	case e.Pattern != "":
		return fmt.Sprintf("%q needs a key, like %q", e.Pattern, keyOf(e.Pattern))
	case len(e.Nearest) == 0:
		return ""
	case strings.HasSuffix(e.Nearest[0], "/*"):
		return fmt.Sprintf("did you mean a key of %q, like %q?", e.Nearest[0], keyOf(e.Nearest[0]))
	}
	return fmt.Sprintf("did you mean %q?", e.Nearest[0])
}

// keyOf is an example of a pattern's keys.
func keyOf(pattern string) string { return strings.TrimSuffix(pattern, "*") + "shop-17" }

// UnknownLimit is the error for a limit that is not among the declared ones.
func UnknownLimit(name string, declared []string) *UnknownLimitError {
	type near struct {
		name string
		d    int
	}
	e := &UnknownLimitError{Name: name}
	base, key, keyed := strings.Cut(name, "/")
	var found []near
	for _, d := range declared {
		of, pattern := strings.CutSuffix(d, "/*")
		if pattern && of == name {
			e.Pattern = d
			continue
		}
		mine, meant := name, d
		switch {
		case pattern && keyed && key != "*":
			mine, meant = base, of+"/"+key
		case pattern:
			mine = base
		case keyed && d == base:
			mine, of = base, base
		}
		if n := distance(strings.ToLower(mine), strings.ToLower(of)); n <= 1+len(mine)/3 {
			found = append(found, near{meant, n})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.d - b.d })
	for _, n := range found[:min(3, len(found))] {
		e.Nearest = append(e.Nearest, n.name)
	}
	return e
}

// distance is the Levenshtein distance between two strings, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
