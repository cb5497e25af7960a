package limit

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, s string) Spec {
	t.Helper()
	sp, err := Parse(s)
	if err != nil {
		t.Fatalf("Parse(%q): %v", s, err)
	}
	return sp
}

func TestParsePrintsBack(t *testing.T) {
	for _, s := range []string{
		"5/s", "100/m", "40/10s burst 8", "0.5/m", "3600/h", "10000/day", "10000/day@America/New_York", "50000/month@UTC",
		"20 in flight", "10/s, 1000/h, 20 in flight", "paused", "unlimited", "10/s, paused", "0.66/s", "1000000/s", "2.5/s",
		"1/2m", "1/7s", "5/1500ms", "1/90s", "100/31day", "1000000000000/day@UTC", "0.000001/s", "5/s, 10000/day@Europe/Berlin, 50000/month@UTC",
	} {
		want := s
		if s == "100/31day" {
			want = "100/744h"
		}
		sp := mustParse(t, s)
		if got := sp.String(); got != want {
			t.Errorf("Parse(%q) prints %q", s, got)
		}
		if err := sp.Validate(); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestParseReadsWhatPeopleWrite(t *testing.T) {
	for in, want := range map[string]string{
		" 5/s ": "5/s", "5 / s": "5/s", "100/60s": "100/m", "100/1m": "100/m", "5.0/s": "5/s", "0.50/m": "0.5/m", "10/s,20 in flight": "10/s, 20 in flight",
		"20 in flight,10/sec": "10/s, 20 in flight", "10/24h": "10/day", "10/d@UTC": "10/day@UTC", "10/1000ms": "10/s", "007/s": "7/s", "paused, 5/s": "5/s, paused",
	} {
		if got := mustParse(t, in).String(); got != want {
			t.Errorf("Parse(%q) prints %q, want %q", in, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for in, hint := range map[string]string{
		"":                                  "got nothing",
		"  ":                                "got nothing",
		"5":                                 "5/s",
		"1,000/s":                           "without a comma",
		"0/s":                               "write paused",
		"0 in flight":                       "write paused",
		"-5/s":                              "above 0",
		"1e3/s":                             "digits only",
		"5/fortnight":                       "expected a unit",
		"5/s burst 6":                       "at most 5",
		"5/s burst 0":                       "at least 1",
		"5/s burst -1":                      "above 0",
		"5/s bust 2":                        "burst 8",
		"1000/h burst 5":                    "shortest window",
		"5/s, 100/m burst 5":                "shortest window",
		"5/s, 6/s":                          "one rate per window",
		"5/s, 6/1000ms":                     "one rate per window",
		"5/month":                           "month@UTC",
		"5/s@UTC":                           "day or month before the zone",
		"5/day@":                            "expected a zone",
		"5/day@Local":                       "expected the name of a zone",
		"5/day@Mars/Olympus":                "does not know",
		"5/day@../../etc/hosts":             "does not know",
		"0.5/day@UTC":                       "whole number",
		"5/1ms":                             "at least 100ms",
		"5/32day":                           "at most 744h",
		"0.0000001/s":                       "6 digits",
		"0.000001/day":                      "at least one permit",
		"5/99999999999999999999s":           "at most 744h",
		"5/9999999999999h":                  "at most 744h",
		"99999999999999999999/s":            "at most 1000000000000",
		"5/0s":                              "longer than nothing",
		"20 in flight, 30 in flight":        "one cap",
		"2.5 in flight":                     "whole number",
		"5/s, unlimited":                    "alone",
		"5/s,,6/m":                          "empty part",
		"paused, paused":                    "once",
		"auto":                              "not there yet",
		"banana":                            "expected rates such as",
		"5/s\x00":                           "expected a unit",
		strings.Repeat("1/s,", 300) + "1/s": "at most 1000 characters",
		"1/1s,1/2s,1/3s,1/4s,1/5s,1/6s,1/7s,1/8s,1/9s": "at most 8",
	} {
		_, err := Parse(in)
		var spec *SpecError
		if !errors.As(err, &spec) {
			t.Errorf("Parse(%q): %v, want a *SpecError", in, err)
			continue
		}
		if !strings.Contains(err.Error(), hint) {
			t.Errorf("Parse(%q): %q does not say %q", in, err, hint)
		}
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	err := Spec{InFlight: -1, Rates: []Rate{{N: 0, Window: time.Second}, {N: 5, Window: time.Minute, Burst: 9}, {N: 5, Calendar: 7}, {N: 1, Window: 1}}}.Validate()
	for _, want := range []string{"in flight", "write paused", "burst", "calendar 7", "at least 100ms"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}

func TestRateLimit(t *testing.T) {
	for in, want := range map[string]struct {
		n int64
		w time.Duration
	}{
		"5/s": {5, time.Second}, "0.5/m": {1, 2 * time.Minute}, "0.66/s": {1, 1515152 * time.Microsecond}, "2.5/s": {2, 800 * time.Millisecond},
		"1000000/s": {1000000, time.Second}, "1/day": {1, 24 * time.Hour}, "9/day@UTC": {9, 0},
	} {
		if n, w := mustParse(t, in).Rates[0].Limit(); n != want.n || w != want.w {
			t.Errorf("%s: %d in %v, want %d in %v", in, n, w, want.n, want.w)
		}
	}
	if n, w := (Rate{N: math.MaxInt64, Decimals: math.MaxInt, Window: math.MaxInt64}).Limit(); n <= 0 || w <= 0 {
		t.Errorf("wild rate: %d in %v", n, w)
	}
}

func TestCheckCost(t *testing.T) {
	sp := mustParse(t, "10/s, 100/m, 3 in flight")
	for cost, ok := range map[int64]bool{1: true, 10: true, 11: false, 0: false, -1: false, math.MaxInt64: false, math.MinInt64: false} {
		err := sp.CheckCost(cost)
		var typed *CostError
		if (err == nil) != ok || err != nil && !errors.As(err, &typed) {
			t.Errorf("cost %d: %v", cost, err)
		}
	}
	if err := (Spec{}).CheckCost(MaxN + 1); err == nil {
		t.Error("an unlimited spec took a cost beyond MaxN")
	}
}

func TestPerSecond(t *testing.T) {
	for in, want := range map[string]float64{"5/s": 5, "1000/h, 10/s": 10, "0.5/m": 1. / 120, "unlimited": 0, "5/day@UTC": 0, "20 in flight": 0} {
		if got := mustParse(t, in).PerSecond(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
}

// drawSpec is any valid spec with at most three rates.
func drawSpec(t *rapid.T) Spec {
	for {
		var sp Spec
		for range rapid.IntRange(0, 3).Draw(t, "rates") {
			r := Rate{N: rapid.Int64Range(1, 40).Draw(t, "n"), Window: rapid.SampledFrom([]time.Duration{
				100 * time.Millisecond, 250 * time.Millisecond, time.Second, 1500 * time.Millisecond, 10 * time.Second, time.Minute, 2 * time.Minute, time.Hour}).Draw(t, "window")}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				r.Window, r.Calendar, r.Zone = 0, Day, rapid.SampledFrom([]string{"UTC", "America/New_York", "Asia/Kolkata"}).Draw(t, "zone")
			case 1:
				r.Decimals = rapid.IntRange(1, 2).Draw(t, "decimals")
				if r.N%10 == 0 {
					r.N++ // Parse drops trailing zeros
				}
			case 2:
				n, _ := r.Limit()
				r.Burst = rapid.Int64Range(1, n).Draw(t, "burst")
			}
			sp.Rates = append(sp.Rates, r)
		}
		if rapid.IntRange(0, 4).Draw(t, "capped") == 0 {
			sp.InFlight = rapid.Int64Range(1, 8).Draw(t, "cap")
		}
		if sp.Validate() == nil {
			return sp
		}
	}
}

func TestAnySpecPrintsAndParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := drawSpec(t)
		s := sp.String()
		back, err := Parse(s)
		if err != nil || back.String() != s {
			t.Fatalf("%q came back as %q, %v", s, back, err)
		}
		for i, r := range sp.Rates {
			if back.Rates[i] != r {
				t.Fatalf("%q: rate %+v came back as %+v", s, r, back.Rates[i])
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"5/s", "40/10s burst 8", "10000/day@America/New_York", "0.66/s, 20 in flight", "paused", "1e9/s", "-1/s", "\x00", "5/9999999h", "0.000001/31day"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sp, err := Parse(s)
		if err != nil {
			return
		}
		canonical := sp.String()
		back, err := Parse(canonical)
		if err != nil || back.String() != canonical {
			t.Fatalf("%q prints %q, which comes back as %q, %v", s, canonical, back, err)
		}
		if at, _ := new(State).Earliest(sp, Ask{Cost: 1}, 1e15); !sp.Paused && at != 1e15 {
			t.Fatalf("%q: a fresh limit is free at %d", s, at)
		}
	})
}
