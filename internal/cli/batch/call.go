package batch

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Call is what one line asks for. Zero fields were not given.
type Call struct {
	Line int64
	ID   string // "line-N" if the line has none

	Method  string
	URL     string
	Headers map[string]string
	Body    json.RawMessage // as it stood

	Draws []Draw // what "limits" names, in the order of the line
	Cost  int64  // for the host's limit, and for limits that are given as a list

	Queue          string
	Priority       int
	Group          string
	Delay          time.Duration
	RunAt          time.Time
	ExpiresAt      time.Time
	Timeout        time.Duration
	Attempts       int
	IdempotencyKey string
	AtMostOnce     bool
}

// Draw is one limit a call draws on.
type Draw struct {
	Limit string
	Cost  int64
}

// fields reads each field of a line. The order is that of messages and help.
var fields = []struct {
	name string
	read func(c *Call, v json.RawMessage) error
}{
	{"id", readID},
	{"custom_id", readID},
	{"method", func(c *Call, v json.RawMessage) (err error) { c.Method, err = readMethod(v); return }},
	{"url", func(c *Call, v json.RawMessage) (err error) { c.URL, err = readName(v); return }},
	{"headers", readHeaders},
	{"body", func(c *Call, v json.RawMessage) error { c.Body = v; return nil }},
	{"limits", readLimits},
	{"cost", func(c *Call, v json.RawMessage) (err error) { c.Cost, err = readCount(v, 1, 1<<40); return }},
	{"queue", func(c *Call, v json.RawMessage) (err error) { c.Queue, err = readName(v); return }},
	{"priority", readPriority},
	{"delay", func(c *Call, v json.RawMessage) (err error) { c.Delay, err = readDuration(v, 0); return }},
	{"run_at", func(c *Call, v json.RawMessage) (err error) { c.RunAt, err = readInstant(v); return }},
	{"timeout", func(c *Call, v json.RawMessage) (err error) {
		c.Timeout, err = readDuration(v, time.Millisecond)
		return
	}},
	{"attempts", readAttempts},
	{"expires_at", func(c *Call, v json.RawMessage) (err error) { c.ExpiresAt, err = readInstant(v); return }},
	{"idempotency_key", func(c *Call, v json.RawMessage) (err error) { c.IdempotencyKey, err = readName(v); return }},
	{"at_most_once", readAtMostOnce},
	{"group", func(c *Call, v json.RawMessage) (err error) { c.Group, err = readName(v); return }},
}

// FieldNames are the fields a line may have.
func FieldNames() []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// Parse reads line n. What it returns keeps parts of the line's memory. A null
// counts as not given.
func Parse(line []byte, n int64) (*Call, error) {
	ms, err := members(line)
	if err != nil {
		return nil, err
	}
	c := &Call{Line: n}
	for _, m := range ms {
		read := reader(m.key)
		if read == nil {
			return nil, unknownField(m.key)
		}
		if string(m.value) == "null" {
			continue
		}
		if err := read(c, m.value); err != nil {
			return nil, fmt.Errorf("%s: %w", m.key, err)
		}
	}
	if c.ID == "" {
		c.ID = "line-" + strconv.FormatInt(n, 10)
	}
	switch {
	case c.URL == "":
		return nil, fmt.Errorf(`has no "url": expected at least {"url": "https://…"}`)
	case c.Delay > 0 && !c.RunAt.IsZero():
		return nil, fmt.Errorf("delay and run_at are both given: keep one")
	}
	return c, nil
}

func reader(name string) func(*Call, json.RawMessage) error {
	for i := range fields {
		if fields[i].name == name {
			return fields[i].read
		}
	}
	return nil
}

func unknownField(name string) error {
	if near := Nearest(name, FieldNames()); near != "" {
		return fmt.Errorf("unknown field %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("unknown field %q; the fields are %s", name, strings.Join(FieldNames(), ", "))
}
