package results

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/httpcall"
)

// timeFormat has microseconds: a line is compared with the store by its instant.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// line is a line of the file. What does not apply is null.
type line struct {
	ID         string          `json:"id"`
	State      penstock.State  `json:"state"`
	Reason     *string         `json:"reason"`
	Status     *int            `json:"status"`
	Attempts   int             `json:"attempts"`
	Starts     int             `json:"starts"`
	Throttled  int             `json:"throttled"`
	Latency    *float64        `json:"latency_seconds"`
	Response   json.RawMessage `json:"response"`
	Encoding   string          `json:"encoding,omitempty"`
	Truncated  bool            `json:"truncated"`
	Error      string          `json:"error,omitempty"`
	FinishedAt string          `json:"finished_at"`
}

// Line is the line of a job that has ended, without the line's end. The
// response stands in it as it is stored, digit by digit.
func Line(j *penstock.JobInfo) ([]byte, error) {
	l := line{
		ID: j.Ref, State: j.State,
		Attempts: j.Attempts, Starts: j.Starts, Throttled: j.Throttles, Error: j.Error,
		FinishedAt: time.UnixMicro(j.FinishedAt).UTC().Format(timeFormat),
	}
	if j.State == penstock.Done {
		l.Attempts++ // failures are counted, and the last attempt was none
	}
	if j.Reason != "" {
		reason := string(j.Reason)
		l.Reason = &reason
	}
	response := json.RawMessage("null")
	if len(j.Result) > 0 {
		r, err := httpcall.ParseResult(j.Result)
		if err != nil {
			return nil, err
		}
		if r.Status != 0 {
			l.Status, l.Latency = &r.Status, &r.LatencySeconds
		}
		l.Encoding, l.Truncated = r.Encoding, r.Truncated
		if len(r.Response) > 0 {
			response = r.Response
		}
	}
	return l.encode(response)
}

// encode puts the response in by hand: the encoder would write some of its
// characters in another way.
func (l line) encode(response json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, err
	}
	// An id may hold the same text, but with its quotes escaped.
	head, tail, _ := bytes.Cut(bytes.TrimSpace(b.Bytes()), []byte(`"response":null`))
	out := make([]byte, 0, len(head)+len(tail)+len(response)+len(`"response":`))
	out = append(append(out, head...), `"response":`...)
	return append(append(out, response...), tail...), nil
}
