package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// few lists some names of many.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// wrap breaks a text at spaces into lines of a width; all but the first are indented.
func wrap(text string, width, indent int) string {
	var b strings.Builder
	used := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}

// cut shortens a line to a width in characters.
func cut(line string, width int) string {
	r := []rune(line)
	if len(r) <= max(width, 10) {
		return line
	}
	return strings.TrimRight(string(r[:max(width, 10)-1]), " ") + "…"
}
