package header

import (
	"net/http"
	"strings"
	"time"
)

// named is a window of the IETF drafts.
type named struct {
	Left
	unit string // what it counts, as far as that is said
}

// structured reads RateLimit and RateLimit-Policy of the IETF drafts: from 08 on
// `"default";r=50;t=30` with `"default";q=100;w=10`, and in 07 the one
// `limit=100, remaining=50, reset=5`. A field that is malformed is ignored.
func structured(h http.Header, prefix string, clock time.Time) (all []named) {
	lines := values(h, prefix+"RateLimit")
	if len(lines) == 0 {
		return nil
	}
	policies := map[string]map[string]string{}
	for _, line := range values(h, prefix+"RateLimit-Policy") {
		for _, item := range splitQuoted(line, ',') {
			if name, params, ok := parseItem(item); ok {
				policies[name] = params
			}
		}
	}
	source := http.CanonicalHeaderKey(prefix + "RateLimit")
	for _, line := range lines {
		items := splitQuoted(line, ',')
		if w, ok := draft07(items, clock, source); ok {
			all = append(all, w)
			continue
		}
		for _, item := range items {
			if name, params, ok := parseItem(item); ok {
				all = append(all, draft08(name, params, policies[name], clock, source))
			}
		}
	}
	return all
}

func draft07(items []string, clock time.Time, source string) (named, bool) {
	params := map[string]string{}
	for _, item := range items {
		name, v, ok := strings.Cut(item, "=")
		if !ok || strings.Contains(name, ";") {
			return named{}, false
		}
		params[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(v)
	}
	return window(params["remaining"], params["limit"], params["reset"], clock, source, ""), true
}

func draft08(name string, params, policy map[string]string, clock time.Time, source string) named {
	return window(params["r"], policy["q"], params["t"], clock, source, strings.ToLower(name+" "+policy["qu"]))
}

// window puts the texts of a window together.
func window(remaining, limit, reset string, clock time.Time, source, unit string) named {
	n, ok := parseCount(remaining)
	if !ok {
		return named{}
	}
	of, whole := parseCount(limit)
	if limit != "" && !whole {
		return named{}
	}
	wait, resets := parseReset(reset, time.Second, clock)
	return named{newLeft(n, of, whole, wait, resets && reset != "", source), unit}
}

// parseItem reads `"name";a=1;b="x"`. The quotes of the name are often missing.
func parseItem(item string) (name string, params map[string]string, ok bool) {
	parts := splitQuoted(item, ';')
	name = strings.Trim(strings.TrimSpace(parts[0]), `"`)
	if name == "" || strings.Contains(name, "=") {
		return "", nil, false
	}
	params = map[string]string{}
	for _, p := range parts[1:] {
		key, v, _ := strings.Cut(p, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if _, twice := params[key]; twice {
			return "", nil, false
		}
		params[key] = strings.Trim(strings.TrimSpace(v), `"`)
	}
	return name, params, true
}

// splitQuoted splits at a separator that is not within double quotes.
func splitQuoted(s string, separator byte) (parts []string) {
	from, quoted := 0, false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == separator && !quoted:
			parts, from = append(parts, strings.TrimSpace(s[from:i])), i+1
		}
	}
	return append(parts, strings.TrimSpace(s[from:]))
}
