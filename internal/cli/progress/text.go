package progress

import (
	"fmt"
	"strconv"
	"time"

	"github.com/penstockhq/penstock/internal/cli/show"
)

// Digits writes a number with commas between thousands.
func Digits(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Rate writes calls per second, or per minute where they are few.
func Rate(perSecond float64) string {
	switch {
	case perSecond >= 100:
		return Digits(int64(perSecond+0.5)) + "/s"
	case perSecond >= 1 || perSecond == 0:
		return strconv.FormatFloat(perSecond, 'f', 1, 64) + "/s"
	}
	return strconv.FormatFloat(perSecond*60, 'f', 1, 64) + "/m"
}

// Duration writes a duration with its two largest units.
func Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// Cut shortens a text to a width in columns and makes it safe to print.
func Cut(s string, width int) string { return show.Cut(show.Text(s), width, "…") }
