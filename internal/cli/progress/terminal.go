package progress

import (
	"io"
	"strings"
	"sync"

	"github.com/penstockhq/penstock/internal/cli/show"
)

// Terminal keeps a few lines at the bottom of a terminal, below what else is
// printed through it. It is safe for concurrent use.
type Terminal struct {
	mu    sync.Mutex
	w     io.Writer
	lines []string // that are on the screen
	width int      // of the terminal when they were drawn
}

// NewTerminal draws on w.
func NewTerminal(w io.Writer) *Terminal { return &Terminal{w: w} }

// Sequences of ECMA-48 and of xterm. While autowrap is off, a line that is too
// long, because the window has just become narrower, is cut by the terminal.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
	lineUp     = "\x1b[A"
	clearRight = "\x1b[K"
	clearDown  = "\x1b[J"
)

// Draw replaces the lines. It is one write, so that nothing flickers. Width is
// that of the terminal now: one that has become narrower has broken the lines
// that are on it.
func (t *Terminal) Draw(lines []string, width int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.width = width
	_ = t.draw("", lines)
}

// Write prints above the lines. What it is given should end a line.
func (t *Terminal) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return t.w.Write(text)
	}
	return len(text), t.draw(string(text), t.lines)
}

// Clear takes the lines away and gives the cursor back.
func (t *Terminal) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) > 0 {
		_ = t.draw("", nil)
	}
}

// rows is how many rows of the terminal the lines take.
func (t *Terminal) rows() int {
	n := 0
	for _, l := range t.lines {
		n++
		if t.width > 0 {
			n += max(show.Width(l)-1, 0) / t.width
		}
	}
	return n
}

func (t *Terminal) draw(above string, lines []string) error {
	var b strings.Builder
	b.WriteString(hideCursor + wrapOff)
	if n := t.rows(); n > 0 {
		b.WriteString("\r" + strings.Repeat(lineUp, n))
	}
	if above != "" {
		b.WriteString(clearDown + wrapOn + strings.TrimSuffix(above, "\n") + "\n" + wrapOff)
	}
	for _, l := range lines {
		b.WriteString("\r" + l + clearRight + "\n")
	}
	b.WriteString(clearDown + wrapOn)
	if len(lines) == 0 {
		b.WriteString(showCursor)
	}
	t.lines = lines
	_, err := io.WriteString(t.w, b.String())
	return err
}
