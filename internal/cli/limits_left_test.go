package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/limit"
)

// What the API says is left is shown while it lasts, and as the state of a limit
// only where it may hold calls back.
func TestLimitsShowWhatIsLeft(t *testing.T) {
	const now, second = int64(1_700_000_000_000_000), int64(1_000_000)
	sp, err := limit.Parse("10/s")
	if err != nil {
		t.Fatal(err)
	}
	info := penstock.LimitInfo{Name: "api", Declared: "10/s", Spec: sp}
	info.State.Take(sp, limit.Ask{Cost: 1}, now)
	info.State.Observe(sp, limit.Observation{At: now, Slot: now, LeftKnown: true, Left: 3, Whole: 100, ResetAt: now + 12*second}, 0)
	l := newLimitLine(&info, 0, now)
	if got := l.state(now); got != "the API says 3 of 100 left for 12s" {
		t.Errorf("state %q", got)
	}
	b, err := json.Marshal(&l)
	if err != nil || !strings.Contains(string(b), `"left":{"left":3,"of":100,"until":"`) {
		t.Errorf("%s, %v", b, err)
	}
	var page bytes.Buffer
	p := limitPage{limitLine: l, now: now}
	if err := p.print(&show.Screen{Writer: &page}); err != nil || !strings.Contains(page.String(), "the API says 3 of 100 left for 12s") {
		t.Errorf("%s, %v", &page, err)
	}
	if l := newLimitLine(&info, 0, now+12*second); l.Left != nil || l.state(now+12*second) != "" {
		t.Errorf("after the reset: %+v", l.Left)
	}
}
