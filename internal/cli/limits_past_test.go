package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock/internal/cli/show"
)

// The bars of a limit's history stay on one line of a narrow terminal, and add up to
// the same.
func TestBarsOfALimitFitOnANarrowScreen(t *testing.T) {
	var p limitPage
	p.History.Period = show.Seconds(10 * time.Second)
	for i := range historyBars {
		p.History.Granted, p.History.Refused = append(p.History.Granted, int64(i)), append(p.History.Refused, 1)
	}
	for width, period := range map[int]string{0: "10s each", 100: "10s each", 60: "20s each", 30: "1m20s each"} {
		var b bytes.Buffer
		if err := p.printPast(&show.Screen{Writer: &b, Width: width, Unicode: true}); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if width > 0 && show.Width(line) > width {
				t.Errorf("%q has %d of %d columns", line, show.Width(line), width)
			}
		}
		for _, want := range []string{period, "1,770\n", " 60\n"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("width %d: lacks %q:\n%s", width, want, &b)
			}
		}
	}
}
