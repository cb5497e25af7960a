package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// maxName is the longest id, key or name in bytes that stores take.
const maxName = 512

func readString(v json.RawMessage) (string, error) {
	if v[0] != '"' {
		return "", fmt.Errorf("expected a string, got %s", excerpt(v))
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err
}

// readName reads a string that is not empty.
func readName(v json.RawMessage) (string, error) {
	s, err := readString(v)
	if err == nil && s == "" {
		err = errors.New("is empty: expected some text, or leave it out")
	}
	if err == nil && strings.ContainsRune(s, 0) {
		err = fmt.Errorf("must not contain NUL, got %q", s)
	}
	return s, err
}

// readID takes a string, or a whole number, whose digits are then the id.
func readID(c *Call, v json.RawMessage) error {
	if c.ID != "" {
		return errors.New(`"id" and "custom_id" are the same field: keep one`)
	}
	if c := v[0]; c == '-' || '0' <= c && c <= '9' {
		if bytes.ContainsAny(v, ".eE") {
			return fmt.Errorf("expected a string or a whole number, got %s", excerpt(v))
		}
		v = []byte(`"` + string(v) + `"`)
	}
	id, err := readName(v)
	if err == nil && len(id) > maxName {
		err = fmt.Errorf("has %d bytes, the most is %d", len(id), maxName)
	}
	c.ID = id
	return err
}

func readMethod(v json.RawMessage) (string, error) {
	m, err := readName(v)
	for _, r := range m {
		if !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '-') {
			return "", fmt.Errorf("expected an HTTP method such as POST, got %q", m)
		}
	}
	return strings.ToUpper(m), err
}

func readHeaders(c *Call, v json.RawMessage) error {
	if v[0] != '{' {
		return fmt.Errorf(`expected an object such as {"Accept": "text/plain"}, got %s`, excerpt(v))
	}
	ms, err := members(v)
	if err != nil {
		return err
	}
	c.Headers = make(map[string]string, len(ms))
	for _, m := range ms {
		value, err := readString(m.value)
		if err != nil {
			return fmt.Errorf("%s: expected a string", m.key) // the value may be a secret
		}
		name := textproto.CanonicalMIMEHeaderKey(m.key)
		if _, twice := c.Headers[name]; twice {
			return fmt.Errorf("%s comes twice", name)
		}
		c.Headers[name] = value
	}
	return nil
}

func readLimits(c *Call, v json.RawMessage) error {
	const expected = `expected names as in ["a"], or names with costs as in {"a": 1, "tokens": 800}`
	switch v[0] {
	case '[':
		var names []json.RawMessage
		if err := json.Unmarshal(v, &names); err != nil {
			return err
		}
		for _, n := range names {
			if err := addDraw(c, n, 0); err != nil {
				return fmt.Errorf("%s: %w", expected, err)
			}
		}
	case '{':
		ms, err := members(v)
		if err != nil {
			return err
		}
		for _, m := range ms {
			cost, err := readCount(m.value, 1, 1<<40)
			if err != nil {
				return fmt.Errorf("cost of %q: %w", m.key, err)
			}
			name, err := json.Marshal(m.key)
			if err != nil {
				return err
			}
			if err := addDraw(c, name, cost); err != nil {
				return fmt.Errorf("%s: %w", expected, err)
			}
		}
	default:
		return fmt.Errorf("%s, got %s", expected, excerpt(v))
	}
	return nil
}

// addDraw adds a limit; cost 0 stands for the line's.
func addDraw(c *Call, name json.RawMessage, cost int64) error {
	s, err := readName(name)
	if err != nil {
		return err
	}
	for _, d := range c.Draws {
		if d.Limit == s {
			return fmt.Errorf("%q is named twice", s)
		}
	}
	c.Draws = append(c.Draws, Draw{Limit: s, Cost: cost})
	return nil
}

func readPriority(c *Call, v json.RawMessage) error {
	n, err := readCount(v, 1, 9)
	if err != nil {
		return fmt.Errorf("%w; larger first", err)
	}
	c.Priority = int(n)
	return nil
}

func readAttempts(c *Call, v json.RawMessage) error {
	n, err := readCount(v, 1, 1<<20)
	c.Attempts = int(n)
	return err
}

func readAtMostOnce(c *Call, v json.RawMessage) error {
	switch string(v) {
	case "true":
		c.AtMostOnce = true
	case "false":
	default:
		return fmt.Errorf("expected true or false, got %s", excerpt(v))
	}
	return nil
}

// readCount reads a whole number. It takes no 1.0 and no 1e3: what a cost means
// must not depend on a reader's arithmetic.
func readCount(v json.RawMessage, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < least || n > most {
		if most >= 1<<20 {
			return 0, fmt.Errorf("expected a whole number of at least %d, got %s", least, excerpt(v))
		}
		return 0, fmt.Errorf("expected a whole number from %d to %d, got %s", least, most, excerpt(v))
	}
	return n, nil
}

func readDuration(v json.RawMessage, least time.Duration) (time.Duration, error) {
	const expected = `expected a duration such as "90s", "5m" or "1h30m"`
	s, err := readString(v)
	if err != nil {
		return 0, fmt.Errorf("%s, got %s", expected, excerpt(v))
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s, got %q", expected, s)
	case d < 0:
		return 0, fmt.Errorf("must not be negative, got %q", s)
	case d < least:
		return 0, fmt.Errorf("must be at least %v, got %q", least, s)
	}
	return d, nil
}

func readInstant(v json.RawMessage) (time.Time, error) {
	const expected = `expected an instant with its offset such as "2030-01-31T09:00:00+01:00" or "2030-01-31T08:00:00Z"`
	s, err := readString(v)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s, got %s", expected, excerpt(v))
	}
	t, err := time.Parse(time.RFC3339, s)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("%s, got %q", expected, s)
	case t.Year() < 1970:
		return time.Time{}, fmt.Errorf("must not be before 1970, got %q", s)
	case t.UTC().Year() > 9999:
		return time.Time{}, fmt.Errorf("must be before the year 10000, got %q", s)
	}
	return t, nil
}
