package httpcall

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

const anURL = "https://api.example.com/v1/things"

func TestValidate(t *testing.T) {
	header := func(name, value string) Request {
		return Request{URL: anURL, Headers: map[string]string{name: value}}
	}
	body := func(raw string) Request { return Request{URL: anURL, Body: json.RawMessage(raw)} }
	tests := []struct {
		name string
		r    Request
		want string // part of the error; "": valid
	}{
		{"plain", Request{URL: anURL}, ""},
		{"port", Request{URL: "http://127.0.0.1:8080"}, ""},
		{"IPv6", Request{URL: "http://[::1]:8080/"}, ""},
		{"references", Request{URL: "https://api.example.com/bot${TOKEN}/send?key=${KEY}"}, ""},
		{"own method", Request{URL: anURL, Method: "PURGE"}, ""},
		{"no url", Request{}, "expected an address"},
		{"relative", Request{URL: "/v1/chat/completions"}, "http:// or https://"},
		{"no scheme", Request{URL: "api.example.com/v1"}, "http:// or https://"},
		{"other scheme", Request{URL: "ftp://api.example.com/v1"}, "http:// or https://"},
		{"no host", Request{URL: "https:///v1"}, "and a host"},
		{"broken escape", Request{URL: "https://api.example.com/%zz"}, "can not be parsed"},
		{"line break", Request{URL: "https://api.example.com/\n"}, "can not be parsed"},
		{"port too large", Request{URL: "https://api.example.com:70000/"}, "from 1 to 65535"},
		{"user", Request{URL: "https://me:hunter22@api.example.com/"}, "a user or password must not"},
		{"user by reference", Request{URL: "https://${KEY}@api.example.com/"}, "a user or password must not"},
		{"password with a slash", Request{URL: "https://me:hun/ter22@api.example.com/"}, "can not be parsed"},
		{"host by reference", Request{URL: "https://${HOST}/v1"}, "the host must be written out"},
		{"all by reference", Request{URL: "${BASE}/v1"}, "the host must be written out"},
		{"open reference", Request{URL: anURL + "?key=${KEY"}, "expected ${NAME}"},
		{"bad reference", Request{URL: anURL + "?key=${1-2}"}, "expected ${NAME}"},
		{"method with a space", Request{URL: anURL, Method: "GET /"}, "method: expected"},
		{"connect", Request{URL: anURL, Method: "connect"}, "method: expected"},
		{"key header", Request{URL: anURL, KeyHeader: "X Key"}, "key_header"},
		{"no key header", Request{URL: anURL, KeyHeader: "-"}, ""},

		{"header", header("X-Trace", "1"), ""},
		{"header name", header("X Trace", "1"), "expected a name"},
		{"empty header name", header("", "1"), "expected a name"},
		{"smuggled header", header("X-Trace", "1\r\nX-Evil: 2"), "line break"},
		{"smuggled in the name", header("X-Trace: 1\r\nX-Evil", "2"), "expected a name"},
		{"host", header("host", "other.example:81"), ""},
		{"no host in it", header("Host", "https://other.example/"), "expected a host"},
		{"length", header("content-length", "3"), "set from the body"},
		{"twice", Request{URL: anURL, Headers: map[string]string{"x-trace": "1", "X-Trace": "2"}}, "given twice"},
		{"idempotency key", header("Idempotency-Key", "order-17"), ""},
		{"own key header", Request{URL: anURL, KeyHeader: "X-Request-Key", Headers: map[string]string{"x-request-key": "order-17"}}, ""},

		{"sent again by net/http", Request{URL: anURL, Method: "trace"}, "one start could be two calls"},

		{"JSON", body(`{"n": 1}`), ""},
		{"text", body(`"a=1&b=2"`), ""},
		{"null", body(`null`), ""},
		{"half a pair", body(`"\ud83d"`), "half of a surrogate"},
		{"other half of a pair", body(`"\ude00"`), "half of a surrogate"},
		{"half before an escape", body(`"\ud83d\n"`), "half of a surrogate"},
		{"a pair", body(`"\ud83d\ude00"`), ""},
		{"an escaped backslash", body(`"\\ud83d"`), ""},
		{"half a pair within JSON", body(`{"t":"\ud83d"}`), ""},
		{"not JSON", body(`{n: 1}`), "expected JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.r.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && err == nil:
				t.Errorf("accepted, want an error with %q", tt.want)
			case err != nil && !strings.Contains(err.Error(), tt.want):
				t.Errorf("got %q, want %q in it", err, tt.want)
			case err != nil && strings.Contains(err.Error(), "hun"):
				t.Errorf("the error shows a password: %q", err)
			}
		})
	}
}

