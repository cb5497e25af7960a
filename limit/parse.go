package limit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const specHelp = "expected rates such as 5/s, 100/m, 40/10s burst 8, 10000/day or 10000/day@America/New_York, a cap such as 20 in flight, or paused, or unlimited"

// Parse reads a spec: parts joined by commas, each a rate, "N in flight" or
// "paused"; or "unlimited" alone. The error is a *SpecError, or several joined,
// saying what was expected, what came and what to do.
func Parse(s string) (Spec, error) {
	var sp Spec
	if len(s) > 1000 {
		return Spec{}, &SpecError{Part: s[:40] + "…", Text: fmt.Sprintf("expected at most 1000 characters, got %d", len(s))}
	}
	text := strings.TrimSpace(s)
	if text == "" {
		return Spec{}, &SpecError{Part: s, Text: specHelp + ", got nothing"}
	}
	if text == "unlimited" {
		return Spec{}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if err := sp.parsePart(part); err != "" {
			return Spec{}, &SpecError{Part: part, Text: err}
		}
	}
	if err := sp.Validate(); err != nil {
		return Spec{}, err
	}
	return sp, nil
}

// parsePart adds one part to the spec, or says what is wrong with it.
func (sp *Spec) parsePart(part string) string {
	switch {
	case part == "":
		return specHelp + ", got an empty part between commas"
	case part == "paused":
		if sp.Paused {
			return "expected paused once"
		}
		sp.Paused = true
		return ""
	case part == "unlimited":
		return "expected unlimited alone: take it away, or take the other parts away"
	case part == "auto":
		return "auto is not there yet: write the rate, such as 5/s"
	case strings.HasSuffix(part, "flight"):
		return sp.parseInFlight(part)
	case strings.Contains(part, "/"):
		r, err := parseRate(part)
		sp.Rates = append(sp.Rates, r)
		return err
	}
	if _, _, err := parseDecimal(part); err == "" {
		return "expected a unit after the number, such as " + part + "/s; thousands are written without a comma"
	}
	return specHelp
}

func (sp *Spec) parseInFlight(part string) string {
	f := strings.Fields(part)
	if len(f) != 3 || f[1] != "in" || f[2] != "flight" {
		return "expected a cap such as 20 in flight"
	}
	n, d, err := parseDecimal(f[0])
	switch {
	case err != "":
		return err
	case d != 0:
		return "expected a whole number of calls"
	case n == 0:
		return "expected at least 1 call in flight; to let nothing through write paused"
	case sp.InFlight != 0:
		return fmt.Sprintf("expected one cap, but %d in flight is there too: keep the smaller one", sp.InFlight)
	}
	sp.InFlight = n
	return ""
}

// parseRate reads COUNT/WINDOW [burst N], with WINDOW as in s, 10s, day or
// day@ZONE. What is left for Validate to judge it lets pass.
func parseRate(part string) (Rate, string) {
	var r Rate
	var err string
	count, rest, _ := strings.Cut(part, "/")
	if r.N, r.Decimals, err = parseDecimal(strings.TrimSpace(count)); err != "" {
		return r, err
	}
	f := strings.Fields(rest)
	if len(f) == 3 && f[1] == "burst" {
		n, d, err := parseDecimal(f[2])
		switch {
		case err != "":
			return r, err
		case d != 0:
			return r, "expected a whole number of permits as burst"
		case n == 0:
			return r, "expected a burst of at least 1"
		}
		r.Burst = n
		f = f[:1]
	}
	if len(f) != 1 {
		return r, "expected a rate such as 5/s or 40/10s burst 8"
	}
	window, zone, zoned := strings.Cut(f[0], "@")
	if zoned {
		return parseCalendar(r, window, zone)
	}
	r.Window, err = parseWindow(window)
	return r, err
}

func parseCalendar(r Rate, unit, zone string) (Rate, string) {
	r.Zone = zone
	switch unit {
	case "day", "d":
		r.Calendar = Day
	case "month":
		r.Calendar = Month
	default:
		return r, fmt.Sprintf("expected day or month before the zone, got %q: a calendar quota is written like 10000/day@America/New_York", unit)
	}
	if zone == "" {
		return r, "expected a zone after @, such as America/New_York or UTC"
	}
	return r, ""
}

// parseWindow reads a unit with an optional whole number before it.
func parseWindow(s string) (time.Duration, string) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	count := int64(1)
	if digits > 0 {
		n, err := strconv.ParseInt(s[:digits], 10, 64)
		if err != nil {
			return 0, fmt.Sprintf("expected a window of at most %s, got %q", windowText(MaxWindow), s)
		}
		if n == 0 {
			return 0, "expected a window longer than nothing"
		}
		count = n
	}
	var unit time.Duration
	switch s[digits:] {
	case "us":
		unit = time.Microsecond
	case "ms":
		unit = time.Millisecond
	case "s", "sec", "second", "seconds":
		unit = time.Second
	case "m", "min", "minute", "minutes":
		unit = time.Minute
	case "h", "hour", "hours":
		unit = time.Hour
	case "d", "day", "days":
		unit = 24 * time.Hour
	case "month":
		return 0, "expected a zone for a month, whose length depends on the calendar: write for example 50000/month@UTC"
	default:
		return 0, fmt.Sprintf("expected a unit s, m, h or day, with a number before it or none (10s), got %q", s)
	}
	if count > math.MaxInt64/int64(unit) {
		return 0, fmt.Sprintf("expected a window of at most %s, got %q", windowText(MaxWindow), s)
	}
	return time.Duration(count) * unit, ""
}

// parseDecimal reads digits with an optional point: n · 10^-d, without
// trailing zeros.
func parseDecimal(s string) (n int64, d int, fault string) {
	whole, frac, point := strings.Cut(s, ".")
	frac = strings.TrimRight(frac, "0")
	digits := whole + frac
	switch {
	case strings.HasPrefix(s, "-"):
		return 0, 0, fmt.Sprintf("expected a number above 0, got %s", s)
	case whole == "" || strings.Trim(digits, "0123456789") != "" || point && strings.HasSuffix(s, "."):
		return 0, 0, fmt.Sprintf("expected a number such as 5 or 0.5, in digits only, got %q", s)
	case len(frac) > maxDecimals:
		return 0, 0, fmt.Sprintf("expected at most %d digits after the point, got %q", maxDecimals, s)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > MaxN {
		return 0, 0, fmt.Sprintf("expected a number of at most %d, got %s", MaxN, s)
	}
	return n, len(frac), ""
}
