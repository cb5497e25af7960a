package httpcall

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestI3_ResponseDigits: digits of a response changed on their way through
// floating point (RichardKnop/machinery#252, sidekiq/sidekiq#2478).
func TestI3_ResponseDigits(t *testing.T) {
	const body = "{\n  \"id\": 9007199254740993,\n  \"b\": [899999999999999990, 9223372036854775807, 0.1, 1e400, 1.0],\n  \"h\": \"<&>\\u0000\\ud83d é\"\n}\n"
	const want = `{"id":9007199254740993,"b":[899999999999999990,9223372036854775807,0.1,1e400,1.0],"h":"<&>\u0000\ud83d é"}`
	for _, status := range []int{200, 422} {
		out := answered(t, Request{URL: anURL}, "", reply(status, body))
		r := parse(t, out.result)
		if string(r.Response) != want || r.Status != status || r.Truncated {
			t.Errorf("got  %s\nwant %s in %+v", r.Response, want, r)
		}
		if !strings.Contains(string(out.result), want) {
			t.Errorf("stored as %s", out.result)
		}
	}
}

func TestResponses(t *testing.T) {
	for _, tt := range []struct{ name, body, want, encoding string }{
		{"none", "", `null`, ""},
		{"null", "null", `null`, ""},
		{"text", "it's <fine> & done\n", `"it's <fine> & done\n"`, ""},
		{"broken JSON", `{"a":`, `"{\"a\":"`, ""},
		{"two values", "1 2", `"1 2"`, ""},
		{"NUL", "a\x00b", `"a\u0000b"`, ""},
		{"bytes", "\xff\xfe", `"` + base64.StdEncoding.EncodeToString([]byte("\xff\xfe")) + `"`, "base64"},
		{"JSON of broken text", "{\"a\":\"\xff\"}", `"` + base64.StdEncoding.EncodeToString([]byte("{\"a\":\"\xff\"}")) + `"`, "base64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := answered(t, Request{URL: anURL}, "", reply(200, tt.body))
			r := parse(t, out.result)
			if string(r.Response) != tt.want || r.Encoding != tt.encoding {
				t.Errorf("got %s (%q), want %s", r.Response, r.Encoding, tt.want)
			}
		})
	}
}

func TestTruncation(t *testing.T) {
	for _, tt := range []struct {
		name, body, want string
		truncated        bool
	}{
		{"just fits", "12345678", "12345678", false},
		{"a number cut", "123456789", `"12345678"`, true},
		{"within a character", "1234567é", `"1234567"`, true},
		{"JSON cut", `{"a":"bcdefg"}`, `"{\"a\":\"bc"`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := always(200, tt.body)
			out := mustCaller(t, Options{Transport: a, MaxResponse: 8}).call(t.Context(), &Request{URL: anURL}, "", 1)
			r := parse(t, out.result)
			if out.err != nil || string(r.Response) != tt.want || r.Truncated != tt.truncated {
				t.Errorf("got %s (truncated %v, error %v), want %s", r.Response, r.Truncated, out.err, tt.want)
			}
		})
	}
}

// broken is a body that breaks off.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// TestBrokenAnswer: a success whose answer breaks off is not known in full, so
// it is tried again; any other status says enough.
func TestBrokenAnswer(t *testing.T) {
	for status, want := range map[int]string{200: "transient", 404: "permanent", 429: "limited"} {
		resp := reply(status, "", "Retry-After", "7")
		resp.Body = io.NopCloser(broken{strings.NewReader(`{"a":`)})
		out := answered(t, Request{URL: anURL}, "", resp)
		if got := kindOf(out.err); got != want {
			t.Errorf("%d: got %s (%v), want %s", status, got, out.err, want)
		}
		r := parse(t, out.result)
		if !r.Truncated || string(r.Response) != `"{\"a\":"` || r.Status != status {
			t.Errorf("%d: kept %+v", status, r)
		}
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{answer: func(int, *http.Request) *http.Response {
			<-time.After(1500 * time.Millisecond)
			return reply(200, "")
		}}
		out := mustCaller(t, Options{Transport: a}).call(t.Context(), &Request{URL: anURL}, "", 1)
		if r := parse(t, out.result); r.LatencySeconds != 1.5 || out.latency != 1500*time.Millisecond {
			t.Errorf("latency %v, %v", r.LatencySeconds, out.latency)
		}
	})
}

// TestNoAnswer: a job that dies without an answer has a result, too.
func TestNoAnswer(t *testing.T) {
	out := answered(t, Request{URL: anURL + "?key=abc"}, "", nil)
	r := parse(t, out.result)
	if r.Status != 0 || string(r.Response) != "null" {
		t.Errorf("got %s", out.result)
	}
	if !errors.Is(out.err, errBroken) || out.err.Error() != "GET https://api.example.com/v1/things?key=***: connection reset by peer" {
		t.Errorf("got %v", out.err)
	}
}

func TestParseResultRefuses(t *testing.T) {
	if _, err := ParseResult([]byte("nonsense")); err == nil {
		t.Error("nonsense is a result")
	}
}

func TestDetail(t *testing.T) {
	resp := reply(429, strings.Repeat("é", 3000)+"\x00", "Retry-After", "7", "Retry-After", "8", "X-RateLimit-Remaining", "0",
		"X-Request-Id", strings.Repeat("r", 500), "Set-Cookie", "session=abc", "Server", "x")
	out := answered(t, Request{URL: anURL}, "", resp)
	var d Detail
	if err := json.Unmarshal(out.detail, &d); err != nil {
		t.Fatal(err)
	}
	if d.Status != 429 || d.Headers["Retry-After"] != "7, 8" || len(d.Headers["X-Request-Id"]) != detailHeader || len(d.Headers) != 3 {
		t.Errorf("got %+v", d)
	}
	if len(d.Response) != detailBody {
		t.Errorf("%d bytes of the answer", len(d.Response))
	}
}
