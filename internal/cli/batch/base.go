package batch

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// A Base makes the URLs of an OpenAI batch file, which begin with a path,
// absolute. The zero Base refuses them.
type Base struct{ prefix string }

// ParseBase reads the option --base-url.
func ParseBase(text string) (Base, error) {
	if text == "" {
		return Base{}, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Base{}, fmt.Errorf("expected a URL such as https://api.openai.com: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return Base{}, fmt.Errorf("expected a URL such as https://api.openai.com, got %q", text)
	case u.User != nil:
		return Base{}, errors.New("must not hold a user or a password: give them with -H 'Authorization: …'")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return Base{}, fmt.Errorf("must end with the path, got %q", text)
	}
	return Base{strings.TrimRight(text, "/")}, nil
}

// Resolve returns the whole URL of a line. A path is appended to the base; if
// the base ends with the path's first segment, as https://api.openai.com/v1 does
// for /v1/responses, that is not repeated.
func (b Base) Resolve(ref string) (string, error) {
	if !strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, "//") {
		return ref, nil
	}
	if b.prefix == "" {
		return "", fmt.Errorf("%q is only a path: give --base-url, as in --base-url https://api.openai.com", ref)
	}
	first, _, _ := strings.Cut(ref[1:], "/")
	if host := strings.Index(b.prefix, "//") + 2; first != "" && strings.HasSuffix(b.prefix[host:], "/"+first) {
		return strings.TrimSuffix(b.prefix, "/"+first) + ref, nil
	}
	return b.prefix + ref, nil
}
