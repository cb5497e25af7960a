package batch_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock/internal/cli/batch"
)

func TestParseReadsEveryField(t *testing.T) {
	c, err := batch.Parse([]byte(`{"id": "a", "method": "put", "url": "/x", "headers": {"x-one": "1"},
		"body": {"n": 12345678901234567890.10, "s": "<&> \" ] } ,"}, "limits": {"tokens": 800, "a": 1}, "cost": 2, "queue": "q",
		"priority": 9, "run_at": "2030-01-31T09:00:00+01:00", "timeout": "90s", "attempts": 3,
		"expires_at": "2031-01-01T00:00:00Z", "idempotency_key": "k", "at_most_once": true, "group": "g"}`), 7)
	if err != nil {
		t.Fatal(err)
	}
	// Digits and characters of a body stay as they are written.
	if got, want := string(c.Body), `{"n": 12345678901234567890.10, "s": "<&> \" ] } ,"}`; got != want {
		t.Errorf("body %s, expected %s", got, want)
	}
	c.Body = nil
	got := fmt.Sprintf("%+v", *c)
	want := fmt.Sprintf("%+v", batch.Call{
		Line: 7, ID: "a", Method: "PUT", URL: "/x", Headers: map[string]string{"X-One": "1"},
		Draws: []batch.Draw{{Limit: "tokens", Cost: 800}, {Limit: "a", Cost: 1}}, Cost: 2, Queue: "q", Priority: 9, Group: "g",
		RunAt:     time.Date(2030, 1, 31, 9, 0, 0, 0, time.FixedZone("", 3600)),
		ExpiresAt: time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC),
		Timeout:   90 * time.Second, Attempts: 3, IdempotencyKey: "k", AtMostOnce: true,
	})
	if got != want {
		t.Errorf("got      %s\nexpected %s", got, want)
	}
}

func TestParseIDs(t *testing.T) {
	for line, want := range map[string]string{
		`{"url":"u"}`:                                  "line-3",
		`{"url":"u","id":null}`:                        "line-3",
		`{"url":"u","custom_id":"c"}`:                  "c",
		`{"url":"u","id":12345678901234567890}`:        "12345678901234567890",
		`{"url":"u","id":"é"}`:                         "é",
		"{\"url\":\"u\",\t\"limits\":[],\"id\":\"x\"}": "x",
	} {
		c, err := batch.Parse([]byte(line), 3)
		if err != nil || c.ID != want {
			t.Errorf("%s: %+v %v, expected id %q", line, c, err, want)
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		`[]`:                                      "expected a JSON object",
		`{"url":"u"`:                              "is not JSON",
		`{"url":"u"} {}`:                          "is not JSON",
		`{"url":"u",}`:                            "is not JSON",
		"{\"url\":\"\xff\"}":                      "is not UTF-8",
		`{"url":"u","url":"v"}`:                   `field "url" comes twice`,
		`{"url":"u","URL":"v"}`:                   `unknown field "URL"; did you mean "url"?`,
		`{"url":"u","idempotencykey":"v"}`:        `did you mean "idempotency_key"?`,
		`{"url":"u","colour":"v"}`:                "the fields are id, custom_id, method",
		`{"id":"a"}`:                              `has no "url"`,
		`{"url":7}`:                               "url: expected a string, got 7",
		`{"url":""}`:                              "url: is empty",
		`{"url":"u","id":""}`:                     "id: is empty",
		`{"url":"u","id":1.5}`:                    "id: expected a string or a whole number",
		`{"url":"u","id":{}}`:                     "id: expected a string",
		`{"url":"u","id":"a","custom_id":"b"}`:    "are the same field",
		`{"url":"u","method":"GET /"}`:            "method: expected an HTTP method",
		`{"url":"u","headers":["a"]}`:             "headers: expected an object",
		`{"url":"u","headers":{"A":7}}`:           "headers: A: expected a string",
		`{"url":"u","headers":{"A":"","a":""}}`:   "A comes twice",
		`{"url":"u","limits":"a"}`:                `limits: expected names as in ["a"]`,
		`{"url":"u","limits":["a","a"]}`:          "named twice",
		`{"url":"u","limits":[1]}`:                "limits: expected names",
		`{"url":"u","limits":{"a":0}}`:            `limits: cost of "a": expected a whole number of at least 1, got 0`,
		`{"url":"u","limits":{"a":1.0}}`:          "got 1.0",
		`{"url":"u","cost":-1}`:                   "cost: expected a whole number of at least 1, got -1",
		`{"url":"u","cost":99999999999999999999}`: "cost: expected a whole number",
		`{"url":"u","priority":10}`:               "priority: expected a whole number from 1 to 9, got 10; larger first",
		`{"url":"u","delay":90}`:                  `delay: expected a duration such as "90s"`,
		`{"url":"u","delay":"90"}`:                "delay: expected a duration",
		`{"url":"u","delay":"-1s"}`:               "delay: must not be negative",
		`{"url":"u","delay":"1s","run_at":"2030-01-31T09:00:00Z"}`: "keep one",
		`{"url":"u","timeout":"0s"}`:                               "timeout: must be at least 1ms",
		`{"url":"u","run_at":"2030-01-31T09:00:00"}`:               "run_at: expected an instant with its offset",
		`{"url":"u","run_at":"1901-01-31T09:00:00Z"}`:              "must not be before 1970",
		`{"url":"u","run_at":"9999-12-31T23:00:00-05:00"}`:         "before the year 10000",
		`{"url":"u","attempts":0}`:                                 "attempts: expected",
		`{"url":"u","at_most_once":"yes"}`:                         "at_most_once: expected true or false",
		`{"url":"u","group":"a\u0000b"}`:                           "group: must not contain NUL",
	} {
		if c, err := batch.Parse([]byte(line), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, expected %q", line, c, err, want)
		}
	}
}

func TestLines(t *testing.T) {
	most := strings.Repeat("m", batch.MaxLine)
	text := "\xef\xbb\xbffirst\r\n\n  \t\n second \n" + most + "\nx" + most + "\nlast"
	l := batch.NewLines(strings.NewReader(text))
	var got []string
	for {
		line, n, err := l.Next()
		var fault *batch.LineError
		switch {
		case errors.Is(err, io.EOF):
			want := []string{"1 first", "4 second", fmt.Sprint("5 ", batch.MaxLine), "6 too long", "7 last"}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, expected %q", got, want)
			}
			return
		case errors.As(err, &fault):
			got = append(got, fmt.Sprint(fault.N, " too long"))
		case err != nil:
			t.Fatal(err)
		case len(line) == batch.MaxLine:
			got = append(got, fmt.Sprint(n, " ", len(line)))
		default:
			got = append(got, fmt.Sprint(n, " ", string(line)))
		}
	}
}

