package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstockhq/penstock/apisim"
)

// Live tells of a demo while it runs: the story as lines, and below them how
// far it is.
type Live struct {
	Story io.Writer // gets a line for each moment
	Aside io.Writer // gets the progress; may be the same terminal
	// Terminal says that Aside can be drawn over; else it gets a line now and then.
	Terminal bool
	Width    int

	drawn  int // lines of progress that stand on the terminal
	spoken time.Duration
}

const (
	every = 2 * time.Second // between lines of progress, without a terminal
	bar   = 25              // characters
)

// Told prints a moment.
func (l *Live) Told(m Moment) {
	l.Clear()
	const indent = 10
	fmt.Fprintf(l.Story, "%6.1f s  %s\n", m.At.Seconds(), wrap(m.Text, l.Width-indent, indent))
}

// Showing shows how far the demo is.
func (l *Live) Showing(s Status) {
	refused := 0
	for _, c := range s.Calls {
		if c.Refused {
			refused++
		}
	}
	if !l.Terminal {
		if s.At-l.spoken >= every {
			l.spoken = s.At
			fmt.Fprintf(l.Aside, "%6.1f s  %d of %d ended, %s, %d refused\n", s.At.Seconds(), s.Ended, s.Jobs, count(len(s.Calls), "call"), refused)
		}
		return
	}
	full := bar * s.Ended / max(1, s.Jobs)
	lines := []string{
		"",
		cut(fmt.Sprintf("%6.1f s  %s%s  %d of %d ended · %s · %d refused", s.At.Seconds(),
			strings.Repeat("█", full), strings.Repeat("░", bar-full), s.Ended, s.Jobs, count(len(s.Calls), "call"), refused), l.Width-1),
		cut("   calls  "+ticker(s, max(10, min(60, l.Width-30)))+"  in each 100 ms", l.Width-1),
	}
	l.Clear()
	fmt.Fprintln(l.Aside, strings.Join(lines, "\n"))
	l.drawn = len(lines)
}

// Clear takes the progress off the terminal.
func (l *Live) Clear() {
	if l.drawn > 0 {
		fmt.Fprintf(l.Aside, "\x1b[%dA\x1b[J", l.drawn)
		l.drawn = 0
	}
}

// ticker is the digits of the latest columns of the plot.
func ticker(s Status, n int) string {
	const step = 100 * time.Millisecond
	columns := make([]column, n)
	last := s.At.Truncate(step)
	for _, c := range s.Calls {
		if back := int((last - c.At.Truncate(step)) / step); back >= 0 && back < n {
			columns[n-1-back].calls++
		}
	}
	return digits(columns, func(_, text string) string { return text })
}

// Opening is the first line of a demo.
func Opening(o Options) string {
	how := map[apisim.Algorithm]string{
		apisim.Sliding: "in any second", apisim.Fixed: "in each second of its clock", apisim.Bucket: "a second by a token bucket",
		apisim.GCRA: "a second, evenly spaced", apisim.InFlight: "at a time",
	}[o.Algorithm]
	return fmt.Sprintf("%d messages through a pretend SMS API that takes %s %s", messageCount, count(o.Cap, "call"), how)
}
