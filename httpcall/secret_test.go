package httpcall

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	r := Request{
		URL:     "https://h.example/${A}/x?k=${B}&again=${A}",
		Headers: map[string]string{"X-2": "${D}${A}", "X-1": "Bearer ${C}"},
		Body:    []byte(`{"t":"${NOT_THIS}"}`),
	}
	if got := r.Names(); !slices.Equal(got, []string{"A", "B", "C", "D"}) {
		t.Errorf("got %v", got)
	}
	err := r.CheckEnv(env("A", "1", "C", "two\nlines"))
	var unset *UnsetError
	if !errors.As(err, &unset) || unset.Name != "B" {
		t.Fatalf("got %v, want B to be unset", err)
	}
	for _, part := range []string{"variable B is", "variable D is", "variable C has a line break"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %q", part, err)
		}
	}
	if err := r.CheckEnv(env("A", "1", "B", "", "C", "3", "D", "4")); err != nil {
		t.Errorf("all are set: %v", err)
	}
}

// TestReferencesAreFilled: each value must arrive as it is in the environment,
// whatever characters it has.
func TestReferencesAreFilled(t *testing.T) {
	a := always(http.StatusOK, "")
	c := mustCaller(t, Options{Transport: a, Env: env("ID", "123:a/b?c", "KEY", "a+b/c=&d #%", "TOKEN", "s3cret")})
	r := Request{
		URL:     "https://h.example/bot${ID}/send?key=${KEY}&x=1",
		Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"},
		Body:    []byte(`{"t":"${TOKEN}"}`),
	}
	if out := c.call(t.Context(), &r, "", 1); out.err != nil {
		t.Fatal(out.err)
	}
	call := a.seen()[0]
	u, err := http.NewRequest("GET", call.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if u.URL.EscapedPath() != "/bot123:a%2Fb%3Fc/send" || u.URL.Query().Get("key") != "a+b/c=&d #%" || u.URL.Query().Get("x") != "1" {
		t.Errorf("sent to %s", call.url)
	}
	if got := call.header.Get("Authorization"); got != "Bearer s3cret" {
		t.Errorf("Authorization %q", got)
	}
	if call.body != `{"t":"${TOKEN}"}` {
		t.Errorf("the body was filled in: %s", call.body)
	}
}

// TestUnsetVariableSendsNothing: the failure is this process's, not the call's.
func TestUnsetVariableSendsNothing(t *testing.T) {
	a := always(http.StatusOK, "")
	r := Request{URL: anURL, Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}}
	for name, lookup := range map[string]LookupEnv{"unset": env(), "a line break": env("TOKEN", "hunter2\n")} {
		out := mustCaller(t, Options{Transport: a, Env: lookup}).call(t.Context(), &r, "", 1)
		if !isNotSent(out.err) || !strings.Contains(out.err.Error(), "TOKEN") || strings.Contains(out.err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want one that names TOKEN and was not sent", name, out.err)
		}
	}
	if n := len(a.seen()); n != 0 {
		t.Errorf("%d calls", n)
	}
}

