package header

import (
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// waits is one 429 and what should be read from it; no wait means not stated.
type waits struct {
	name   string
	header http.Header
	want   time.Duration
	stated bool
}

func check(t *testing.T, tests []waits) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Read(http.StatusTooManyRequests, tt.header, nil, noon)
			if !got.Limited {
				t.Error("a 429 is not limited")
			}
			if got.Stated != tt.stated || got.RetryAfter != tt.want {
				t.Errorf("%v: got %v stated %v, want %v stated %v", tt.header, got.RetryAfter, got.Stated, tt.want, tt.stated)
			}
		})
	}
}

func retryAfter(values ...string) http.Header { return http.Header{"Retry-After": values} }

// TestD1_OddNumbers: numbers that are not plain integers raised errors, were
// dropped, or were read as a year, a wait of decades (urllib3/urllib3#2861,
// getsentry/sentry#7919, mastra-ai/mastra#23778).
func TestD1_OddNumbers(t *testing.T) {
	check(t, []waits{
		{"below one", retryAfter("0.503"), time.Second, true},
		{"fraction", retryAfter("292.052"), 293 * time.Second, true},
		{"one and a half", retryAfter("1.5"), 2 * time.Second, true},
		{"whole with a dot", retryAfter("2.0"), 2 * time.Second, true},
		{"zero", retryAfter("0"), 0, true},
		{"spaces", retryAfter(" 5 "), 5 * time.Second, true},
		{"negative", retryAfter("-3"), 0, false},
		{"plus", retryAfter("+3"), 0, false},
		{"exponent", retryAfter("1e3"), 0, false},
		{"empty", retryAfter(""), 0, false},
		{"dot", retryAfter("."), 0, false},
		{"hexadecimal", retryAfter("0x10"), 0, false},
		{"infinity", retryAfter("Inf"), 0, false},
		{"not a number", retryAfter("NaN"), 0, false},
		{"word", retryAfter("soon"), 0, false},
		{"negative duration", retryAfter("-30s"), 0, false},
		{"duration", retryAfter("1m30s"), 90 * time.Second, true},
		{"huge", retryAfter("99999999999999999999999"), Longest, true},
		{"huger than a float", retryAfter(string(make400Digits())), Longest, true},
		{"just beyond the longest", retryAfter("9223372037"), Longest, true},
		{"an epoch by mistake", retryAfter(strconv.FormatInt(noon.Unix()+30, 10)), 30 * time.Second, true},
		{"an epoch by mistake, in ms", retryAfter(strconv.FormatInt(noon.UnixMilli()+30_000, 10)), 30 * time.Second, true},
		{"an epoch just passed", retryAfter(strconv.FormatInt(noon.Unix()-2, 10)), 0, false},
		{"milliseconds win", http.Header{"Retry-After": {"2"}, "Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond, true},
		{"broken milliseconds do not", http.Header{"Retry-After": {"2"}, "Retry-After-Ms": {"-1"}}, 2 * time.Second, true},
		{"milliseconds round up, too", http.Header{"X-Ms-Retry-After-Ms": {"0.1"}}, time.Millisecond, true},
	})
}

func make400Digits() []byte {
	digits := make([]byte, 400)
	for i := range digits {
		digits[i] = '9'
	}
	return digits
}

// TestD3_Dates: a date in the past gave a negative sleep, an exception, or an
// immediate retry by every client together (openai/openai-java#853,
// curl/curl#15833, will-ockmore/httpx-retries#13, nodejs/undici#4084).
func TestD3_Dates(t *testing.T) {
	at := func(d time.Duration) string { return noon.Add(d).Format(http.TimeFormat) }
	check(t, []waits{
		{"2 s ago", retryAfter(at(-2 * time.Second)), 0, false},
		{"2015", retryAfter("Wed, 21 Oct 2015 07:28:00 GMT"), 0, false},
		{"now", retryAfter(at(0)), 0, false},
		{"ahead", retryAfter(at(30 * time.Second)), 30 * time.Second, true},
		{"RFC 850", retryAfter("Sunday, 01-Mar-26 12:00:30 GMT"), 30 * time.Second, true},
		{"RFC 850, past century", retryAfter("Sunday, 06-Nov-94 08:49:37 GMT"), 0, false},
		{"RFC 850, Go would read 1969 to 1999", retryAfter("Sunday, 01-Mar-70 12:00:00 GMT"), time.Date(2070, 3, 1, 12, 0, 0, 0, time.UTC).Sub(noon), true},
		{"asctime", retryAfter("Sun Mar  1 12:00:30 2026"), 30 * time.Second, true},
		{"RFC 3339", retryAfter("2026-03-01T13:00:30+01:00"), 30 * time.Second, true},
		{"RFC 3339 without seconds", retryAfter("2026-03-01T12:01Z"), time.Minute, true},
		{"RFC 3339 without a zone", retryAfter("2026-03-01T12:01:00"), 0, false},
		{"year 9999", retryAfter("Fri, 31 Dec 9999 23:59:59 GMT"), Longest, true},
		{"one digit of day", retryAfter("Sun, 1 Mar 2026 12:00:30 GMT"), 30 * time.Second, true},
		{"worker 60 s ahead", http.Header{"Date": {at(-time.Minute)}, "Retry-After": {at(-30 * time.Second)}}, 30 * time.Second, true},
		{"worker 60 s behind", http.Header{"Date": {at(time.Minute)}, "Retry-After": {at(90 * time.Second)}}, 30 * time.Second, true},
		{"Date of a cached answer", http.Header{"Date": {at(-time.Hour)}, "Age": {"3600"}, "Retry-After": {at(time.Minute)}}, time.Minute, true},
		{"broken Date", http.Header{"Date": {"yesterday"}, "Retry-After": {at(time.Minute)}}, time.Minute, true},
		{"a number needs no Date", http.Header{"Date": {at(time.Hour)}, "Retry-After": {"7"}}, 7 * time.Second, true},
	})
}

// TestD5_SentTwice: a header sent twice was joined as "7, 7" and rejected
// (DataDog/datadog-api-client-python#3460, aaronpowell/httpstatus#153).
func TestD5_SentTwice(t *testing.T) {
	date := noon.Add(30 * time.Second).Format(http.TimeFormat)
	later := noon.Add(40 * time.Second).Format(http.TimeFormat)
	check(t, []waits{
		{"equal lines", retryAfter("7", "7"), 7 * time.Second, true},
		{"longest line", retryAfter("5", "60"), time.Minute, true},
		{"joined", retryAfter("7, 7"), 7 * time.Second, true},
		{"joined, longest first", retryAfter("60,5"), time.Minute, true},
		{"one broken", retryAfter("soon, 5"), 5 * time.Second, true},
		{"one negative", retryAfter("-5", "4"), 4 * time.Second, true},
		{"joined dates", retryAfter(date + ", " + later), 40 * time.Second, true},
		{"date and number", retryAfter("9, " + date), 30 * time.Second, true},
		{"past date and number", retryAfter("Wed, 21 Oct 2015 07:28:00 GMT, 9"), 9 * time.Second, true},
		{"two spellings of the name", http.Header{"Retry-After": {"5"}, "retry-after": {"6"}}, 6 * time.Second, true},
		{"reset twice", http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"7", "60"}}, time.Minute, true},
	})
}