// TestValidateReportsAll: one look must be enough to mend a line.
func TestValidateReportsAll(t *testing.T) {
	r := Request{
		Method: "A B", URL: "nowhere", Body: json.RawMessage(`{`), KeyHeader: "a b",
		Headers: map[string]string{"Cookie": "a=1234567", "X-Trace": "\x00"},
	}
	err := r.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"url:", "method:", "body:", "key_header:", `"Cookie"`, `"X-Trace"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), "1234567") {
		t.Errorf("a cookie is shown: %v", err)
	}
}

// TestSecretsAreRefused: what a request says in full is stored, so a secret
// must not be in it.
func TestSecretsAreRefused(t *testing.T) {
	for _, name := range []string{
		"Authorization", "authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "x-api-key", "api-key",
		"Ocp-Apim-Subscription-Key", "X-Auth-Token", "x-token", "Stripe-Secret",
	} {
		r := Request{URL: anURL, Headers: map[string]string{name: "sk-live-12345678"}}
		err := r.Validate()
		if err == nil {
			t.Errorf("%s: a literal secret is accepted", name)
			continue
		}
		if !strings.Contains(err.Error(), "${NAME}") || strings.Contains(err.Error(), "sk-live") {
			t.Errorf("%s: the error must point to ${NAME} and hide the value: %v", name, err)
		}
		r.Headers[name] = "Bearer ${API_KEY}"
		if err := r.Validate(); err != nil {
			t.Errorf("%s: a reference is refused: %v", name, err)
		}
	}
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "Content-Type", "X-Keyboard", "X-Token-Count"} {
		if err := (Request{URL: anURL, Headers: map[string]string{name: "abc"}}).Validate(); err != nil {
			t.Errorf("%s: refused: %v", name, err)
		}
	}
}

func TestMethod(t *testing.T) {
	for _, tt := range []struct{ method, body, want string }{
		{"", "", "GET"}, {"", "null", "GET"}, {"", " null ", "GET"}, {"", `{}`, "POST"}, {"", `""`, "POST"}, {"", "0", "POST"},
		{"post", "", "POST"}, {"Patch", "{}", "PATCH"}, {"GET", "{}", "GET"}, {"purge", "", "purge"},
	} {
		r := Request{Method: tt.method, Body: json.RawMessage(tt.body)}
		if got := r.verb(); got != tt.want {
			t.Errorf("method %q with body %q: got %s, want %s", tt.method, tt.body, got, tt.want)
		}
	}
}

// TestI3_BodyBytes: a body went through a map and floating point, so that its
// digits, order and escapes changed (contribsys/faktory#380, riverqueue/riverui#594).
func TestI3_BodyBytes(t *testing.T) {
	const body = `{"z": 9007199254740993,  "a":899999999999999990,"m":9223372036854775807, "f":0.1,` +
		`"e":1e400,"h":"<a href='x'>&amp;</a>","u":"\ud83d \u0000 é","dup":1,"dup":2, "n":{"deep":[1.0,-0]}}`
	r := Request{URL: anURL + "?a=1&b=<2>", Headers: map[string]string{"X-B": "<&>", "X-A": "1"}, Body: json.RawMessage(body)}
	payload, err := r.Payload()
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Payload()
	if err != nil || string(again) != string(payload) {
		t.Errorf("the same request gives %s and %s (%v)", payload, again, err)
	}
	var stored Request
	if err := json.Unmarshal(payload, &stored); err != nil {
		t.Fatalf("%v in %s", err, payload)
	}
	if stored.URL != r.URL || !strings.Contains(string(payload), `"X-B":"<&>"`) {
		t.Errorf("stored as %s", payload)
	}
	a := always(http.StatusOK, "")
	if out := mustCaller(t, Options{Transport: a}).call(t.Context(), &stored, "", 1); out.err != nil {
		t.Fatal(out.err)
	}
	call := a.seen()[0]
	if call.body != body {
		t.Errorf("sent    %s\ninstead %s", call.body, body)
	}
	if call.method != "POST" || call.header.Get("Content-Type") != "application/json" {
		t.Errorf("sent as %s of %q", call.method, call.header.Get("Content-Type"))
	}
}

func TestContent(t *testing.T) {
	for _, tt := range []struct {
		name, body, want, wantType string
		headers                    map[string]string
	}{
		{name: "none", want: "", wantType: ""},
		{name: "text", body: `"a=1&b=\u00e9\u0000"`, want: "a=1&b=é\x00", wantType: "text/plain; charset=utf-8"},
		{name: "form", body: `"a=1&b=2"`, want: "a=1&b=2", wantType: "application/x-www-form-urlencoded",
			headers: map[string]string{"content-type": "application/x-www-form-urlencoded"}},
		{name: "array", body: `[1, 2]`, want: `[1, 2]`, wantType: "application/json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := always(http.StatusOK, "")
			r := Request{URL: anURL, Headers: tt.headers, Body: json.RawMessage(tt.body)}
			if out := mustCaller(t, Options{Transport: a}).call(t.Context(), &r, "", 1); out.err != nil {
				t.Fatal(out.err)
			}
			call := a.seen()[0]
			if call.body != tt.want || call.header.Get("Content-Type") != tt.wantType {
				t.Errorf("sent %q of %q, want %q of %q", call.body, call.header.Get("Content-Type"), tt.want, tt.wantType)
			}
		})
	}
}

func TestJob(t *testing.T) {
	r := Request{URL: "https://API.example.com:443/v1"}
	a, err := r.Job()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := r.Job()
	if a.IdempotencyKey == "" || a.IdempotencyKey == b.IdempotencyKey {
		t.Errorf("keys %q and %q, want two of them", a.IdempotencyKey, b.IdempotencyKey)
	}
	if len(a.Limits) != 1 || a.Limits[0].Limit != "api.example.com" || a.Kind != Kind {
		t.Errorf("got %+v", a)
	}
	if _, err := (Request{}).Job(); err == nil {
		t.Error("a faulty request becomes a job")
	}
}

func TestHostLimit(t *testing.T) {
	for address, want := range map[string]string{
		"https://api.stripe.com/v1/charges?x=1": "api.stripe.com",
		"https://API.Stripe.com:443":            "api.stripe.com",
		"http://api.stripe.com:80/":             "api.stripe.com",
		"http://api.stripe.com:443/":            "api.stripe.com:443",
		"https://api.stripe.com:80/":            "api.stripe.com:80",
		"http://127.0.0.1:8080/x":               "127.0.0.1:8080",
		"http://[::1]:8080/x":                   "[::1]:8080",
		"http://[2001:DB8::1]/x":                "[2001:db8::1]",
		"https://api.stripe.com./v1":            "api.stripe.com",
		"https://api.stripe.com/${KEY}?q=${K}":  "api.stripe.com",
		"HTTPS://api.stripe.com":                "api.stripe.com",
		"/v1":                                   "",
		"":                                      "",
		"https://%zz/":                          "",
	} {
		if got := HostLimit(address); got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
}

// FuzzRequest: whatever a line holds, it is refused or comes back as it was.
func FuzzRequest(f *testing.F) {
	f.Add("POST", anURL, "X-A", "1", `{"n": 9007199254740993}`)
	f.Add("", "https://me:pw@h:1/${A}?key=${B}#c", "Authorization", "Bearer ${", "\"\\ud83d\\ude00\"")
	f.Add("get", "//\\?=&;#", "Cookie", "\x00", " null ")
	f.Fuzz(func(t *testing.T, method, address, name, value, body string) {
		r := Request{Method: method, URL: address, Headers: map[string]string{name: value}, Body: json.RawMessage(body)}
		Mask(address)
		HostLimit(address)
		r.Names()
		if r.Validate() != nil {
			return
		}
		if HostLimit(address) == "" {
			t.Fatalf("a valid address without a limit: %q", address)
		}
		payload, err := r.Payload()
		if err != nil {
			t.Fatalf("valid, but: %v", err)
		}
		var back Request
		if err := json.Unmarshal(payload, &back); err != nil {
			t.Fatalf("%v: %s", err, payload)
		}
		if got, want := string(back.Body), strings.Trim(body, " \t\r\n"); got != want && want != "null" {
			t.Fatalf("the body was %q and is %q", want, got)
		}
		if err := back.Validate(); err != nil {
			t.Fatalf("valid, and when it was read back: %v", err)
		}
		if out := mustCaller(t, Options{Transport: always(200, ""), Env: func(string) (string, bool) { return "v", true }}).
			call(t.Context(), &back, "k", 1); out.err != nil {
			t.Fatalf("valid, but can not be sent: %v", out.err)
		}
	})
}
