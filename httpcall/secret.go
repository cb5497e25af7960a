package httpcall

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// LookupEnv finds a variable of the environment; os.LookupEnv is one.
type LookupEnv func(name string) (value string, found bool)

// Names lists the variables that the request needs, each once, in order of
// appearance: the URL first, then the headers by name.
func (r Request) Names() []string {
	var names []string
	note := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	// What is not a reference is a fault, which Validate reports.
	_ = eachReference(r.URL, note)
	for _, h := range sortedNames(r.Headers) {
		_ = eachReference(r.Headers[h], note)
	}
	return names
}

// CheckEnv says which of the variables that the request needs are not set, or
// cannot be sent in a header, all at once; nil if the call can be made.
func (r Request) CheckEnv(env LookupEnv) error {
	var faults []error
	for _, name := range r.Names() {
		value, ok := env(name)
		switch {
		case !ok:
			faults = append(faults, &UnsetError{Name: name})
		case !isFieldValue(value):
			faults = append(faults, fmt.Errorf("environment variable %s has a line break or another control character", name))
		}
	}
	return errors.Join(faults...)
}

// An UnsetError says that a variable a request needs is not set in this process.
type UnsetError struct{ Name string }

func (e *UnsetError) Error() string {
	return fmt.Sprintf("environment variable %s is not set: it is needed for ${%s}", e.Name, e.Name)
}

// eachReference calls f with the NAME of each ${NAME} in s. The error says
// which one is malformed; it does not quote what is around it.
func eachReference(s string, f func(name string)) error {
	_, err := expand(s, func(name string) (string, error) {
		f(name)
		return "", nil
	})
	return err
}

// expand returns s with each ${NAME} replaced by what value returns.
func expand(s string, value func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed || !isVariable(name) {
			return "", errors.New("expected ${NAME} with the name of an environment variable (letters, digits and _), got a ${ that is none")
		}
		v, err := value(name)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		s = rest
	}
}

func isVariable(s string) bool {
	for i, c := range []byte(s) {
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return s != ""
}

// fillURL replaces the references in a URL. Values are escaped for where they
// stand, so that the API reads exactly them.
func fillURL(raw string, value func(name string) (string, error)) (string, error) {
	with := func(part string, escape func(string) string) (string, error) {
		return expand(part, func(name string) (string, error) {
			v, err := value(name)
			return escape(v), err
		})
	}
	path, query, asked := strings.Cut(raw, "?")
	path, err := with(path, url.PathEscape)
	if err != nil || !asked {
		return path, err
	}
	query, err = with(query, url.QueryEscape)
	return path + "?" + query, err
}

// isSecretHeader says whether the value of a header is a secret by its name.
func isSecretHeader(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "authorization", "proxy-authorization", "cookie", "key", "token", "apikey", "x-apikey":
		return true
	}
	if strings.Contains(name, "idempoten") {
		return false
	}
	for _, end := range []string{"-key", "-token", "-secret", "-password"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
