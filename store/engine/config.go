package engine

import (
	"slices"
	"strings"
	"sync"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// patternOf returns the pattern that configures a keyed limit: "shopify/*" for
// "shopify/shop-17", "" for a name without a key.
func patternOf(name string) string {
	if base, _, ok := strings.Cut(name, "/"); ok {
		return base + "/*"
	}
	return ""
}

// configOf returns the row that configures the limit: its own, else its pattern's.
func configOf(tx Tx, name string) (LimitRow, bool, error) {
	row, ok, err := tx.LimitRow(name)
	if err != nil || ok {
		return row, ok, err
	}
	if p := patternOf(name); p != "" && p != name {
		return tx.LimitRow(p)
	}
	return LimitRow{}, false, nil
}

// parsed keeps the specs that were read before; there are as many as people wrote.
var parsed sync.Map // string -> limit.Spec

func parseSpec(text string) (limit.Spec, error) {
	if sp, ok := parsed.Load(text); ok {
		return sp.(limit.Spec), nil
	}
	sp, err := limit.Parse(text)
	if err != nil {
		return limit.Spec{}, err
	}
	parsed.Store(text, sp)
	return sp, nil
}

// spec returns the spec in force: a person's wins.
func (r LimitRow) spec() (limit.Spec, error) {
	if r.Set != "" {
		return parseSpec(r.Set)
	}
	return parseSpec(r.Declared)
}

// nearestRead bounds how many names are compared for a suggestion.
const nearestRead = 500

// unknownLimit builds the error for a limit nobody declared.
func unknownLimit(tx Tx, name string) error {
	rows, err := tx.LimitRows("", nearestRead)
	if err != nil {
		return err
	}
	type near struct {
		name string
		d    int
	}
	var found []near
	for _, r := range rows {
		if d := distance(strings.ToLower(name), strings.ToLower(r.Name)); d <= 1+len(name)/3 {
			found = append(found, near{r.Name, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.d - b.d })
	e := &store.UnknownLimitError{Name: name}
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
