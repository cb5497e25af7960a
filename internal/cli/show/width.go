package show

import (
	"strings"
	"unicode"
)

// Text makes a text from elsewhere safe to print on one line. It may hold control
// characters, which terminals obey, and marks that reverse what stands around them
// or cannot be seen, by which one text passes for another.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if Unsafe(r) {
			return '?'
		}
		return r
	}, s)
}

// Unsafe says whether a character is none that Text prints.
func Unsafe(r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f:
		return false
	case r == zeroWidthJoiner, r == zeroWidthNonJoiner, r == softHyphen: // parts of words and of emoji
		return false
	case r >= 0x0600 && r <= 0x08e2: // signs of Arabic and Syriac, which can be seen
		return r == 0x061c
	}
	return r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

const (
	softHyphen         = 0x00ad
	zeroWidthNonJoiner = 0x200c
	zeroWidthJoiner    = 0x200d
)

// TextLines makes each line of a text safe to print.
func TextLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Text(line)
	}
	return strings.Join(lines, "\n")
}

// Width is how many columns a terminal takes for a text.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

// columns is 2 for what East Asian scripts and emoji take, and 0 for what is put
// on the character before it.
func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.Is(wide, r):
		return 2
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	return 1
}

// wide are the characters of the widths W and F of Unicode's annex 11, the rarest
// left out.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x231a, Hi: 0x231b, Stride: 1}, {Lo: 0x23e9, Hi: 0x23ec, Stride: 1},
		{Lo: 0x25fd, Hi: 0x25fe, Stride: 1}, {Lo: 0x2614, Hi: 0x2615, Stride: 1}, {Lo: 0x2648, Hi: 0x2653, Stride: 1},
		{Lo: 0x26a1, Hi: 0x26a1, Stride: 1}, {Lo: 0x26aa, Hi: 0x26ab, Stride: 1}, {Lo: 0x26d4, Hi: 0x26d4, Stride: 1},
		{Lo: 0x2705, Hi: 0x2705, Stride: 1}, {Lo: 0x270a, Hi: 0x270b, Stride: 1}, {Lo: 0x2728, Hi: 0x2728, Stride: 1},
		{Lo: 0x274c, Hi: 0x274c, Stride: 1}, {Lo: 0x274e, Hi: 0x274e, Stride: 1}, {Lo: 0x2753, Hi: 0x2755, Stride: 1},
		{Lo: 0x2757, Hi: 0x2757, Stride: 1}, {Lo: 0x2795, Hi: 0x2797, Stride: 1}, {Lo: 0x2b1b, Hi: 0x2b1c, Stride: 1},
		{Lo: 0x2b50, Hi: 0x2b50, Stride: 1}, {Lo: 0x2b55, Hi: 0x2b55, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1},
		{Lo: 0x3041, Hi: 0xa4cf, Stride: 1}, {Lo: 0xa960, Hi: 0xa97f, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe10, Hi: 0xfe19, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff01, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x16fe0, Hi: 0x18d08, Stride: 1}, {Lo: 0x1aff0, Hi: 0x1b2fb, Stride: 1}, {Lo: 0x1f004, Hi: 0x1f004, Stride: 1},
		{Lo: 0x1f0cf, Hi: 0x1f0cf, Stride: 1}, {Lo: 0x1f18e, Hi: 0x1f18e, Stride: 1}, {Lo: 0x1f191, Hi: 0x1f19a, Stride: 1},
		{Lo: 0x1f200, Hi: 0x1f320, Stride: 1}, {Lo: 0x1f32d, Hi: 0x1f5ff, Stride: 1}, {Lo: 0x1f600, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f7e0, Hi: 0x1f7eb, Stride: 1}, {Lo: 0x1f900, Hi: 0x1f9ff, Stride: 1},
		{Lo: 0x1fa70, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// head is as much of a text as fits into a width, and how many columns that takes.
func head(text string, width int) (string, int) {
	n := 0
	for i, r := range text {
		w := columns(r)
		if n+w > width {
			return text[:i], n
		}
		n += w
	}
	return text, n
}