func TestBaseURL(t *testing.T) {
	for _, c := range []struct{ base, ref, want string }{
		{"https://api.openai.com", "/v1/responses", "https://api.openai.com/v1/responses"},
		{"https://api.openai.com/", "/v1/responses", "https://api.openai.com/v1/responses"},
		{"https://api.openai.com/v1", "/v1/responses", "https://api.openai.com/v1/responses"},
		{"https://gateway.example/openai", "/v1/responses", "https://gateway.example/openai/v1/responses"},
		{"https://v1", "/v1/responses", "https://v1/v1/responses"},
		{"https://a.example", "https://b.example/x", "https://b.example/x"},
		{"", "https://b.example/x", "https://b.example/x"},
	} {
		b, err := batch.ParseBase(c.base)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Resolve(c.ref); got != c.want || err != nil {
			t.Errorf("%s and %s: %s %v, expected %s", c.base, c.ref, got, err, c.want)
		}
	}
	if _, err := (batch.Base{}).Resolve("/v1/x"); err == nil || !strings.Contains(err.Error(), "--base-url") {
		t.Errorf("a path without a base: %v", err)
	}
	for _, bad := range []string{"api.openai.com", "ftp://x", "https://", "https://u:p@x", "https://x?y=1", "https://x#y"} {
		if _, err := batch.ParseBase(bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"url", "cost", "queue", "stripe"}
	for name, want := range map[string]string{"quueue": "queue", "Cost": "cost", "strpie": "stripe", "zebra": "", "": "", "u": ""} {
		if got := batch.Nearest(name, known); got != want {
			t.Errorf("%q: got %q, expected %q", name, got, want)
		}
	}
}

// FuzzParse: whatever a line holds, it is read or refused, and its body is a
// part of it.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"url": "u", "body": {"a": [1, "}\"", null]}, "limits": {"a": 1}}`))
	f.Add([]byte(` {"url":"u" , "body" :1.0e5}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := batch.Parse(line, 1)
		if err == nil && len(c.Body) > 0 && !strings.Contains(string(line), string(c.Body)) {
			t.Errorf("body %q is not in %q", c.Body, line)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	line := []byte(`{"id":"customer-123456","url":"http://127.0.0.1:9912/echo","headers":{"X-A":"b"},"body":{"n":123456,"text":"hello there, how are you doing"}}`)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := batch.Parse(line, 1); err != nil {
			b.Fatal(err)
		}
	}
}