// TestD6_ResetUnits: reset times were read in the wrong unit, and a just-passed
// epoch became a long stall (withcoral/coral#89,
// zalando/restful-api-guidelines#379, tradegecko/smaug#41).
func TestD6_ResetUnits(t *testing.T) {
	reset := func(value string) http.Header { return http.Header{"X-Ratelimit-Reset": {value}} }
	check(t, []waits{
		{"epoch seconds", reset(strconv.FormatInt(noon.Unix()+30, 10)), 30 * time.Second, true},
		{"epoch milliseconds", reset(strconv.FormatInt(noon.UnixMilli()+30_000, 10)), 30 * time.Second, true},
		{"epoch microseconds", reset(strconv.FormatInt(noon.UnixMicro()+30e6, 10)), 30 * time.Second, true},
		{"plain seconds", reset("30"), 30 * time.Second, true},
		{"just passed", reset(strconv.FormatInt(noon.Unix()-2, 10)), 0, true},
		{"RFC 3339", reset("2026-03-01T12:00:30Z"), 30 * time.Second, true},
		{"duration", reset("6m0s"), 6 * time.Minute, true},
		{"milliseconds by name", http.Header{"X-Ratelimit-Reset-Ms": {"1500"}}, 1500 * time.Millisecond, true},
		{"the exact one of two", http.Header{"X-Ratelimit-Reset": {"2"}, "X-Ratelimit-Reset-After": {"1.25"}}, 1250 * time.Millisecond, true},
		{"broken", reset("later"), 0, false},
	})
}

