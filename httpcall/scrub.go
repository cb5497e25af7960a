package httpcall

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

const (
	shortest       = 4 // below, a secret is not one, and masking it would garble every text
	shortestStored = 8 // the same for responses, which must stay what they were
)

// A scrubber knows the secrets of a call and takes them out of texts: an API
// may send back what it was sent.
type scrubber struct {
	all    []string // out of errors and logs
	secret []string // out of kept responses, too
}

func (s *scrubber) clone() scrubber {
	return scrubber{all: slices.Clip(s.all), secret: slices.Clip(s.secret)}
}

// add has a value taken out, and if it is secret by its name, also out of
// responses: the name of a region, say, may well be part of an answer.
func (s *scrubber) add(value string, secret bool) {
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value), strings.Trim(string(quote(value)), `"`)}
	for i, form := range forms {
		if slices.Contains(forms[:i], form) {
			continue
		}
		if len(form) >= shortest {
			s.all = append(s.all, form)
		}
		if secret && len(value) >= shortestStored {
			s.secret = append(s.secret, form)
		}
	}
}

// addHeader adds the value of a secret header, whole and behind its scheme, as
// in "Bearer abc".
func (s *scrubber) addHeader(name, value string) {
	if !isSecretHeader(name) {
		return
	}
	s.add(value, true)
	if _, credentials, found := strings.Cut(value, " "); found {
		s.add(strings.TrimSpace(credentials), true)
	}
}

// text takes every value out.
func (s *scrubber) text(text string) string { return without(text, s.all) }

// cutText is text for the first most bytes of a body or a header: where it is cut, or
// was cut before, a secret may have been cut, too.
func (s *scrubber) cutText(body []byte, most int, cut bool) string {
	text := s.text(string(clean(body, most)))
	if cut || len(body) > most {
		return withoutBegun(text, s.all)
	}
	return text
}

// withoutBegun replaces the beginning of a value at the end of text.
func withoutBegun(text string, values []string) string {
	most := 0
	for _, v := range values {
		for n := min(len(v)-1, len(text)); n >= shortest && n > most; n-- {
			if strings.HasSuffix(text, v[:n]) {
				most = n
			}
		}
	}
	if most == 0 {
		return text
	}
	return text[:len(text)-most] + masked
}

// body takes secrets out of a body that is not kept as it came: one that was cut, or
// is not text.
func (s *scrubber) body(b []byte, cut bool) []byte {
	if len(s.secret) == 0 {
		return b
	}
	text := without(string(b), s.secret)
	if cut {
		text = withoutBegun(text, s.secret)
	}
	return []byte(text)
}

// json takes secrets out of a kept response. If that breaks the JSON, the
// response is kept as text.
func (s *scrubber) json(response json.RawMessage) json.RawMessage {
	if len(response) == 0 || len(s.secret) == 0 {
		return response
	}
	scrubbed := json.RawMessage(without(string(response), s.secret))
	if len(scrubbed) == len(response) && string(scrubbed) == string(response) {
		return response
	}
	if !json.Valid(scrubbed) {
		return quote(string(scrubbed))
	}
	return scrubbed
}

// without replaces the values in text, the longest first, so that one which
// begins another leaves nothing of it.
func without(text string, values []string) string {
	found := false
	for _, v := range values {
		found = found || strings.Contains(text, v)
	}
	if !found {
		return text
	}
	values = slices.Clone(values)
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, v := range values {
		text = strings.ReplaceAll(text, v, masked)
	}
	return text
}
