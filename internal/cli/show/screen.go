// Package show prints what commands list: tables and facts for people, JSON
// lines for programs.
package show

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Screen is where a command prints.
type Screen struct {
	io.Writer
	Width   int  // of the terminal, in columns; 0: none, and nothing is cut
	Unicode bool // it shows more than ASCII
}

// On returns the screen that w is.
func On(w io.Writer) *Screen {
	s := &Screen{Writer: w, Unicode: speaksUnicode()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.Width = 80
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			s.Width = n
		}
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

// Cut shortens a text to a width in columns. Width 0: not at all.
func (s *Screen) Cut(text string, width int) string {
	if width <= 0 {
		return text
	}
	mark := "…"
	if !s.Unicode {
		mark = "..."
	}
	return Cut(text, width, mark)
}

// Cut shortens a text to a width in columns, the mark that stands for the rest
// included.
func Cut(text string, width int, mark string) string {
	if Width(text) <= width {
		return text
	}
	if keep := width - Width(mark); keep >= 0 {
		text, _ = head(text, keep)
		return text + mark
	}
	text, _ = head(text, max(width, 0))
	return text
}
