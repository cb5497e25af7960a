package show

import (
	"slices"
	"strconv"
	"strings"
)

// Number writes a number with commas between thousands.
func Number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Some is Number, and "" for zero: what is of interest stands out.
func Some(n int64) string {
	if n == 0 {
		return ""
	}
	return Number(n)
}

// Count is a number and what it counts: "1 job", "3 jobs".
func Count(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + one + "s"
}

// Bytes writes a size in units of 1024: 512 B, 3.2 MiB.
func Bytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < 4 {
		v /= 1024
		unit++
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit]
}

// Sparkline draws values as bars of one character each. Zero is a dot, the
// largest value is a full bar.
func (s *Screen) Sparkline(values []int64) string {
	bars, dot := []rune("▁▂▃▄▅▆▇█"), '·'
	if !s.Unicode {
		bars, dot = []rune("_-=+xoX#"), '.'
	}
	most := int64(0)
	if len(values) > 0 {
		most = slices.Max(values)
	}
	var b strings.Builder
	for _, v := range values {
		if v <= 0 || most <= 0 {
			b.WriteRune(dot)
			continue
		}
		i := int(float64(v)/float64(most)*float64(len(bars))+0.999999) - 1
		b.WriteRune(bars[min(max(i, 0), len(bars)-1)])
	}
	return b.String()
}
