package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

// Figures are a demo in numbers, as --json prints them.
type Figures struct {
	Algorithm      apisim.Algorithm `json:"algo"`
	Cap            int              `json:"cap"`
	Seed           uint64           `json:"seed"`
	Calls          int              `json:"calls"`
	Refused        int              `json:"refused"`
	FullestWindow  int              `json:"fullest_window"` // of all that arrived, refused ones included
	Delivered      int              `json:"delivered"`      // messages
	Dead           int              `json:"dead"`           // messages that ended rejected
	Repeated       int              `json:"repeated"`       // calls for a message that was called for before
	KilledPID      int              `json:"killed_pid"`     // 0: none
	ElapsedSeconds float64          `json:"elapsed_seconds"`
	Claims         []Claim          `json:"claims"`
}

// Figures counts the result and judges the claims.
func (r *Result) Figures(seed uint64) Figures {
	e := &r.Evidence
	f := Figures{
		Algorithm: e.Algorithm, Cap: e.Cap, Seed: seed,
		Calls: len(e.Calls), Refused: apisim.Refused(e.log()), FullestWindow: e.fullest(),
		Delivered: len(apisim.Delivered(e.log())), Repeated: len(e.repeats()),
		ElapsedSeconds: float64(r.Elapsed.Round(time.Millisecond)) / float64(time.Second),
		Claims:         Judge(e),
	}
	for _, m := range e.Messages {
		if e.rejected(m.ID) {
			f.Dead++
		}
	}
	if e.Kill != nil {
		f.KilledPID = e.Kill.PID
	}
	return f
}

// Failed returns how many claims are false.
func (f Figures) Failed() int {
	n := 0
	for _, c := range f.Claims {
		if !c.OK {
			n++
		}
	}
	return n
}

// Report prints what the API saw, and the claims.
func (r *Result) Report(w io.Writer, f Figures, width int, style Style) {
	e := &r.Evidence
	span := time.Duration(0)
	if n := len(e.Calls); n > 0 {
		span = e.Calls[n-1].At - e.Calls[0].At
	}
	fmt.Fprintf(w, "\n%s: %s in %.1f s, %d refused\n\n", style.bold("What the API saw"), count(f.Calls, "call"), span.Seconds(), f.Refused)
	for _, line := range r.plot(width, style).Lines() {
		fmt.Fprintln(w, "  "+line)
	}
	r.reportRepeats(w, width, style)
	fmt.Fprintf(w, "\n%s\n\n", style.bold("Claims, by the API's log"))
	for _, c := range f.Claims {
		sign := style.paint("good", "✓")
		if !c.OK {
			sign = style.paint("bad", "✗")
		}
		fmt.Fprintf(w, "  %s %s\n", sign, wrap(c.Detail, width-4, 4))
	}
	fmt.Fprintln(w)
	if n := f.Failed(); n > 0 {
		fmt.Fprintf(w, "%s\n", style.paint("bad", fmt.Sprintf("%d of %d claims are false.", n, len(f.Claims))))
	} else {
		fmt.Fprintf(w, "All %d claims are true.\n", len(f.Claims))
	}
}

// plot is the plot of the result, two characters in.
func (r *Result) plot(width int, style Style) Plot {
	e := &r.Evidence
	p := Plot{
		Calls: e.Calls, Cap: e.Cap, Flight: e.Algorithm == apisim.InFlight, Width: width - 2,
		Marks: map[time.Duration]rune{}, Paint: style.paint,
	}
	if e.Kill != nil {
		p.Marks[e.Kill.At.Sub(r.Start)] = 'K'
		p.Notes += "; K: the kill"
	}
	if e.Replay != nil {
		p.Marks[e.Replay.At.Sub(r.Start)] = 'R'
		p.Notes += "; R: the replay"
	}
	return p
}

// mostRepeats is how many repeats are printed one by one.
const mostRepeats = 20

// reportRepeats prints the repeated calls as such.
func (r *Result) reportRepeats(w io.Writer, width int, style Style) {
	repeats := r.Evidence.repeats()
	fmt.Fprintf(w, "\n%s: %d of %s\n", style.bold("Calls made again"), len(repeats), count(len(r.Evidence.Calls), "call"))
	if len(repeats) == 0 {
		return
	}
	fmt.Fprintln(w)
	by := map[string]int{}
	for i, repeat := range repeats {
		if i < mostRepeats {
			fmt.Fprintln(w, "  "+cut(repeat.String(), width-2))
			continue
		}
		by[repeat.Why]++
	}
	for _, why := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(w, "  and %d more: %s\n", by[why], why)
	}
}

// String tells of the repeat in a line.
func (r Repeat) String() string {
	why := r.Why
	if why == "" {
		why = "NO good reason"
	}
	after := ""
	switch {
	case r.Before.Delivered, r.Before.Replayed:
		after = ", after delivery"
	case r.Before.Refused, r.Before.Status == 400:
	default:
		after = ", before delivery"
	}
	then := fmt.Sprintf("answered %d", r.Status)
	switch {
	case r.Refused:
		then = "refused"
	case r.Status == 0:
		then = "connection broke"
	case r.Held:
		then = "no answer"
	case r.Replayed && r.ok():
		then = "known by its key, not sent again"
	case r.Delivered && r.ok():
		then = "delivered"
	}
	return fmt.Sprintf("%s  +%.1f s  %s%s → %s", r.MessageID, (r.At - r.Before.At).Seconds(), why, after, then)
}

// Style is how text is set off; the zero value leaves it plain.
type Style struct {
	Colour bool
}

var colours = map[string]string{"good": "32", "bad": "31;1", "dim": "2", "bold": "1"}

func (s Style) paint(style, text string) string {
	if !s.Colour {
		return text
	}
	return "\x1b[" + colours[style] + "m" + text + "\x1b[0m"
}

func (s Style) bold(text string) string { return s.paint("bold", text) }
