package cli

import (
	"fmt"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
)

// limitLeft is what the API last said is left of a window of its own.
type limitLeft struct {
	Left   int64     `json:"left"` // less what was granted since
	Of     int64     `json:"of,omitempty"`
	Until  show.Time `json:"until"` // the window's reset
	ByCost bool      `json:"by_cost"`
	Binds  bool      `json:"binds"` // false: the spec says the same
}

func leftOf(l *penstock.LimitInfo, now int64) *limitLeft {
	left, ok := l.State.Left(now)
	if !ok {
		return nil
	}
	return &limitLeft{Left: left.N, Of: left.Of, Until: show.Time(left.Until), ByCost: left.ByCost, Binds: left.Binds}
}

// text is "the API says 3 of 100 left for 12s".
func (l *limitLeft) text(now int64) string {
	text := "the API says " + show.Number(l.Left)
	if l.Of > 0 {
		text += " of " + show.Number(l.Of)
	}
	return fmt.Sprintf("%s left for %s", text, show.Duration(show.Between(now, int64(l.Until))))
}
