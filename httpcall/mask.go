package httpcall

import (
	"errors"
	"net/url"
	"strings"
)

// masked stands where a secret was.
const masked = "***"

// Mask returns an address for people to read: a user and password, and the
// values of a query (or fragment) that look like secrets by their names, are
// replaced by ***. What is not an address is masked the same way. References
// such as ${NAME} stay, since they give nothing away.
func Mask(address string) string {
	head, rest := maskUser(address)
	i := strings.IndexAny(rest, "?#")
	if i < 0 {
		return head + rest
	}
	var b strings.Builder
	b.WriteString(head + rest[:i])
	for rest = rest[i:]; rest != ""; {
		// rest begins with what stands before a pair: ? # & or ;
		mark, pair := rest[:1], rest[1:]
		ends := "?#&;"
		if name, _, found := strings.Cut(upTo(pair, ends), "="); found && looksSecret(name) {
			ends = "#&" // the others may be part of the secret
		}
		pair = upTo(pair, ends)
		rest = rest[1+len(pair):]
		b.WriteString(mark + maskPair(pair))
	}
	return b.String()
}

// maskUser masks a user and password, and cuts the address behind the host.
func maskUser(address string) (head, rest string) {
	head, rest = splitAuthority(address)
	end := strings.LastIndex(head, "@")
	if end < 0 {
		// A password with a slash in it makes an address that cannot be read.
		if _, err := url.Parse(address); err == nil || !strings.Contains(rest, "@") {
			return head, rest
		}
		end = strings.LastIndex(address, "@")
		head, rest = address, ""
	}
	scheme := ""
	if i := strings.Index(head, "//"); i >= 0 && i < end {
		scheme = head[:i+2]
	}
	return scheme + masked + head[end:], rest
}

func maskPair(pair string) string {
	name, value, found := strings.Cut(pair, "=")
	if !found || value == "" || !looksSecret(name) || isReference(value) {
		return pair
	}
	return name + "=" + masked
}

// upTo returns what of s comes before the first of the marks.
func upTo(s, marks string) string {
	if i := strings.IndexAny(s, marks); i >= 0 {
		return s[:i]
	}
	return s
}

// splitAuthority cuts an address behind its host and port.
func splitAuthority(address string) (head, rest string) {
	from := 0
	if i := strings.Index(address, "//"); i >= 0 {
		from = i + 2
	}
	if i := strings.IndexAny(address[from:], `/?#\`); i >= 0 {
		return address[:from+i], address[from+i:]
	}
	return address, ""
}

// looksSecret says whether something of this name is likely a secret. A mask
// too many costs little.
func looksSecret(name string) bool {
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	name = strings.ToLower(name)
	for _, word := range []string{"key", "token", "secret", "pass", "pwd", "sig", "auth", "cred", "jwt", "bearer", "session", "otp", "hmac"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return name == "code" || name == "pin" || name == "sas" || name == "hash"
}

// isReference says whether s is nothing but one ${NAME}.
func isReference(s string) bool {
	return strings.HasPrefix(s, "${") && strings.HasSuffix(s, "}") && isVariable(s[2:len(s)-1])
}

// inner returns what a *url.Error is about, without the address it quotes.
func inner(err error) error {
	for {
		var u *url.Error
		if !errors.As(err, &u) || u.Err == nil {
			return err
		}
		err = u.Err
	}
}
