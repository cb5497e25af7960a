package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	plotHeight = 5 // rows at most, for the cap; what is above it gets one more
	plotMargin = 5 // columns left of the axis
	maxPanels  = 4 // of a plot that is wrapped; beyond it a column is more time
)

// eighths are blocks of growing height.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

// A Plot draws the API's log: a column for every 100 ms, as high as the calls
// that arrived in the second up to then, with the number of calls in the 100 ms
// below it. Refused calls count like others.
type Plot struct {
	Calls  []Call
	Cap    int
	Flight bool // the cap is about calls in flight: columns show those
	Width  int  // of the paper, in characters
	// Marks are letters to be written at an instant of the log.
	Marks map[time.Duration]rune
	Notes string                          // appended to the legend
	Paint func(style, text string) string // nil: plain
}

// column is one column of the plot.
type column struct {
	calls, refused int // in its own time
	level          int // at its highest
	mark           rune
}

// Lines returns the plot, without line ends.
func (p Plot) Lines() []string {
	if len(p.Calls) == 0 {
		return []string{"(no calls)"}
	}
	paint := p.Paint
	if paint == nil {
		paint = func(_, text string) string { return text }
	}
	room := max(20, p.Width-plotMargin-1)
	step := p.step(room)
	columns := p.columns(step)
	perSecond := max(1, int(time.Second/step))
	room = panelRoom(len(columns), room, perSecond)
	over := slices.ContainsFunc(columns, func(c column) bool { return c.level > p.Cap })

	lines := p.legend(step)
	for from := 0; from < len(columns); from += room {
		panel := columns[from:min(from+room, len(columns))]
		if over {
			lines = append(lines, paint("bad", fmt.Sprintf("%*s ┤%s", plotMargin-1, ">"+fmt.Sprint(p.Cap), overRow(panel, p.Cap))))
		}
		for row := p.height(); row >= 1; row-- {
			lines = append(lines, fmt.Sprintf("%*s ┤%s", plotMargin-1, p.label(row), p.row(panel, row)))
		}
		lines = append(lines,
			fmt.Sprintf("%*s └%s", plotMargin-1, "", axis(panel, perSecond)),
			fmt.Sprintf("%*s  %s", plotMargin-1, "", digits(panel, paint)),
			fmt.Sprintf("%*s  %s", plotMargin-1, "", seconds(from, len(panel), room, step, perSecond)))
	}
	return lines
}

func (p Plot) legend(step time.Duration) []string {
	what := "calls in the second up to then"
	if p.Flight {
		what = "calls in flight"
	}
	return []string{
		fmt.Sprintf("columns: %s; the cap is %d", what, p.Cap),
		fmt.Sprintf("digits:  calls that arrived in each %d ms%s", step.Milliseconds(), p.Notes),
	}
}

// step is the time of a column: 100 ms, or more where the plot would get too long.
func (p Plot) step(room int) time.Duration {
	first, last := p.span()
	for _, step := range []time.Duration{100, 200, 500} {
		step *= time.Millisecond
		if int((last-first)/step) < maxPanels*room {
			return step
		}
	}
	return time.Second
}

func (p Plot) span() (first, last time.Duration) {
	first, last = p.Calls[0].At, p.Calls[0].At
	for _, c := range p.Calls {
		first, last = min(first, c.At), max(last, c.At)
	}
	return first.Truncate(time.Second), last
}

// panelRoom is how many columns a panel has: whole seconds, about as many in each.
func panelRoom(columns, room, perSecond int) int {
	most := max(1, room/perSecond)
	seconds := (columns + perSecond - 1) / perSecond
	panels := (seconds + most - 1) / most
	return (seconds + panels - 1) / panels * perSecond
}

// columns counts the log.
func (p Plot) columns(step time.Duration) []column {
	first, last := p.span()
	columns := make([]column, (last-first)/step+1)
	at := func(t time.Duration) int { return min(max(0, int((t-first)/step)), len(columns)-1) }
	for _, c := range p.Calls {
		col := &columns[at(c.At)]
		col.calls++
		if c.Refused {
			col.refused++
		}
		if p.Flight {
			col.level = max(col.level, c.inFlight())
		}
	}
	if !p.Flight {
		for i := range columns {
			end := first + time.Duration(i+1)*step
			columns[i].level = highest(p.Calls, end-step, end)
		}
	}
	for t, mark := range p.Marks {
		columns[at(t)].mark = mark
	}
	return columns
}

// highest is the largest number of calls in a window that ends from from on and
// before to.
func highest(calls []Call, from, to time.Duration) int {
	most := 0
	count := func(end time.Duration) {
		n := 0
		for _, c := range calls {
			if c.At <= end && end-c.At < Window {
				n++
			}
		}
		most = max(most, n)
	}
	count(from) // it only grows where a call arrives
	for _, c := range calls {
		if c.At >= from && c.At < to {
			count(c.At)
		}
	}
	return most
}

// height is how many rows lead up to the cap.
func (p Plot) height() int { return min(plotHeight, p.Cap) }

// label is what stands left of a row: the number of calls at its upper edge.
func (p Plot) label(row int) string {
	if p.Cap*row%p.height() != 0 {
		return ""
	}
	return fmt.Sprint(p.Cap * row / p.height())
}

// row draws one row of the columns; the highest ends at the cap.
func (p Plot) row(panel []column, row int) string {
	var b strings.Builder
	for _, c := range panel {
		height := min(c.level, p.Cap) * p.height() * 8 / p.Cap // in eighths
		b.WriteRune(eighths[min(max(height-(row-1)*8, 0), 8)])
	}
	return b.String()
}

// overRow marks the columns above the cap.
func overRow(panel []column, cap int) string {
	var b strings.Builder
	for _, c := range panel {
		if c.level > cap {
			b.WriteRune('█')
		} else {
			b.WriteRune(' ')
		}
	}
	return b.String()
}

// axis has a tick at every second, and the marks.
func axis(panel []column, perSecond int) string {
	var b strings.Builder
	for i, c := range panel {
		switch {
		case c.mark != 0:
			b.WriteRune(c.mark)
		case i%perSecond == 0:
			b.WriteRune('┬')
		default:
			b.WriteRune('─')
		}
	}
	return b.String()
}

// digits are the calls in each column's time: a dot for none, and + for more
// than nine. A column with a refused call is painted.
func digits(panel []column, paint func(style, text string) string) string {
	var b strings.Builder
	for _, c := range panel {
		digit := "·"
		switch {
		case c.calls > 9:
			digit = "+"
		case c.calls > 0:
			digit = fmt.Sprint(c.calls)
		}
		switch {
		case c.refused > 0:
			digit = paint("bad", digit)
		case c.calls == 0:
			digit = paint("dim", digit)
		}
		b.WriteString(digit)
	}
	return b.String()
}

// seconds are the times below the axis, as far as there is room for them.
func seconds(from, n, room int, step time.Duration, perSecond int) string {
	every := perSecond
	for every < 8 {
		every *= 5
	}
	line := ""
	for i := 0; i < n; i += every {
		label := fmt.Sprintf("%d s", int((time.Duration(from+i) * step).Seconds()))
		if i+len(label) <= max(room, 8) {
			line += strings.Repeat(" ", i-len(line)) + label
		}
	}
	return line
}
