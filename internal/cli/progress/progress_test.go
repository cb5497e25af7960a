package progress_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/penstockhq/penstock/internal/cli/progress"
)

var snapshot = progress.Snapshot{
	Run: "calls.jsonl", Total: 2500, Done: 1230, Dead: 4, Running: 12, Waiting: 1254, Refused: 3,
	Rate: 4.9, Limit: "5/s", Why: "at the limit", Left: 258 * time.Second,
}

func TestLines(t *testing.T) {
	want := []string{
		"calls.jsonl █████████████████▊░░░░░░░░░░░░░░░░░░  49 %  1,234 of 2,500",
		"done 1,230 · dead 4 · running 12 · waiting 1,254 · refused 3",
		"4.9/s of 5/s · 4 min 18 s left · at the limit",
	}
	if got := snapshot.Lines(70, true); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := snapshot.Plain(), "calls.jsonl: 1,234 of 2,500, done 1,230, dead 4, running 12, waiting 1,254, refused 3, 4.9/s of 5/s, 4 min 18 s left, at the limit"; got != want {
		t.Errorf("got      %s\nexpected %s", got, want)
	}
	for _, l := range snapshot.Lines(70, false) {
		if strings.ContainsFunc(l, func(r rune) bool { return r > '~' }) {
			t.Errorf("not plain: %s", l)
		}
	}
}

// No line is wider than the terminal, whatever is on it.
func TestLinesFit(t *testing.T) {
	for width := 1; width < 130; width++ {
		for _, unicode := range []bool{true, false} {
			for _, name := range []string{"a", strings.Repeat("long", 30), "\x1b[31mred\n"} {
				s := snapshot
				s.Run = name
				for _, l := range s.Lines(width, unicode) {
					if n := utf8.RuneCountInString(l); n > width {
						t.Fatalf("%d columns of %d: %s", n, width, l)
					}
					if strings.ContainsAny(l, "\x1b\n") {
						t.Fatalf("control characters in %q", l)
					}
				}
			}
		}
	}
}

func TestText(t *testing.T) {
	for got, want := range map[string]string{
		progress.Digits(0):                         "0",
		progress.Digits(1234567):                   "1,234,567",
		progress.Digits(-1234):                     "-1,234",
		progress.Rate(0):                           "0.0/s",
		progress.Rate(0.05):                        "3.0/m",
		progress.Rate(12.34):                       "12.3/s",
		progress.Rate(12345.6):                     "12,346/s",
		progress.Duration(-1):                      "0 ms",
		progress.Duration(90 * time.Millisecond):   "90 ms",
		progress.Duration(4200 * time.Millisecond): "4.2 s",
		progress.Duration(42 * time.Second):        "42 s",
		progress.Duration(61 * time.Second):        "1 min 1 s",
		progress.Duration(25 * time.Hour):          "25 h 0 min",
		progress.Duration(72 * time.Hour):          "3 days",
		progress.Cut("abcdef", 4):                  "abc…",
		progress.Cut("a\x00b", 4):                  "a?b",
	} {
		if got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
}

// A terminal of a few rows, as far as the display uses one.
type terminal struct {
	rows []string
	at   int
}

func (s *terminal) Write(text []byte) (int, error) {
	rest := string(text)
	row := func() *string {
		for len(s.rows) <= s.at {
			s.rows = append(s.rows, "")
		}
		return &s.rows[s.at]
	}
	col := 0
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "\x1b[A"):
			s.at--
		case strings.HasPrefix(rest, "\x1b[K"):
			*row() = string([]rune(*row())[:col])
		case strings.HasPrefix(rest, "\x1b[J"):
			*row() = string([]rune(*row())[:col])
			s.rows = s.rows[:s.at+1]
		case rest[0] == '\x1b':
		case rest[0] == '\r':
			col = 0
		case rest[0] == '\n':
			s.at, col = s.at+1, 0
		default:
			r, size := utf8.DecodeRuneInString(rest)
			line := []rune(*row())
			if col < len(line) {
				line[col] = r
			} else {
				line = append(line, r)
			}
			*row() = string(line)
			col++
			rest = rest[size:]
			continue
		}
		if rest[0] == '\x1b' {
			rest = rest[strings.IndexAny(rest, "ABCDHJKhl")+1:]
		} else {
			rest = rest[1:]
		}
	}
	return len(text), nil
}

func (s *terminal) String() string { return strings.TrimRight(strings.Join(s.rows, "\n"), "\n") }

func TestTerminalKeepsItsLinesBelowWhatIsPrinted(t *testing.T) {
	screen := &terminal{}
	term := progress.NewTerminal(screen)
	expect := func(want string) {
		t.Helper()
		if got := screen.String(); got != want {
			t.Fatalf("the screen shows\n%s\nexpected\n%s", got, want)
		}
	}
	_, _ = term.Write([]byte("before\n"))
	term.Draw([]string{"first line", "second"}, 80)
	expect("before\nfirst line\nsecond")
	term.Draw([]string{"1st", "2nd, longer", "third"}, 80)
	expect("before\n1st\n2nd, longer\nthird")
	_, _ = term.Write([]byte("a message\n"))
	expect("before\na message\n1st\n2nd, longer\nthird")
	term.Draw([]string{"one"}, 80)
	expect("before\na message\none")
	term.Clear()
	_, _ = term.Write([]byte("after\n"))
	expect("before\na message\nafter")
}
