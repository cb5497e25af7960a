package show

import (
	"encoding/json"
	"io"
	"strconv"
	"time"
)

// Lines writes values as JSON, one on each line.
type Lines struct{ e *json.Encoder }

// NewLines writes to w.
func NewLines(w io.Writer) *Lines {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return &Lines{e}
}

// Print writes one value.
func (l *Lines) Print(v any) error { return l.e.Encode(v) }

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
