package httpcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Validate reports every fault of the request at once, as one joined error, or
// nil. No fault quotes a value that may be a secret.
func (r Request) Validate() error {
	faults := checkURL(r.URL)
	switch verb := r.verb(); {
	case r.Method != "" && !isToken(r.Method), verb == http.MethodConnect:
		faults = append(faults, fmt.Errorf("method: expected one such as GET or POST, got %.40q", r.Method))
	case verb == http.MethodTrace: // net/http sends it again by itself, and cannot be kept from it
		faults = append(faults, fmt.Errorf("method: %.40q is not made: it is for looking at proxies, and one start could be two calls", r.Method))
	}
	faults = append(faults, r.checkHeaders()...)
	faults = append(faults, checkBody(r.Body)...)
	if r.KeyHeader != "" && r.KeyHeader != noHeader && !isToken(r.KeyHeader) {
		faults = append(faults, fmt.Errorf("key_header: expected the name of a header, or \"-\" for none, got %.40q", r.KeyHeader))
	}
	return errors.Join(faults...)
}

// checkURL needs the host written out, since a limit is named after it.
func checkURL(raw string) []error {
	fault := func(format string, args ...any) []error {
		return []error{fmt.Errorf("url: "+format, args...)}
	}
	if raw == "" {
		return fault("expected an address such as https://api.example.com/v1/things, got none")
	}
	head, _ := splitAuthority(raw)
	switch {
	case strings.Contains(head, "@"):
		return fault("a user or password must not be written in it, since it is stored: use the header Authorization with ${NAME}")
	case strings.Contains(head, "${"):
		return fault("the host must be written out, since its limit is named after it: ${NAME} can stand in the path and the query")
	}
	if err := eachReference(raw, func(string) {}); err != nil {
		return fault("%w", err)
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The error quotes all of the address, or parts of a password in it.
		if err = inner(err); strings.Contains(raw, "@") {
			err = errors.New("not an address (a / or # in what comes before a host must be written as %2F or %23)")
		}
		return fault("%q can not be parsed: %w", Mask(raw), err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fault("expected an absolute address with http:// or https:// and a host, got %q", Mask(raw))
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return fault("expected a port from 1 to 65535, got %q", p)
		}
	}
	return nil
}

// reserved headers say how a request is sent, which is not the caller's to say.
var reserved = []string{"Content-Length", "Transfer-Encoding", "Trailer", "Upgrade"}

func (r *Request) checkHeaders() []error {
	var faults []error
	seen := map[string]string{}
	for _, name := range sortedNames(r.Headers) {
		value := r.Headers[name]
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("header %.60q: "+format, append([]any{name}, args...)...))
		}
		if err := checkHeader(name, value); err != nil {
			faults = append(faults, err)
			continue
		}
		lower := strings.ToLower(name)
		if first, ok := seen[lower]; ok {
			fault("it is given twice, also as %q: names of headers are the same in any letter case", first)
			continue
		}
		seen[lower] = name
		named := 0
		if err := eachReference(value, func(string) { named++ }); err != nil {
			fault("%w", err)
			continue
		}
		if named == 0 && isSecretHeader(name) && !strings.EqualFold(name, r.KeyHeader) {
			fault("a secret must not be written out, since it is stored: write ${NAME}, and it is read from the environment variable NAME when the call is made")
		}
	}
	return faults
}

// CheckKey says whether a job's idempotency key can be sent as a header's value.
func CheckKey(key string) error {
	if !isFieldValue(key) {
		return fmt.Errorf("idempotency key %.60q: it is sent in a header, and has a line break or another control character", key)
	}
	return nil
}

// checkHeader says whether a header can be sent at all. The value is not quoted.
func checkHeader(name, value string) error {
	switch {
	case !isToken(name):
		return fmt.Errorf("header %.60q: expected a name of letters, digits and dashes", name)
	case slices.ContainsFunc(reserved, func(s string) bool { return strings.EqualFold(s, name) }):
		return fmt.Errorf("header %.60q: it says how the request is sent, and is set from the body", name)
	case strings.EqualFold(name, "Host") && strings.ContainsAny(value, " \t/\\@?#"):
		return fmt.Errorf("header %.60q: expected a host, perhaps with a port, got %.60q", name, value)
	case !isFieldValue(value):
		return fmt.Errorf("header %.60q: its value has a line break or another control character", name)
	}
	return nil
}

func checkBody(body json.RawMessage) []error {
	trimmed := bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil
	case !json.Valid(body):
		return []error{fmt.Errorf("body: expected JSON, got %.40q", body)}
	case trimmed[0] == '"' && !isText(trimmed):
		return []error{errors.New("body: the text has a character that can not be sent as UTF-8 (half of a surrogate pair, or broken UTF-8)")}
	}
	return nil
}

// isText says whether a JSON string decodes into text without loss: Go would
// put U+FFFD in the place of what is not a character.
func isText(quoted []byte) bool {
	if !utf8.Valid(quoted) {
		return false
	}
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			continue
		}
		i++
		if quoted[i] != 'u' {
			continue
		}
		unit := hex4(quoted[i+1:])
		i += 4
		switch {
		case unit >= 0xDC00 && unit < 0xE000:
			return false
		case unit >= 0xD800 && unit < 0xDC00:
			rest := quoted[i+1:]
			if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' {
				return false
			}
			if low := hex4(rest[2:]); low < 0xDC00 || low >= 0xE000 {
				return false
			}
			i += 6
		}
	}
	return true
}

// hex4 reads the four digits of an escape that is known to be valid.
func hex4(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32)
	return n
}

// isToken says whether s is a token of RFC 9110, section 5.6.2: what names of
// headers and methods are made of.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// isFieldValue says whether s can be the value of a header (RFC 9110, section 5.5).
func isFieldValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
