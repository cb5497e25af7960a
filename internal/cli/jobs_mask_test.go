package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMaskJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"password" : "x" , "n":9007199254740993}`:    `{"password" : "***" , "n":9007199254740993}`,
		`{"a":{"api_key":["x",{"b":"y"}]},"c":1e400}`:  `{"a":{"api_key":["***",{"b":"***"}]},"c":1e400}`,
		`{"h":{"Authorization":"Bearer ${TOKEN}"}}`:    `{"h":{"Authorization":"Bearer ${TOKEN}"}}`,
		`{"max_tokens":800,"pin":1234,"token":true}`:   `{"max_tokens":800,"pin":"***","token":true}`,
		`{"url":"https://u:p@h/x?token=a&n=1"}`:        `{"url":"https://***@h/x?token=***&n=1"}`,
		`{"idempotency_key":"k","key_header":"X-Key"}`: `{"idempotency_key":"k","key_header":"X-Key"}`,
		`["text", "secret", "https://h/?a=b"]`:         `["text", "secret", "https://h/?a=b"]`,
		` "https://h/?sig=b" `:                         ` "https://h/?sig=***" `,
		`not JSON {"token":"x"}`:                       `not JSON {"token":"x"}`,
		`{"token":""}`:                                 `{"token":""}`,
		`{"tok\u0065n":"x"}`:                           `{"tok\u0065n":"***"}`,
	} {
		if got := string(maskJSON([]byte(in))); got != want {
			t.Errorf("%s\nbecame   %s\nexpected %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		`{"access_token": "abc", "id": "x`: `{"access_token": "***", "id": "x`,
		`{"id": 17, "access_token": "ab`:   `{"id": 17, "access_token": "***"`,
		`plain text: token`:                `plain text: token`,
	} {
		if got := maskText(in); got != want {
			t.Errorf("%s\nbecame   %s\nexpected %s", in, got, want)
		}
	}
}

// TestMaskLeavesTheRest: without secrets every byte stays; with one, nothing of
// it is left and the JSON is still JSON.
func TestMaskLeavesTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var value func(depth int) string
		value = func(depth int) string {
			space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
			kind := rapid.IntRange(0, 5).Draw(t, "kind")
			if depth > 3 {
				kind %= 3
			}
			switch kind {
			case 0:
				return space + rapid.SampledFrom([]string{"0", "-1.50", "9223372036854775807", "1e400", "0.10"}).Draw(t, "number") + space
			case 1:
				return space + rapid.SampledFrom([]string{"true", "null", `"a\u0000\ud800b"`, `"<&>"`, `"Zürich"`, `"\/"`}).Draw(t, "text") + space
			case 2:
				return space + "[]" + space
			case 3, 4:
				var parts []string
				for range rapid.IntRange(0, 4).Draw(t, "members") {
					name := rapid.SampledFrom([]string{`"a"`, `"body"`, `"n"`, `"\u00e9"`, `"to"`}).Draw(t, "name")
					parts = append(parts, space+name+space+":"+value(depth+1))
				}
				return space + "{" + strings.Join(parts, ",") + space + "}"
			}
			var parts []string
			for range rapid.IntRange(1, 4).Draw(t, "elements") {
				parts = append(parts, value(depth+1))
			}
			return space + "[" + strings.Join(parts, ",") + "]"
		}
		plain := value(0)
		if got := string(maskJSON([]byte(plain))); got != plain {
			t.Fatalf("%q became %q", plain, got)
		}
		with := `{"first":` + plain + `,"x-token" : "hunter22" ,"last":` + plain + `}`
		got := maskJSON([]byte(with))
		if !json.Valid(got) || bytes.Contains(got, []byte("hunter22")) || string(got) != strings.Replace(with, `"hunter22"`, `"***"`, 1) {
			t.Fatalf("%q became %q", with, got)
		}
	})
}
