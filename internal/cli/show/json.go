package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Lines writes values as JSON, one on each line.
type Lines struct {
	w io.Writer
	e *json.Encoder
	b bytes.Buffer
}

// NewLines writes to w.
func NewLines(w io.Writer) *Lines {
	l := &Lines{w: w}
	l.e = json.NewEncoder(&l.b)
	l.e.SetEscapeHTML(false)
	return l
}

// Print writes one value.
func (l *Lines) Print(v any) error {
	l.b.Reset()
	if err := l.e.Encode(v); err != nil {
		return err
	}
	_, err := l.w.Write(escapeControls(l.b.Bytes()))
	return err
}

// escapeControls writes the control characters that JSON allows as they are, and
// terminals obey, as escapes. In JSON they stand in strings only.
func escapeControls(b []byte) []byte {
	is := func(r rune) bool { return r >= 0x7f && r <= 0x9f }
	if !bytes.ContainsFunc(b, is) {
		return b
	}
	var out bytes.Buffer
	for _, r := range string(b) {
		if is(r) {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// never is limit.Never: the instant that does not come by waiting.
const never = 1<<63 - 1

// timeFormat is RFC 3339 with all of its microseconds, so that lines align and sort.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// Time is an instant of the store, microseconds since the Unix epoch. In JSON it
// is RFC 3339 in UTC, "never" for limit.Never, and null for 0, which means none.
type Time int64

// MarshalJSON writes the instant.
func (t Time) MarshalJSON() ([]byte, error) {
	switch {
	case t == 0:
		return []byte("null"), nil
	case t >= never-1:
		return []byte(`"never"`), nil
	}
	return strconv.AppendQuote(nil, t.UTC().Format(timeFormat)), nil
}

// UTC is the instant in UTC.
func (t Time) UTC() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Seconds is a duration; in JSON a number of seconds.
type Seconds time.Duration

// MarshalJSON writes the seconds, to the microsecond.
func (s Seconds) MarshalJSON() ([]byte, error) {
	us := time.Duration(s).Round(time.Microsecond)
	return strconv.AppendFloat(nil, us.Seconds(), 'f', -1, 64), nil
}
