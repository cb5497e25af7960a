package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// member is one member of a JSON object. Its value is the text as it stood.
type member struct {
	key   string
	value json.RawMessage
}

// members splits a JSON object. It is strict: nothing may follow the object, no
// key may come twice, the text must be UTF-8. It decodes no value, so numbers
// keep their digits.
func members(text []byte) ([]member, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("is not UTF-8")
	}
	if !json.Valid(text) {
		return nil, syntaxError(text)
	}
	s := scanner{text: bytes.TrimSpace(text)}
	if s.text[0] != '{' {
		return nil, fmt.Errorf("expected a JSON object, got %s", excerpt(text))
	}
	s.at = 1
	out := make([]member, 0, 8)
	for {
		s.space()
		if s.text[s.at] == '}' {
			return out, nil
		}
		if s.text[s.at] == ',' {
			s.at++
			s.space()
		}
		var m member
		if err := json.Unmarshal(s.value(), &m.key); err != nil {
			return nil, err // cannot be: the whole is valid
		}
		s.space()
		s.at++ // the colon
		s.space()
		m.value = s.value()
		for i := range out {
			if out[i].key == m.key {
				return nil, fmt.Errorf("field %q comes twice", m.key)
			}
		}
		out = append(out, m)
	}
}

// scanner walks over text that is known to be valid JSON.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// value steps over one value and returns its text.
func (s *scanner) value() []byte {
	from, depth := s.at, 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.quoted()
			if depth == 0 {
				return s.text[from:s.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return s.text[from:s.at]
			}
			if depth--; depth == 0 {
				s.at++
				return s.text[from:s.at]
			}
		case ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return s.text[from:s.at]
			}
		}
		s.at++
	}
	return s.text[from:s.at]
}

// quoted steps over a string.
func (s *scanner) quoted() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// syntaxError says where text stops being JSON. It quotes nothing of a text that
// nobody can tell the parts of: there may be a secret in it.
func syntaxError(text []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(text, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at := min(max(int(syntax.Offset)-1, 0), len(text))
		if at >= len(text)-1 {
			return fmt.Errorf("is not JSON: %w", err)
		}
		return fmt.Errorf("is not JSON: %w, at column %d", err, at+1)
	}
	return fmt.Errorf("is not JSON: %w", err)
}

// excerpt is the beginning of a text, for messages.
func excerpt(text []byte) string {
	const most = 40
	if len(text) <= most {
		return string(bytes.ToValidUTF8(text, []byte("\uFFFD")))
	}
	return string(bytes.ToValidUTF8(text[:most], nil)) + "…"
}
