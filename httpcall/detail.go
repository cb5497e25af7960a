package httpcall

import (
	"encoding/json"
	"strings"
)

const (
	detailBody    = 2 << 10
	detailHeader  = 200 // bytes of a value
	detailHeaders = 24
)

// A Detail is what an ended start leaves of its answer in the job's history.
type Detail struct {
	Status int `json:"status"`
	// Headers are those that tell of limits, and those that name the call to the
	// API's people; several values are joined by ", ".
	Headers map[string]string `json:"headers,omitempty"`
	// Response is the beginning of the body (2 KiB), made readable.
	Response string `json:"response,omitempty"`
}

func newDetail(a *Answer, secrets *scrubber) json.RawMessage {
	d := Detail{Status: a.Status, Response: secrets.cutText(a.Body, detailBody, a.Truncated)}
	for _, name := range sortedNames(a.Header) {
		if !worthKeeping(name) || len(d.Headers) >= detailHeaders {
			continue
		}
		if d.Headers == nil {
			d.Headers = map[string]string{}
		}
		d.Headers[name] = secrets.cutText([]byte(strings.Join(a.Header[name], ", ")), detailHeader, false)
	}
	return quote(d)
}

func worthKeeping(header string) bool {
	name := strings.ToLower(header)
	switch name {
	case "date", "content-type", "request-id":
		return true
	}
	for _, part := range []string{"retry-after", "ratelimit", "rate-limit", "x-request-id", "x-amzn-requestid", "correlation-id", "quota"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
