package httpcall

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/limit/header"
)

// A StatusError says that the API answered, and not with success.
type StatusError struct {
	Method string
	URL    string // masked
	Status int
	// Text is what more there is to say: where a redirect leads, or how the
	// answer begins.
	Text string
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s %s: %d", e.Method, e.URL, e.Status)
	if name := http.StatusText(e.Status); name != "" {
		s += " " + name
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

// verdictOn is all that decides what an answer means.
type verdictOn struct {
	request *Request
	answer  *Answer
	said    header.Observation // by the answer's headers
	broke   error              // why the body broke off, if it did
	keySent bool
	refusal error // why a redirect was not followed, if one was to be
	secrets *scrubber
	// wait is how long to wait for the next attempt if the API states a time.
	wait func(stated time.Duration) time.Duration
}

// judge returns what the start returns: nil for done.
func (v verdictOn) judge() error {
	a, said := v.answer, v.said
	transient := func(err error) error {
		if said.Stated {
			return penstock.RetryIn(v.wait(said.RetryAfter), err)
		}
		return err
	}
	switch status := a.Status; {
	case said.Limited:
		return &penstock.RateLimitedError{Wait: said.RetryAfter, Err: v.fault(v.excerpt())}
	case status >= 200 && status < 300:
		if v.broke != nil {
			return describe(v.request, v.secrets, fmt.Errorf("%d, but the answer broke off after %d bytes: %w", status, len(a.Body), inner(v.broke)))
		}
		return nil
	case status >= 300 && status < 400:
		return penstock.Permanent(v.fault(v.redirect()))
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status >= 500:
		return transient(v.fault(v.excerpt()))
	case status == http.StatusConflict && v.keySent:
		return transient(v.fault(v.excerpt()))
	}
	return penstock.Permanent(v.fault(v.excerpt()))
}

func (v verdictOn) fault(text string) error {
	return &StatusError{Method: v.request.verb(), URL: Mask(v.request.URL), Status: v.answer.Status, Text: text}
}

// redirect says where a redirect leads and why it was not followed.
func (v verdictOn) redirect() string {
	to := v.answer.Header.Get("Location")
	if to == "" {
		return v.excerpt()
	}
	to = v.secrets.text(Mask(to))
	switch {
	case v.refusal != nil:
		return fmt.Sprintf("the redirect to %.200q is not followed: %v", to, v.refusal)
	case v.request.FollowRedirects:
		return fmt.Sprintf("the redirect to %.200q can not be followed", to)
	}
	return fmt.Sprintf("redirects are not followed unless the call asks for it, and this one leads to %.200q", to)
}

const excerptLen = 200

// excerpt is the beginning of the answer, on one line, for an error's text.
func (v verdictOn) excerpt() string {
	text := v.secrets.cutText(v.answer.Body, 4*excerptLen, v.answer.Truncated)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > excerptLen {
		text = string(wholeCharacters([]byte(text[:excerptLen]))) + "…"
	}
	return text
}

// clean returns the beginning of a body as UTF-8 without control characters.
func clean(body []byte, most int) []byte {
	if len(body) > most {
		body = wholeCharacters(body[:most])
	}
	return bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0x7F {
			return ' '
		}
		return r
	}, bytes.ToValidUTF8(body, []byte("�")))
}
