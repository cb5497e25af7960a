package limit

import "fmt"

// Why says what keeps an ask from starting now.
type Why int

// The reasons, from harmless to final.
const (
	None           Why = iota // it may start now
	Window                    // a window or a calendar quota is used up
	Pacing                    // permits are spread over the window; or an earlier slot lies ahead
	Announced                 // the API said that little, or nothing, is left until its reset
	Booked                    // room is kept for a booking
	Full                      // the in-flight cap is reached; a release opens it
	PausedByAPI               // the API asked to wait
	PausedByPerson            // a person paused the limit
	PausedBySpec              // the spec says paused
	TooCostly                 // the cost is above what the spec can ever grant at once
)

var whyTexts = [...]string{
	None:           "free",
	Window:         "window used up",
	Pacing:         "pacing",
	Announced:      "the API said that little is left",
	Booked:         "room kept for a booking",
	Full:           "in-flight cap reached",
	PausedByAPI:    "paused by the API",
	PausedByPerson: "paused by a person",
	PausedBySpec:   "paused by its spec",
	TooCostly:      "cost above the limit",
}

// String is the reason as it is shown to people.
func (w Why) String() string {
	if w < 0 || int(w) >= len(whyTexts) {
		return fmt.Sprintf("Why(%d)", int(w))
	}
	return whyTexts[w]
}
