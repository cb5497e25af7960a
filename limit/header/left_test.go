package header

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestLeftVectors reads what is left from responses as about a hundred APIs send
// them: the tightest window that counts calls, and the tightest of the others.
func TestLeftVectors(t *testing.T) {
	file, err := os.ReadFile("testdata/left.json")
	if err != nil {
		t.Fatal(err)
	}
	type want struct {
		Left    int64
		Of      *int64
		ResetMS *int64 `json:"reset_ms"`
	}
	var rows []struct {
		ID           string
		Status       int
		Headers      http.Header
		Calls, Units *want
	}
	if err := json.Unmarshal(file, &rows); err != nil {
		t.Fatal(err)
	}
	compare := func(t *testing.T, got Left, want *want) {
		t.Helper()
		if want == nil {
			if got.Known {
				t.Errorf("got %+v, want nothing", got)
			}
			return
		}
		w := Left{Known: true, N: want.Left, Source: got.Source}
		if want.Of != nil {
			w.Of = *want.Of
		}
		if want.ResetMS != nil {
			w.ResetStated, w.ResetIn = true, time.Duration(*want.ResetMS)*time.Millisecond
		}
		if got != w {
			t.Errorf("got %+v, want %+v", got, w)
		}
	}
	for _, row := range rows {
		t.Run(row.ID, func(t *testing.T) {
			got := Read(row.Status, row.Headers, nil, noon)
			compare(t, got.Left, row.Calls)
			compare(t, got.LeftUnits, row.Units)
		})
	}
}

// TestLeftIsNeverGuessed: what is broken or contradicts itself is not said, so
// that nobody slows down, or goes on, because of it.
func TestLeftIsNeverGuessed(t *testing.T) {
	const n, of, reset = "X-Ratelimit-Remaining", "X-Ratelimit-Limit", "X-Ratelimit-Reset"
	said := func(n, of int64) Left { return Left{Known: true, N: n, Of: of, Source: "X-Ratelimit-Remaining"} }
	in := func(l Left, d time.Duration) Left { l.ResetIn, l.ResetStated = d, true; return l }
	for _, tt := range []struct {
		name   string
		header http.Header
		want   Left
	}{
		{"plain", http.Header{n: {"3"}, of: {"10"}, reset: {"45"}}, in(said(3, 10), 45*time.Second)},
		{"nothing", http.Header{"Content-Type": {"text/plain"}}, Left{}},
		{"a word", http.Header{n: {"plenty"}, of: {"10"}, reset: {"45"}}, Left{}},
		{"one of two is broken", http.Header{n: {"3", "x"}, reset: {"45"}}, Left{}},
		{"exponent", http.Header{n: {"1e3"}}, Left{}},
		{"hexadecimal", http.Header{n: {"0x10"}}, Left{}},
		{"infinite", http.Header{n: {"Inf"}}, Left{}},
		{"unlimited", http.Header{n: {"-1"}, of: {"-1"}}, Left{}},
		{"-1 alone", http.Header{n: {"-1"}, reset: {"45"}}, Left{}},
		{"below zero", http.Header{n: {"-2"}, of: {"10"}}, said(0, 10)},
		{"more than all", http.Header{n: {"11"}, of: {"10"}}, Left{}},
		{"no limit", http.Header{n: {"0"}, of: {"0"}, reset: {"45"}}, Left{}},
		{"a broken limit", http.Header{n: {"4"}, of: {"lots"}}, said(4, 0)},
		{"fraction", http.Header{n: {"4.9"}}, said(4, 0)},
		{"huge", http.Header{n: {"999999999999999999999999"}}, said(mostLeft, 0)},
		{"the least of two", http.Header{n: {"7, 4"}}, said(4, 0)},
		{"the latest reset of two", http.Header{n: {"4"}, reset: {"3", "9"}}, in(said(4, 0), 9*time.Second)},
		{"a broken reset", http.Header{n: {"4"}, reset: {"soon"}}, said(4, 0)},
		{"a reset that is over", http.Header{n: {"4"}, reset: {"1772366399"}}, in(said(4, 0), 0)},
		{"fewest of several windows", http.Header{n + "-Day": {"40"}, reset + "-Day": {"7200"}, n: {"3"}, reset: {"20"}}, in(said(3, 0), 20*time.Second)},
		{"two used up, the later", http.Header{n + "-Day": {"0"}, reset + "-Day": {"7200"}, n: {"0"}, reset: {"20"}},
			Left{Known: true, ResetStated: true, ResetIn: 2 * time.Hour, Source: "X-Ratelimit-Remaining-Day"}},
		{"one that is over is none", http.Header{n + "-Second": {"0"}, reset + "-Second": {"0"}, n: {"5"}, reset: {"20"}}, in(said(5, 0), 20*time.Second)},
		{"Shopify", http.Header{"X-Shopify-Shop-Api-Call-Limit": {"39/40"}}, Left{Known: true, N: 1, Of: 40, Source: "X-Shopify-Shop-Api-Call-Limit"}},
		{"Shopify, beyond", http.Header{"X-Shopify-Shop-Api-Call-Limit": {"41/40"}}, Left{Known: true, Of: 40, Source: "X-Shopify-Shop-Api-Call-Limit"}},
		{"Shopify, broken", http.Header{"X-Shopify-Shop-Api-Call-Limit": {"39"}}, Left{}},
		{"Salesforce", http.Header{"Sforce-Limit-Info": {"api-usage=25/5000"}}, Left{Known: true, N: 4975, Of: 5000, Source: "Sforce-Limit-Info"}},
		{"draft 08", http.Header{"Ratelimit": {`"a, b";r=5;t=30, "c";r=9;t=60`}, "Ratelimit-Policy": {`"a, b";q=100;w=60`}}, Left{Known: true, N: 5, Of: 100, ResetStated: true, ResetIn: 30 * time.Second, Source: "Ratelimit"}},
		{"draft 08, no number", http.Header{"Ratelimit": {`"a";r=many;t=30`}}, Left{}},
		{"draft 08, said twice", http.Header{"Ratelimit": {`"a";r=5;r=50;t=30`}}, Left{}},
		{"draft 08, bytes", http.Header{"Ratelimit": {`"a";r=5;t=30`}, "Ratelimit-Policy": {`"a";q=100;qu="content-bytes"`}}, Left{}},
		{"an endpoint is no point", http.Header{n + "-Endpoint": {"4"}}, Left{Known: true, N: 4, Source: n + "-Endpoint"}},
		{"tokens are no calls", http.Header{n + "-Tokens": {"4"}}, Left{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Read(http.StatusOK, tt.header, nil, noon).Left; got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	usual := http.Header{"Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}, "Content-Type": {"application/json"}, "Content-Length": {"120"}, "Server": {"x"},
		"Cache-Control": {"no-store"}, "X-Request-Id": {"abc"}, "Vary": {"Accept"}, "Strict-Transport-Security": {"max-age=1"}}
	said := usual.Clone()
	said["X-Ratelimit-Limit"], said["X-Ratelimit-Remaining"], said["X-Ratelimit-Reset"] = []string{"5000"}, []string{"4000"}, []string{"1772368200"}
	for name, h := range map[string]http.Header{"usual": usual, "said": said} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Read(http.StatusOK, h, nil, noon)
			}
		})
	}
}
