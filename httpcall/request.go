package httpcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/penstockhq/penstock"
)

// A Request is one call: the payload of a job of the kind [Kind]. Its timeout,
// attempts and idempotency key are settings of the job, see [penstock.NewJob].
//
// ${NAME} in the URL's path or query and in the values of headers is replaced
// by the environment variable NAME when the call is made, so that secrets are
// never stored. In the URL the value is escaped: it stands for one part of the
// path, or one value of the query. Nothing is replaced in bodies.
type Request struct {
	// Method is "" for POST with a body and GET without one.
	Method string `json:"method,omitempty"`
	// URL is absolute, http or https, with its host written out.
	URL string `json:"url"`
	// Headers are sent beside those of the process, and win over them.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is a JSON value, sent byte for byte as it is here, with the
	// Content-Type application/json unless a header says otherwise. A JSON
	// string is sent as the text it holds (text/plain). null is no body.
	Body json.RawMessage `json:"body,omitempty"`
	// FollowRedirects has redirects on the same host followed, if that does not
	// lose the body. Each one followed is a call more than the job's permits.
	FollowRedirects bool `json:"follow_redirects,omitempty"`
	// KeyHeader names the header that carries the job's idempotency key: ""
	// for the process's choice (Idempotency-Key), "-" for none.
	KeyHeader string `json:"key_header,omitempty"`
}

// Payload returns the request as it is stored, with the body byte for byte.
// (json.Marshal of a Request gives equal JSON, but drops spaces in the body and
// writes <, > and & in it as escapes.) The same request gives the same bytes.
func (r Request) Payload() ([]byte, error) {
	body := r.Body
	r.Body = nil
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	payload := bytes.TrimSpace(b.Bytes())
	if len(body) == 0 {
		return payload, nil
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("body: expected JSON, got %.40q", body)
	}
	payload = append(payload[:len(payload)-1], `,"body":`...)
	return append(append(payload, body...), '}'), nil
}

// Job returns a job that makes the call: checked, with an idempotency key of
// its own, drawing on the limit that is named after the host ([HostLimit]),
// which must have been declared. The caller may change any of it.
func (r Request) Job() (penstock.NewJob, error) {
	if err := r.Validate(); err != nil {
		return penstock.NewJob{}, err
	}
	payload, err := r.Payload()
	if err != nil {
		return penstock.NewJob{}, err
	}
	return penstock.NewJob{
		Kind:           Kind,
		Payload:        payload,
		Limits:         penstock.Draws(HostLimit(r.URL)),
		IdempotencyKey: NewKey(),
	}, nil
}

// NewKey returns a random idempotency key.
func NewKey() string { return penstock.NewIdempotencyKey() }

// verb is the method that is sent. Methods are told apart by letter case, but
// nobody means a standard one in small letters to be another method.
func (r *Request) verb() string {
	switch upper := strings.ToUpper(r.Method); upper {
	case "":
		if r.hasBody() {
			return "POST"
		}
		return "GET"
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
		return upper
	}
	return r.Method
}

func (r *Request) hasBody() bool {
	return len(r.Body) > 0 && string(bytes.TrimSpace(r.Body)) != "null"
}

// content returns the bytes to send and the type they have by default.
func (r *Request) content() (body []byte, contentType string, err error) {
	if !r.hasBody() {
		return nil, "", nil
	}
	if bytes.TrimSpace(r.Body)[0] != '"' {
		return r.Body, "application/json", nil
	}
	var text string
	if err := json.Unmarshal(r.Body, &text); err != nil {
		return nil, "", err
	}
	return []byte(text), "text/plain; charset=utf-8", nil
}
