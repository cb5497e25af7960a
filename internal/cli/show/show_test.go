package show

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTableFitsAndLeavesEmptyColumnsOut(t *testing.T) {
	table := &Table{Columns: []Column{{Name: "name"}, {Name: "n", Right: true}, {Name: "none"}, {Name: "why", Flex: true}}}
	table.Add("a", "5", "", "short")
	table.Add("long name", "1,000", "", "a text that is much too long for this screen\x1b[31m")
	for _, tt := range []struct {
		width   int
		unicode bool
		want    string
	}{
		{0, true, "NAME           N  WHY\na              5  short\nlong name  1,000  a text that is much too long for this screen?[31m\n"},
		{40, true, "NAME           N  WHY\na              5  short\nlong name  1,000  a text that is much t…\n"},
		{40, false, "NAME           N  WHY\na              5  short\nlong name  1,000  a text that is much...\n"},
		{10, true, "NAME           N  WHY\na              5  short\nlong name  1,000  a text …\n"},
	} {
		var b bytes.Buffer
		if err := table.Print(&Screen{Writer: &b, Width: tt.width, Unicode: tt.unicode}); err != nil {
			t.Fatal(err)
		}
		if b.String() != tt.want {
			t.Errorf("width %d:\n%s\nexpected:\n%s", tt.width, b.String(), tt.want)
		}
	}
}

func TestFactsAreBrokenBetweenWords(t *testing.T) {
	var f Facts
	f.Add("spec", "5/s")
	f.Add("nothing", "")
	f.Add("because", "one two three four five six seven")
	f.Add("", "more")
	var b bytes.Buffer
	if err := f.Print(&Screen{Writer: &b, Width: 30}); err != nil {
		t.Fatal(err)
	}
	want := "spec     5/s\nbecause  one two three four\n         five six seven\n         more\n"
	if b.String() != want {
		t.Errorf("got:\n%s\nexpected:\n%s", b.String(), want)
	}
}

func TestWrapKeepsEveryWordAndTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zé ]{0,80}`).Draw(t, "text")
		width := rapid.IntRange(1, 30).Draw(t, "width")
		lines := Wrap(text, width)
		for _, l := range lines {
			if utf8.RuneCountInString(l) > width {
				t.Fatalf("line %q is wider than %d", l, width)
			}
		}
		bare := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := bare(strings.Join(lines, "")); got != bare(text) {
			t.Fatalf("got %q of %q", got, text)
		}
	})
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                   "0ms",
		350 * time.Millisecond:              "350ms",
		4200 * time.Millisecond:             "4.2s",
		9990 * time.Millisecond:             "10s",
		59*time.Second + 600e6:              "1m",
		200 * time.Second:                   "3m20s",
		time.Hour - time.Millisecond:        "1h",
		125 * time.Minute:                   "2h5m",
		24*time.Hour - time.Second:          "1d",
		76 * time.Hour:                      "3d4h",
		-3 * time.Second:                    "-3.0s",
		365 * 24 * time.Hour:                "365d",
		2*time.Hour + 29*time.Second:        "2h",
		30*time.Minute + time.Second*31:     "30m31s",
		48*time.Hour + 59*time.Minute + 5e9: "2d",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %q, expected %q", time.Duration(d), got, want)
		}
	}
}

func TestJSONLines(t *testing.T) {
	var b bytes.Buffer
	v := struct {
		At    Time    `json:"at"`
		None  Time    `json:"none"`
		Never Time    `json:"never"`
		For   Seconds `json:"for_seconds"`
		Text  string  `json:"text"`
	}{Time(time.Date(2026, 1, 2, 3, 4, 5, 600_000, time.UTC).UnixMicro()), 0, never, Seconds(1500 * time.Millisecond), "<&>"}
	if err := NewLines(&b).Print(v); err != nil {
		t.Fatal(err)
	}
	want := `{"at":"2026-01-02T03:04:05.000600Z","none":null,"never":"never","for_seconds":1.5,"text":"<&>"}` + "\n"
	if b.String() != want {
		t.Errorf("got %s expected %s", b.String(), want)
	}
}

func TestSparkline(t *testing.T) {
	values := []int64{0, 1, 50, 100}
	if got := (&Screen{Unicode: true}).Sparkline(values); got != "·▁▄█" {
		t.Errorf("got %q", got)
	}
	if got := (&Screen{}).Sparkline(values); got != "._+#" {
		t.Errorf("got %q", got)
	}
	if got := (&Screen{}).Sparkline([]int64{0, 0}); got != ".." {
		t.Errorf("got %q", got)
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		Number(-1234567): "-1,234,567", Number(12): "12", Some(0): "", Count(1, "job"): "1 job", Count(2000, "job"): "2,000 jobs",
		Bytes(1023): "1023 B", Bytes(3 << 20): "3.0 MiB", Bytes(5 << 40): "5.0 TiB",
	} {
		if got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 5, 5, 12, 0, 0, 0, time.Local)
	us := now.UnixMicro()
	for at, want := range map[int64]string{
		0: "", never: "never",
		now.Add(200 * time.Second).UnixMicro():  "12:03:20 (in 3m20s)",
		now.Add(-200 * time.Second).UnixMicro(): "11:56:40 (3m20s ago)",
		now.AddDate(0, 0, 1).UnixMicro():        "2026-05-06 12:00:00 (in 1d)",
	} {
		if got := When(us, at); got != want {
			t.Errorf("%d: %q, expected %q", at, got, want)
		}
	}
	// Farther than durations go, it must not come out as the past.
	far := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMicro()
	if d := Between(us, far); d < 100*365*24*time.Hour {
		t.Errorf("until the year 9999: %v", d)
	}
	if d := Between(far, us); d > -100*365*24*time.Hour {
		t.Errorf("since the year 9999: %v", d)
	}
	if got := Age(us, us-5_000_000); got != "5.0s" {
		t.Errorf("age %q", got)
	}
}

// An API's answer may hold what terminals obey (C1 controls, too), what reverses
// the text around it, and what cannot be seen.
func TestTextFromAnAPICannotSteerATerminal(t *testing.T) {
	got := Text("\x1b[2J \u009b31m a\u202egnp.exe\u2066b \u2028 \u200bz\ufeff\U000e0041 \xff\x7f")
	if want := "?[2J ?31m a?gnp.exe?b ? ?z?? ??"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	for _, whole := range []string{"naïve café", "美国的日本語", "👩\u200d💻", "می\u200cخواهم", "co\u00adop"} {
		if got := Text(whole); got != whole {
			t.Errorf("%q became %q", whole, got)
		}
	}
	var b bytes.Buffer
	if err := NewLines(&b).Print(map[string]string{"error": "a\u009bb\x7f\u007f\u0085c"}); err != nil {
		t.Fatal(err)
	}
	if want := `{"error":"a\u009bb\u007f\u007f\u0085c"}` + "\n"; b.String() != want {
		t.Errorf("got %s expected %s", b.String(), want)
	}
}

// What East Asian scripts take on a terminal is two columns.
func TestWideCharactersKeepColumnsInLineAndOnTheScreen(t *testing.T) {
	table := &Table{Columns: []Column{{Name: "queue", Flex: true}, {Name: "n"}}}
	table.Add("美国的队列", "1")
	table.Add("cafe\u0301", "2")
	table.Add("😀 ok", "3")
	for width, want := range map[int]string{
		0:  "QUEUE       N\n美国的队列  1\ncafe\u0301        2\n😀 ok       3\n",
		12: "QUEUE      N\n美国的队…  1\ncafe\u0301       2\n😀 ok      3\n",
	} {
		var b bytes.Buffer
		if err := table.Print(&Screen{Writer: &b, Width: width, Unicode: true}); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("width %d:\n%s\nexpected:\n%s", width, b.String(), want)
		}
	}
	for _, line := range Wrap("美国的日本語 and 😀😀😀😀 more", 7) {
		if Width(line) > 7 {
			t.Errorf("%q takes %d columns", line, Width(line))
		}
	}
}
