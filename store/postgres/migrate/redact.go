package migrate

import (
	"net/url"
	"regexp"
	"strings"
)

// secretWords matches a password in a DSN of words, key=value, as libpq reads
// them: the value may be quoted, and have quotes and spaces behind backslashes.
var secretWords = regexp.MustCompile(`(?i)\b(\w*password)\s*=\s*('(?:[^'\\]|\\.)*'?|(?:[^\s'\\]|\\.)*)\s*`)

// IsDSN reports whether text is meant as the DSN of a PostgreSQL database, not as
// the path of a file.
func IsDSN(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// Redact is a DSN without passwords, for people and logs. What cannot be read as a
// DSN may have one anywhere, so nothing of it is shown.
func Redact(dsn string) string {
	if !IsDSN(dsn) {
		return strings.TrimSpace(secretWords.ReplaceAllString(dsn, ""))
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "postgres://..."
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(strings.ToLower(name), "password") { // sslpassword, too
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// shellQuote is the text as one word of a shell's command line.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
