package httpcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// A Result is what is kept of a job's last call, as the job's result: for a
// done job and for a dead one alike.
type Result struct {
	// Status is that of the answer; 0: there was none.
	Status int `json:"status"`
	// Response is the answer's body. JSON is kept as it came, on one line, its
	// digits and strings untouched; other text is a JSON string. No body is null.
	Response json.RawMessage `json:"response"`
	// Encoding is "base64" if Response is a string that holds bytes which are
	// not UTF-8, in that form; else "".
	Encoding string `json:"encoding,omitempty"`
	// Truncated says that the body was longer than what is kept, or broke off.
	Truncated bool `json:"truncated"`
	// LatencySeconds is from the start of the call to the end of the answer.
	LatencySeconds float64 `json:"latency_seconds"`
}

// ParseResult reads the result of a job of this kind.
func ParseResult(b []byte) (Result, error) {
	var r Result
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("result of an %q job: expected what this package keeps, got %.60q: %w", Kind, b, err)
	}
	return r, nil
}

// encode returns the stored form. Response is put in by hand, since json.Marshal
// would write <, > and & in it as escapes.
func (r Result) encode() json.RawMessage {
	response := r.Response
	if len(response) == 0 {
		response = json.RawMessage("null")
	}
	r.Response = nil
	rest, _ := json.Marshal(r) // numbers, truth values and plain words: can not fail
	var b bytes.Buffer
	b.Grow(len(rest) + len(response))
	head, tail, _ := bytes.Cut(rest, []byte(`"response":null`))
	b.Write(head)
	b.WriteString(`"response":`)
	b.Write(response)
	b.Write(tail)
	return b.Bytes()
}

// newResult makes the result of an answer. A body that was cut may end within a
// character, which is dropped, and is text even if it could be read as JSON: of
// a number cut in two, another number is left.
func newResult(a *Answer, secrets *scrubber) Result {
	r := Result{Status: a.Status, Truncated: a.Truncated, LatencySeconds: seconds(a.Latency)}
	body := a.Body
	if a.Truncated {
		body = secrets.body(wholeCharacters(body), true)
	}
	switch {
	case len(body) == 0:
	case !utf8.Valid(body):
		r.Response, r.Encoding = quote(secrets.body(body, a.Truncated)), "base64"
	case !a.Truncated && json.Valid(body):
		var b bytes.Buffer
		_ = json.Compact(&b, body) // valid, so it can not fail
		r.Response = b.Bytes()
	default:
		r.Response = quote(string(body))
	}
	return r
}

// quote writes a string, or bytes as base64, as JSON with <, > and & as they are.
func quote(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // strings and bytes: can not fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// wholeCharacters drops the beginning of a character at the end.
func wholeCharacters(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i > len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// seconds is a latency to the microsecond.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)/time.Microsecond) / 1e6
}
