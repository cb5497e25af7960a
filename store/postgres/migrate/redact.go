package migrate

import (
	"fmt"
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

// words are the keys by which libpq knows that a text is no path.
var words = regexp.MustCompile(`(?i)(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=`)

// CheckTarget refuses with ErrDSN what is meant to name a database on a server, but not
// by a URL that a store takes. It must not be taken for the path of a file: that would
// be made, and its name may have a password.
func CheckTarget(text string) error {
	if !IsDSN(text) && (strings.Contains(text, "://") || words.MatchString(text)) {
		return ErrDSN
	}
	return nil
}

// ParseDSN reads a DSN. Its error is ErrDSN, without the password.
func ParseDSN(dsn string) (*url.URL, error) {
	if !IsDSN(dsn) {
		return nil, ErrDSN
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w, got one that cannot be read: is each / ? # @ : %% of user and password written as %%2F and so on?", ErrDSN)
	}
	return u, nil
}

// Parameters are those of a DSN. In it, as libpq and pgx have it, a + is a +, and not
// a space as in the addresses of the web.
func Parameters(u *url.URL) url.Values {
	q, _ := url.ParseQuery(strings.ReplaceAll(u.RawQuery, "+", "%2B")) // pgx tells of what is wrong
	return q
}

// SetParameters writes the parameters into a DSN.
func SetParameters(u *url.URL, q url.Values) {
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
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
	q := Parameters(u)
	for name := range q {
		if strings.Contains(strings.ToLower(name), "password") { // sslpassword, too
			q.Del(name)
		}
	}
	SetParameters(u, q)
	return u.String()
}

// shellQuote is the text as one word of a shell's command line.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
