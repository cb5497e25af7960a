package show

import (
	"io"
	"strings"
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
		names = max(names, Width(p[0]))
	}
	indent := strings.Repeat(" ", names+gap)
	var b strings.Builder
	for _, p := range f.facts {
		b.WriteString(p[0] + indent[:len(indent)-Width(p[0])])
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
	if width <= 0 || Width(text) <= width {
		return []string{text}
	}
	var lines []string
	line, used := "", 0
	for i, word := range strings.Split(text, " ") {
		w := Width(word)
		if i > 0 && used > 0 && used+1+w > width {
			lines, line, used = append(lines, line), "", 0
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+w
		for used > width {
			part, n := head(line, width)
			if part == "" { // one character is wider than the line
				break
			}
			lines, line, used = append(lines, part), line[len(part):], used-n
		}
	}
	return append(lines, line)
}
