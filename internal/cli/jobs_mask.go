package cli

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/httpcall"
)

// maskJSON replaces what looks like a secret in JSON, by the name of its member,
// and masks addresses. All else stays byte for byte: numbers keep their digits.
func maskJSON(b []byte) []byte {
	if !json.Valid(b) {
		return b
	}
	m := masker{in: b, d: json.NewDecoder(bytes.NewReader(b))}
	m.d.UseNumber()
	if err := m.value("", false); err != nil {
		return b // it was valid, so there is none
	}
	m.out.Write(b[m.done:])
	return m.out.Bytes()
}

// pairInText is a member with a text in what may be the beginning of JSON.
var pairInText = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"(\s*:\s*)"((?:[^"\\]|\\.)*)(?:"|$)`)

// maskText masks an answer that may be JSON, and may be cut off.
func maskText(s string) string {
	if json.Valid([]byte(s)) {
		return string(maskJSON([]byte(s)))
	}
	return pairInText.ReplaceAllStringFunc(s, func(pair string) string {
		m := pairInText.FindStringSubmatch(pair)
		if m[3] == "" || !secretName(m[1]) {
			return pair
		}
		return `"` + m[1] + `"` + m[2] + `"***"`
	})
}

// masker walks through JSON and copies it.
type masker struct {
	in   []byte
	done int // what is copied so far
	d    *json.Decoder
	out  bytes.Buffer
}

// value takes the next value, a member of this name; secret says that what it is
// part of is one.
func (m *masker) value(name string, secret bool) error {
	begin := int(m.d.InputOffset())
	t, err := m.d.Token()
	if err != nil {
		return err
	}
	switch v := t.(type) {
	case json.Delim:
		for m.d.More() {
			inner, hidden := name, secret
			if v == '{' {
				key, err := m.d.Token()
				if err != nil {
					return err
				}
				inner, _ = key.(string)
				hidden = secret || secretName(inner)
			}
			if err := m.value(inner, hidden); err != nil {
				return err
			}
		}
		_, err = m.d.Token()
		return err
	case string:
		masked := v
		if secret && v != "" && !strings.Contains(v, "${") {
			masked = "***"
		} else if strings.Contains(v, "://") && !strings.ContainsAny(v, " \n") {
			masked = httpcall.Mask(v)
		}
		if masked != v {
			m.replace(begin, masked)
		}
	case json.Number:
		if secret && isCode(name) {
			m.replace(begin, "***")
		}
	}
	return nil
}

// replace writes text in the place of the token that was just read, which is
// somewhere behind begin.
func (m *masker) replace(begin int, text string) {
	end := int(m.d.InputOffset())
	begin += len(m.in[begin:end]) - len(bytes.TrimLeft(m.in[begin:end], " \t\r\n:,"))
	m.out.Write(m.in[m.done:begin])
	m.out.Write(quoteText(text))
	m.done = end
}

// secretName says whether a value of this name is likely a secret: the rules are
// those for the queries of addresses, less what a program needs to see.
func secretName(name string) bool {
	lower := strings.ToLower(name)
	if strings.Contains(lower, "idempoten") || lower == "key_header" || lower == "code" || lower == "hash" {
		return false
	}
	return isCode(name) || strings.HasSuffix(httpcall.Mask("?"+url.QueryEscape(name)+"=x"), "=***")
}

// isCode says whether even a number of this name is a secret.
func isCode(name string) bool {
	return slices.Contains([]string{"pin", "otp", "cvv", "cvc"}, strings.ToLower(name))
}
