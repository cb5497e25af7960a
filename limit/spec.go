package limit

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Spec is what a limit allows. The zero Spec is "unlimited": no rate and no
// cap; its State still counts calls and can be paused.
type Spec struct {
	Rates    []Rate // all must agree
	InFlight int64  // calls at the same time; 0: no cap
	Paused   bool   // nothing starts, whatever the rest says
}

// Rate is a number of permits per window of time.
type Rate struct {
	// N is the number of permits per Window. With Decimals set it is read as
	// a decimal number: 0.66/s is N 66, Decimals 2. Use [Rate.Limit] for the
	// whole permits and the window the rate comes to.
	N        int64
	Decimals int

	Window time.Duration // of a rolling rate; 0 for a calendar quota
	Burst  int64         // permits that may start together; 0: a twelfth of N, at least 1

	Calendar Calendar // Rolling, or the period that resets in Zone
	Zone     string   // IANA name, such as America/New_York
}

// Calendar is the period of a quota that resets by the calendar.
type Calendar int

const (
	Rolling Calendar = iota // not by the calendar: the last Window, at any time
	Day                     // midnight to midnight
	Month                   // first of the month to first of the month
)

// The largest values a spec may hold.
const (
	MaxN      int64         = 1_000_000_000_000   // permits of a rate, and calls in flight
	MaxWindow time.Duration = 31 * 24 * time.Hour // what a State remembers
	MinWindow time.Duration = 100 * time.Millisecond

	maxRates    = 8
	maxDecimals = 6
	pacedUpTo   = time.Minute // longer windows only count
)

// Limit is the rate in whole permits: at most n in any window of length w. A
// fraction below one becomes one permit in a longer window (0.5/m: 1 in 2m),
// another fraction a shorter window (2.5/s: 2 in 800ms). For a calendar quota w
// is 0.
func (r Rate) Limit() (n int64, w time.Duration) {
	if r.Decimals <= 0 {
		return min(r.N, MaxN), r.Window // an invalid spec must not overflow either
	}
	scale := pow10(r.Decimals)
	n = max(1, r.N/scale)
	if r.Calendar != Rolling || r.N <= 0 {
		return n, r.Window
	}
	// w = Window · n · scale / N, rounded up to a microsecond.
	w = time.Duration(mulDivUp(max(0, micros(r.Window)), n*scale, r.N))
	if w > MaxWindow/time.Microsecond {
		return n, MaxWindow + 1
	}
	return n, w * time.Microsecond
}

// mulDivUp is a·b/c, rounded up, and at most maxSum. 128 bits hold the product.
// None is negative, and c is not 0.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return maxSum
	}
	q, rem := bits.Div64(hi, lo, uint64(c))
	if q >= uint64(maxSum) {
		return maxSum
	}
	if rem > 0 {
		q++
	}
	return int64(q)
}

func pow10(d int) int64 {
	p := int64(1)
	for range min(max(d, 0), maxDecimals) {
		p *= 10
	}
	return p
}

// HasRate reports whether the spec holds at least one rate.
func (sp Spec) HasRate() bool { return len(sp.Rates) > 0 }

// PerSecond is the pace, in permits per second, while no longer window is used
// up: that of the shortest rolling window. It is 0 if there is none.
func (sp Spec) PerSecond() float64 {
	i := sp.shortest()
	if i < 0 {
		return 0
	}
	n, w := sp.Rates[i].Limit()
	return float64(n) / w.Seconds()
}

// shortest is the index of the rolling rate with the shortest window, or -1.
func (sp Spec) shortest() int {
	best, at := time.Duration(0), -1
	for i := range sp.Rates {
		if sp.Rates[i].Calendar != Rolling {
			continue
		}
		if _, w := sp.Rates[i].Limit(); at < 0 || w < best {
			best, at = w, i
		}
	}
	return at
}

// String is the canonical text of the spec. Parse reads it back.
func (sp Spec) String() string {
	var parts []string
	for _, r := range sp.Rates {
		parts = append(parts, r.String())
	}
	if sp.InFlight != 0 {
		parts = append(parts, strconv.FormatInt(sp.InFlight, 10)+" in flight")
	}
	if sp.Paused {
		parts = append(parts, "paused")
	}
	if len(parts) == 0 {
		return "unlimited"
	}
	return strings.Join(parts, ", ")
}

// String is the canonical text of the rate.
func (r Rate) String() string {
	s := decimal(r.N, r.Decimals) + "/"
	switch r.Calendar {
	case Day:
		s += "day@" + r.Zone
	case Month:
		s += "month@" + r.Zone
	default:
		s += windowText(r.Window)
	}
	if r.Burst != 0 {
		s += " burst " + strconv.FormatInt(r.Burst, 10)
	}
	return s
}

// decimal writes n · 10^-d without trailing zeros.
func decimal(n int64, d int) string {
	s := strconv.FormatInt(n, 10)
	if d == 0 {
		return s
	}
	if n < 0 || d < 0 || d > maxDecimals { // not valid, but it must print
		return s + "e" + strconv.FormatInt(-int64(d), 10)
	}
	for len(s) <= d {
		s = "0" + s
	}
	s = s[:len(s)-d] + "." + s[len(s)-d:]
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

var windowUnits = []struct {
	name string
	d    time.Duration
}{
	{"day", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond},
}

func windowText(w time.Duration) string {
	for _, u := range windowUnits {
		if w == u.d {
			return u.name
		}
		if w > 0 && w%u.d == 0 && u.name != "day" {
			return strconv.FormatInt(int64(w/u.d), 10) + u.name
		}
	}
	return w.String()
}
