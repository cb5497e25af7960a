package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/internal/cli/batch"
)

// notes are what a person should know about the limits before the calls begin.
func (b *limitBook) notes() []string {
	notes := b.unused()
	var open, known, changed []string
	for _, name := range b.names(len(b.uses)) {
		u := b.uses[name]
		switch {
		case u.override && u.declare != nil:
			notes = append(notes, fmt.Sprintf("limit %s stays %s, as set by a person, whatever --limit says", name, u.spec))
		case u.override:
			notes = append(notes, fmt.Sprintf("limit %s is %s, as set by a person", name, u.spec))
		case u.before != "":
			changed = append(changed, fmt.Sprintf("%s from %s to %s", name, u.before, u.spec))
		case u.host && !u.spec.HasRate() && u.spec.InFlight == 0 && !u.spec.Paused:
			open = append(open, name)
		case u.known:
			known = append(known, fmt.Sprintf("%s is %s", name, u.spec))
		}
	}
	if len(changed) > 0 {
		notes = append(notes, "--limit changes, for all that use this database: "+someOf(changed))
	}
	if len(known) > 0 {
		notes = append(notes, "limits that the database knows from before: "+someOf(known))
	}
	if len(open) > 0 {
		notes = append(notes, fmt.Sprintf("no limit is known for %s: calls start as fast as they can; give --limit, as in --limit 5/s", someOf(open)))
	}
	return notes
}

// unused warns of each --limit NAME=SPEC that no line draws on: its name may be
// mistyped, and then nothing holds the calls that it was meant for.
func (b *limitBook) unused() []string {
	if len(b.uses) == 0 {
		return nil // no calls
	}
	var notes []string
	used := b.names(len(b.uses))
	for _, name := range slices.Sorted(maps.Keys(b.plan.namedLimits)) {
		if b.given[name] {
			continue
		}
		hint := "they draw on " + someOf(used)
		if near := batch.Nearest(name, patternsLike(name, used)); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		notes = append(notes, fmt.Sprintf("warning: --limit %s=%s: no call of the file draws on that limit; %s", name, b.plan.namedLimits[name], hint))
	}
	return notes
}

// patternsLike are the names that a name can be mistyped for: for a pattern, the
// patterns that the keyed ones fall under.
func patternsLike(name string, used []string) []string {
	if !strings.HasSuffix(name, "/*") {
		return used
	}
	var patterns []string
	for _, u := range used {
		if base, _, keyed := strings.Cut(u, "/"); keyed && !slices.Contains(patterns, base+"/*") {
			patterns = append(patterns, base+"/*")
		}
	}
	return patterns
}

// someOf lists the first of the names.
func someOf(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
