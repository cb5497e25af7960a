package show

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Facts are names with a text each, as in a page about one thing.
type Facts struct {
	facts [][2]string
}

// Add adds a fact. One without a text is left out; a further line of the fact
// before has no name.
func (f *Facts) Add(name, text string) {
	if text != "" {
		f.facts = append(f.facts, [2]string{name, Text(text)})
	}
}

// Print writes a line for each fact. Long ones are broken between words.
func (f *Facts) Print(s *Screen) error {
	names := 0
	for _, p := range f.facts {
		names = max(names, utf8.RuneCountInString(p[0]))
	}
	indent := strings.Repeat(" ", names+gap)
	var b strings.Builder
	for _, p := range f.facts {
		b.WriteString(p[0] + indent[:len(indent)-utf8.RuneCountInString(p[0])])
		room := 0
		if s.Width > 0 {
			room = max(s.Width-len(indent), 20)
		}
		b.WriteString(strings.Join(Wrap(p[1], room), "\n"+indent) + "\n")
	}
	_, err := io.WriteString(s, b.String())
	return err
}

// Wrap breaks a text into lines of a width, between words where it can. Width
// 0: one line.
func Wrap(text string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := []rune{}
	for _, word := range strings.Split(text, " ") {
		w := []rune(word)
		if len(line) > 0 && len(line)+1+len(w) > width {
			lines, line = append(lines, string(line)), line[:0]
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		line = append(line, w...)
		for len(line) > width {
			lines, line = append(lines, string(line[:width])), line[width:]
		}
	}
	return append(lines, string(line))
}
