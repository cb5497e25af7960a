package engine

import (
	"slices"
	"strings"
	"sync"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// PatternOf returns the pattern that configures a keyed limit: "shopify/*" for
// "shopify/shop-17", "" for a name without a key.
func PatternOf(name string) string {
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
	if p := PatternOf(name); p != "" && p != name {
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
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
	}
	if pattern := name + "/*"; len(rows) == nearestRead && !slices.Contains(names, pattern) {
		if _, ok, err := tx.LimitRow(pattern); err != nil {
			return err
		} else if ok {
			names = append(names, pattern)
		}
	}
	return store.UnknownLimit(name, names)
}