func TestMask(t *testing.T) {
	for address, want := range map[string]string{
		"https://h/p?a=1&b=2":                        "https://h/p?a=1&b=2",
		"https://h/p?api_key=abc&x=1":                "https://h/p?api_key=***&x=1",
		"https://h/p?x=1&Access_Token=abc#frag":      "https://h/p?x=1&Access_Token=***#frag",
		"https://h/p?sig=a%2Bb&X-Amz-Signature=f00":  "https://h/p?sig=***&X-Amz-Signature=***",
		"https://h/p?client%5Fsecret=abc":            "https://h/p?client%5Fsecret=***",
		"https://h/p?password=a;b?c=d&x=1":           "https://h/p?password=***&x=1",
		"https://h/p#access_token=abc&state=1":       "https://h/p#access_token=***&state=1",
		"https://h/p?key=${KEY}&token=a${KEY}":       "https://h/p?key=${KEY}&token=***",
		"https://h/p?key=":                           "https://h/p?key=",
		"https://h/p?key":                            "https://h/p?key",
		"https://me:pw@h/p?x=a@b":                    "https://***@h/p?x=a@b",
		"https://me:p/w@h/p":                         "https://***@h/p",
		"https://h/users/me@example.com":             "https://h/users/me@example.com",
		"/p?next=https://h2/q?token=abc&x=1":         "/p?next=https://h2/q?token=***&x=1",
		"not an address at all, token=abc":           "not an address at all, token=abc",
		"":                                           "",
		"?":                                          "?",
		"https://h/p?&&key=1&":                       "https://h/p?&&key=***&",
		"https://h.example:99999999/p?key=abc&b=%zz": "https://h.example:99999999/p?key=***&b=%zz",
	} {
		if got := Mask(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

// echo answers with the request's secrets, as a debugging API does.
func echo(status int) *api {
	return &api{answer: func(_ int, r *http.Request) *http.Response {
		return reply(status, `{"url": "`+r.URL.String()+`", "auth": "`+r.Header.Get("Authorization")+`", "key": "`+r.Header.Get("X-Api-Key")+`", "custom": "`+r.Header.Get("X-Custom")+`", "region": "us-east-1"}`,
			"X-RateLimit-Scope", r.Header.Get("Authorization"))
	}}
}

// TestSecretsAreTakenOut: an API that sends back what it was sent must not get
// a secret into errors, history or results.
func TestSecretsAreTakenOut(t *testing.T) {
	for _, status := range []int{200, 302, 400, 429, 500} {
		a := echo(status)
		c := mustCaller(t, Options{
			Transport: a, Env: env("API_TOKEN", "tok-12345/678", "REGION", "us-east-1", "OTHER", "oth-87654321", "PLAIN", "pln-56781234"),
			Headers: http.Header{"X-Api-Key": {"hdr-98765432"}},
		})
		r := Request{URL: "https://h.example/${REGION}?token=${API_TOKEN}", Headers: map[string]string{"Authorization": "Bearer ${OTHER}", "X-Custom": "${PLAIN}"}}
		out := c.call(t.Context(), &r, "", 1)
		text := string(out.result) + string(out.detail)
		if out.err != nil {
			text += out.err.Error()
		}
		for _, secret := range []string{"12345", "oth-8765", "hdr-9876", "pln-5678"} {
			if strings.Contains(text, secret) {
				t.Errorf("%d: %s is in %s", status, secret, text)
			}
		}
		if got := string(parse(t, out.result).Response); !strings.Contains(got, `"region":"us-east-1"`) {
			t.Errorf("%d: a variable that is no secret is gone from %s", status, got)
		}
	}
}

func TestScrubbingKeepsResponsesJSON(t *testing.T) {
	var s scrubber
	s.add("12345678", true)
	if got := string(s.json([]byte(`{"n":12345678}`))); got != `"{\"n\":***}"` {
		t.Errorf("got %s", got)
	}
	if got := string(s.json([]byte(`{"n": "x12345678"}`))); got != `{"n": "x***"}` {
		t.Errorf("got %s", got)
	}
}

// TestASecretThatIsCutIsTakenOut: where an answer was cut for the history, for an
// error or by MaxResponse, the beginning of a secret could stay; and in an answer that
// is no text, a whole one.
func TestASecretThatIsCutIsTakenOut(t *testing.T) {
	const secret = "sec-0123456789abcdef"
	c := mustCaller(t, Options{})
	call := func(most int64, status int, body string, headers ...string) outcome {
		c = mustCaller(t, Options{Transport: always(status, body, headers...), MaxResponse: most, Env: env("S", secret)})
		r := Request{URL: "https://h.example/", Headers: map[string]string{"Authorization": "Bearer ${S}"}}
		return c.call(t.Context(), &r, "", 1)
	}
	for cut := 5; cut < len(secret); cut++ {
		for what, out := range map[string]outcome{
			"history": call(0, 200, strings.Repeat("x", detailBody-cut)+secret+strings.Repeat("y", 100)),
			"header":  call(0, 200, "", "X-RateLimit-Scope", strings.Repeat("x", detailHeader-cut)+secret+strings.Repeat("y", 100)),
			"error":   call(0, 400, strings.Repeat(" ", 4*excerptLen-cut)+secret+strings.Repeat("y", 100)),
			"result":  call(1000, 200, strings.Repeat("x", 1000-cut)+secret),
		} {
			detail, result := string(out.detail), string(out.result)
			if what == "history" {
				result = "" // it has the whole, without the secret
			}
			text := detail + result
			if out.err != nil {
				text += out.err.Error()
			}
			if strings.Contains(text, secret[:5]) {
				t.Errorf("%s, cut after %d bytes: %.40q … %q", what, cut, text, text[max(0, len(text)-80):])
			}
		}
	}
	raw := parse(t, call(0, 200, "\xff\xfe "+secret+" \xff").result)
	var b []byte
	if err := json.Unmarshal(raw.Response, &b); err != nil || raw.Encoding != "base64" || !strings.Contains(string(b), masked) || strings.Contains(string(b), secret) {
		t.Errorf("%s response %q, %v", raw.Encoding, b, err)
	}
}
