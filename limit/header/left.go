package header

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Left is what a response says is left of a window, whether the call was
// refused or not.
type Left struct {
	// Known says that the response told it. The other fields are zero without.
	Known bool
	// N is what is left; a fraction is rounded down, and less than nothing is 0.
	N int64
	// Of is the whole of the window; 0: not said.
	Of int64
	// ResetIn is how long from now the window resets, if ResetStated; 0: at once.
	ResetIn     time.Duration
	ResetStated bool
	// Source is the header N was read from.
	Source string
}

// mostLeft bounds what is believed to be left.
const mostLeft = 1 << 50

// units are words, perhaps plural, in the names of windows that do not count calls.
var units = []string{"token", "complexity", "cost", "point", "credit", "weight", "byte", "unit"}

// usedOf are headers that say "used/limit", perhaps after a name and "=".
var usedOf = []string{
	"X-Shopify-Shop-Api-Call-Limit", // 39/40
	"Sforce-Limit-Info",             // api-usage=25/5000
}

// leftIn finds the tightest of the windows the response speaks of: among those
// that count calls, and among those that count something else. A window whose
// headers can not be read or contradict each other counts as not said.
func leftIn(h http.Header, clock time.Time) (calls, other Left) {
	if !Speaks(h) {
		return calls, other
	}
	keep := func(l Left, name string) {
		switch {
		case !l.Known:
		case countsCalls(name):
			calls = tighter(calls, l)
		default:
			other = tighter(other, l)
		}
	}
	for _, key := range windowNames(h) {
		keep(leftOfWindow(h, key, clock), key)
	}
	for _, prefix := range []string{"", "Beta-"} {
		for _, w := range structured(h, prefix, clock) {
			keep(w.Left, w.unit)
		}
	}
	for _, name := range usedOf {
		for _, v := range values(h, name) {
			keep(leftOfUsed(v, name), "")
		}
	}
	return calls, other
}

// Speaks is a quick look whether the headers may say what is left: those of most
// answers do not, and need not be read for it.
func Speaks(h http.Header) bool {
	for name := range h {
		if containsFold(name, "limit") {
			return true
		}
	}
	return false
}

// containsFold finds a word of small ASCII letters in any letter case.
func containsFold(s, word string) bool {
	for i := 0; i+len(word) <= len(s); i++ {
		if s[i]|0x20 == word[0] && strings.EqualFold(s[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// countsCalls reports whether a window of this name, in small letters, counts calls.
func countsCalls(name string) bool {
	words := strings.FieldsFunc(name, func(c rune) bool { return c < 'a' || c > 'z' })
	return !slices.ContainsFunc(words, func(word string) bool { return slices.Contains(units, strings.TrimSuffix(word, "s")) })
}

// tighter is the window with less left. One that does not say when it resets
// holds nobody for long, and one that resets at once holds nobody: any other
// comes before them. Of two that are alike the one with the later reset counts.
func tighter(a, b Left) Left {
	ra, rb := a.rank(), b.rank()
	if ra != rb {
		if ra > rb {
			return a
		}
		return b
	}
	if b.N < a.N || b.N == a.N && b.ResetIn > a.ResetIn {
		return b
	}
	return a
}

func (l Left) rank() int {
	switch {
	case !l.Known:
		return 0
	case l.ResetStated && l.ResetIn == 0:
		return 1
	case !l.ResetStated:
		return 2
	}
	return 3
}

// leftOfWindow reads the window of a key, see windowNames.
func leftOfWindow(h http.Header, key string, clock time.Time) Left {
	name := func(word string) string { return strings.Replace(key, "*", word, 1) }
	n, source := leastOf(values(h, name("remaining"))), name("remaining")
	of, said := firstOf(values(h, name("limit")))
	if n.bad || said && of < 0 {
		return Left{}
	}
	if !n.found {
		used := leastOf(values(h, name("used")))
		if !said || !used.found || used.bad {
			return Left{}
		}
		n.n, source = of-used.most, name("used")
	}
	var reset finding
	for _, word := range []string{"reset-after", "reset"} {
		if readResets(&reset, h, name(word), clock); reset.found {
			break
		}
	}
	return newLeft(n.n, of, said, reset.wait, reset.found, http.CanonicalHeaderKey(source))
}

// newLeft puts a window together, if its numbers agree. No limit at all is
// sometimes said as a limit of 0, and more left than there is says nothing.
func newLeft(n, of float64, whole bool, reset time.Duration, resets bool, source string) Left {
	if whole && (of <= 0 || n > of) || !whole && n < 0 {
		return Left{}
	}
	l := Left{Known: true, N: int64(min(max(n, 0), mostLeft)), Source: source, ResetStated: resets}
	if whole {
		l.Of = int64(min(of, mostLeft))
	}
	if resets {
		l.ResetIn = max(reset, 0)
	}
	return l
}

// counts are the least and the most of some numbers.
type counts struct {
	n, most    float64
	found, bad bool // bad: there is something that is no number
}

func leastOf(lines []string) (c counts) {
	for _, line := range lines {
		for _, s := range strings.Split(line, ",") {
			n, ok := parseCount(s)
			switch {
			case !ok:
				c.bad = true
			case !c.found:
				c.n, c.most, c.found = n, n, true
			default:
				c.n, c.most = min(c.n, n), max(c.most, n)
			}
		}
	}
	return c
}

// firstOf is the first number: of several limits in one field, the first is the
// one that counts now. The least, if there are several fields.
func firstOf(lines []string) (least float64, ok bool) {
	for _, line := range lines {
		first, _, _ := strings.Cut(line, ",")
		if n, isCount := parseCount(first); isCount && (!ok || n < least) {
			least, ok = n, true
		}
	}
	return least, ok
}

// parseCount reads a number, perhaps negative, perhaps with parameters behind.
func parseCount(s string) (float64, bool) {
	s, _, _ = strings.Cut(s, ";")
	s = strings.TrimSpace(s)
	digits, negative := strings.CutPrefix(s, "-")
	if !isNumber(digits) {
		return 0, false
	}
	n := parseNumber(digits)
	if negative {
		n = -n
	}
	return n, true
}

// leftOfUsed reads "32/40".
func leftOfUsed(v, name string) Left {
	if _, after, named := strings.Cut(v, "="); named {
		v = after
	}
	a, b, ok := strings.Cut(v, "/")
	used, usedOK := parseCount(a)
	of, ofOK := parseCount(b)
	if !ok || !usedOK || !ofOK || used < 0 {
		return Left{}
	}
	return newLeft(of-used, of, true, 0, false, name)
}
