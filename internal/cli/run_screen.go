package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/penstockhq/penstock/internal/cli/progress"
	"github.com/penstockhq/penstock/internal/cli/show"
)

const (
	drawEvery = 200 * time.Millisecond // on a terminal
	sayEvery  = 5 * time.Second        // elsewhere
)

// screen is where people read: standard error. On a terminal it keeps a display
// at the bottom.
type screen struct {
	w       io.Writer
	quiet   bool
	term    *progress.Terminal // nil: not a terminal
	file    *os.File
	unicode bool
	said    time.Time // when a plain line was last printed
}

func newScreen(w io.Writer, quiet bool) *screen {
	s := &screen{w: w, quiet: quiet, said: time.Now()}
	if f, ok := w.(*os.File); ok && !quiet && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.file, s.term, s.unicode = f, progress.NewTerminal(f), speaksUnicode()
	}
	return s
}

// speaksUnicode goes by the locale, as terminals do.
func speaksUnicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// Write prints text above the display. It is safe for concurrent use.
func (s *screen) Write(text []byte) (int, error) {
	if s.term != nil {
		return s.term.Write(text)
	}
	return s.w.Write(text)
}

// say prints a line that is no error.
func (s *screen) say(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintf(s, "penstock: %s\n", show.TextLines(fmt.Sprintf(format, args...)))
	}
}

// show shows how the run stands: at once on a terminal, now and then elsewhere.
func (s *screen) show(snap *progress.Snapshot) {
	switch {
	case s.quiet:
	case s.term != nil:
		w := s.width()
		s.term.Draw(snap.Lines(w-1, s.unicode), w) // some terminals wrap when the last column is written
	case time.Since(s.said) >= sayEvery:
		s.said = time.Now()
		s.say("%s", snap.Plain())
	}
}

// tell says a text as it is.
func (s *screen) tell(text string) { s.say("%s", text) }

// loading shows that a file is being read, and what is wrong if anything is.
func (s *screen) loading(file string, lines int64, trouble string) {
	text := fmt.Sprintf("reading %s: %s lines", file, progress.Digits(lines))
	if trouble != "" {
		text += ", " + trouble
	}
	switch {
	case s.quiet:
	case s.term != nil:
		w := s.width()
		s.term.Draw([]string{progress.Cut(text, w-1)}, w)
	case time.Since(s.said) >= sayEvery:
		s.said = time.Now()
		s.say("%s", text)
	}
}

func (s *screen) width() int {
	w, _, err := term.GetSize(int(s.file.Fd()))
	if err != nil || w < 1 {
		return 80
	}
	return w
}

// clear takes the display away until it is shown again.
func (s *screen) clear() {
	if s.term != nil {
		s.term.Clear()
	}
}

func (s *screen) close() { s.clear() }