// TestD7_NoUsableRetryAfter: a missing or broken Retry-After lost the wait that
// other headers gave, or failed the job (anthropics/anthropic-sdk-typescript#357,
// slackapi/node-slack-sdk#1421, tinyhumansai/openhuman#6504).
func TestD7_NoUsableRetryAfter(t *testing.T) {
	check(t, []waits{
		{"nothing", nil, 0, false},
		{"only a word", retryAfter("soon"), 0, false},
		{"one of two dimensions is used up", http.Header{
			"X-Ratelimit-Remaining-Requests": {"12"}, "X-Ratelimit-Reset-Requests": {"300"},
			"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"45"},
		}, 45 * time.Second, true},
		{"the dimension stands in the middle", http.Header{
			"Anthropic-Ratelimit-Requests-Remaining": {"7"}, "Anthropic-Ratelimit-Requests-Reset": {"2026-03-01T12:10:00Z"},
			"Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Tokens-Reset": {"2026-03-01T12:00:45Z"},
		}, 45 * time.Second, true},
		{"the later of two used up", http.Header{
			"X-Ratelimit-Remaining-Minute": {"0"}, "X-Ratelimit-Reset-Minute": {"20"},
			"X-Ratelimit-Remaining-Hour": {"0"}, "X-Ratelimit-Reset-Hour": {"2000"},
		}, 2000 * time.Second, true},
		{"word and a reset", http.Header{"Retry-After": {"soon"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"45"}}, 45 * time.Second, true},
		{"past date and a reset", http.Header{"Retry-After": {"Wed, 21 Oct 2015 07:28:00 GMT"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"45"}}, 45 * time.Second, true},
		{"something remains", http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Reset": {"45"}}, 0, false},
		{"used up, no reset", http.Header{"X-Ratelimit-Remaining": {"0"}}, 0, false},
		{"below zero", http.Header{"X-Ratelimit-Limit": {"10"}, "X-Ratelimit-Remaining": {"-2"}, "X-Ratelimit-Reset": {"45"}}, 45 * time.Second, true},
		{"the stated wait wins", http.Header{"Retry-After": {"20"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"45"}}, 20 * time.Second, true},
	})
}

func TestStatus(t *testing.T) {
	usedUp := http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"45"}}
	for _, tt := range []struct {
		name   string
		status int
		header http.Header
		want   Observation
	}{
		{"429", 429, nil, Observation{Limited: true}},
		{"420", 420, nil, Observation{Limited: true}},
		{"529", 529, nil, Observation{Limited: true}},
		{"503", 503, nil, Observation{}},
		{"503 keeps its wait", 503, retryAfter("5"), Observation{Stated: true, RetryAfter: 5 * time.Second, Source: "Retry-After"}},
		{"503 with a used-up window", 503, usedUp, Observation{Limited: true, Stated: true, RetryAfter: 45 * time.Second, Source: "X-Ratelimit-Reset"}},
		{"403", 403, nil, Observation{}},
		{"403 with a wait", 403, retryAfter("5"), Observation{Limited: true, Stated: true, RetryAfter: 5 * time.Second, Source: "Retry-After"}},
		{"403 with a date just past", 403, retryAfter("Sun, 01 Mar 2026 11:59:59 GMT"), Observation{Limited: true}},
		{"403 with a broken wait", 403, retryAfter("soon"), Observation{}},
		{"403 with a used-up window", 403, usedUp, Observation{Limited: true, Stated: true, RetryAfter: 45 * time.Second, Source: "X-Ratelimit-Reset"}},
		{"403 with only a reset", 403, http.Header{"X-Ratelimit-Reset": {"45"}}, Observation{}},
		{"200 with nothing left", 200, usedUp, Observation{}},
		{"500 with nothing left", 500, usedUp, Observation{}},
		{"200 with a wait", 200, retryAfter("2"), Observation{Stated: true, RetryAfter: 2 * time.Second, Source: "Retry-After"}},
		{"401 with a wait", 401, retryAfter("2"), Observation{Stated: true, RetryAfter: 2 * time.Second, Source: "Retry-After"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Read(tt.status, tt.header, nil, noon)
			got.Left = Left{} // see TestLeft
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// FuzzRead: whatever the headers, an observation keeps its own rules and is the
// same every time.
func FuzzRead(f *testing.F) {
	for _, v := range []string{"", "5", "1.5", "7, 7", "Sun, 01 Mar 2026 12:00:30 GMT", "Sunday, 01-Mar-26 12:00:30 GMT",
		"2026-03-01T12:00:30Z", "00:00:00.033", "1772366430000", "9e99", "-1", ",", "1::2"} {
		f.Add(429, v, v, v, noon.Unix())
		f.Add(403, "", v, v, int64(0))
		f.Add(200, `"a";r=5;t=30`, v, `"a";q=100;w=60`, int64(0))
	}
	f.Fuzz(func(t *testing.T, status int, wait, reset, date string, unix int64) {
		unix %= math.MaxUint32
		h := http.Header{"Retry-After": {wait}, "retry-after": {reset}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {reset}, "Date": {date}, "date": {wait},
			"X-Ratelimit-Limit-Minute": {date}, "X-Ratelimit-Remaining-Minute": {wait}, "Ratelimit": {wait}, "Ratelimit-Policy": {date}, "Sforce-Limit-Info": {reset}}
		now := time.Unix(unix, 0)
		o := Read(status, h, nil, now)
		if l := o.Left; l.N < 0 || l.Of < 0 || l.ResetIn < 0 || !l.ResetStated && l.ResetIn != 0 || !l.Known && l != (Left{}) || l.Known == (l.Source == "") {
			t.Errorf("%d %v: %+v", status, h, l)
		}
		if o.RetryAfter < 0 || !o.Stated && (o.RetryAfter != 0 || o.Source != "") || o.Stated && o.Source == "" {
			t.Errorf("%d %v: %+v", status, h, o)
		}
		if again := Read(status, h, nil, now); again != o {
			t.Errorf("%d %v: %+v, then %+v", status, h, o, again)
		}
	})
}

func TestTwoDigitYears(t *testing.T) {
	for _, tt := range []struct{ now, year, want int }{
		{2026, 76, 2076}, {2026, 77, 1977}, {2026, 94, 1994}, {2010, 65, 1965}, {2090, 20, 2120},
	} {
		now := time.Date(tt.now, 12, 31, 0, 0, 0, 0, time.UTC)
		date := time.Date(tt.year, 1, 2, 3, 4, 5, 0, time.UTC).Format("Monday, 02-Jan-06 15:04:05 GMT")
		if got, ok := parseHTTPDate(date, now); !ok || got.Year() != tt.want {
			t.Errorf("in %d, %q is %v, want the year %d", tt.now, date, got, tt.want)
		}
	}
}
