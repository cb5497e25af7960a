package engine

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxText bounds error texts and reasons in the store, in bytes.
const maxText = 4096

// clean makes a text fit to be stored and shown: valid UTF-8, no NUL, bounded.
func clean(s string) string {
	full := len(s)
	if full > maxText {
		s = s[:maxText]
		for i := 0; i < utf8.UTFMax && len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]); i++ {
			if r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n <= 1 {
				s = s[:len(s)-1]
			}
		}
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if full > maxText {
		s += fmt.Sprintf("… (%d bytes in all)", full)
	}
	return s
}
