package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/penstockhq/penstock/apisim"
)

// logAt is a log with calls at the given instants, in milliseconds.
func logAt(ms ...int) []Call {
	var calls []Call
	for _, m := range ms {
		calls = append(calls, at(m, 1, "m-1"))
	}
	return calls
}

func TestPlot_Golden(t *testing.T) {
	paced := func(n, step int) (ms []int) {
		for i := range n {
			ms = append(ms, 300+i*step)
		}
		return ms
	}
	flight := logAt(0, 100, 200, 900)
	for i := range flight {
		flight[i].InFlight = i + 1
	}
	plots := map[string]Plot{
		"paced":  {Calls: logAt(paced(30, 210)...), Cap: 5, Width: 60, Marks: map[time.Duration]rune{2100 * time.Millisecond: 'K'}},
		"over":   {Calls: logAt(100, 110, 120, 130, 140, 150, 160, 1250, 2700), Cap: 3, Width: 80},
		"wide":   {Calls: logAt(paced(30, 21)...), Cap: 50, Width: 80},
		"flight": {Calls: flight, Cap: 4, Width: 80, Flight: true},
		"empty":  {Cap: 4, Width: 80},
	}
	for name, p := range plots {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(p.Lines(), "\n") + "\n"
			golden := filepath.Join("testdata", name+".plot")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v; to write it: UPDATE_GOLDEN=1 go test", err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// The plot keeps to its paper, however long the log and narrow the paper.
func TestPlot_KeepsToItsWidth(t *testing.T) {
	for _, seconds := range []int{1, 5, 20, 100, 600} {
		var ms []int
		for i := range seconds * 5 {
			ms = append(ms, i*200)
		}
		for _, width := range []int{40, 60, 80, 100, 200} {
			lines := Plot{Calls: logAt(ms...), Cap: 5, Width: width}.Lines()
			if n := len(lines); seconds <= 100 && width >= 60 && n > 2+maxPanels*(plotHeight+4) {
				t.Errorf("%d s on %d columns: %d lines", seconds, width, n)
			}
			for _, line := range lines[2:] { // below the legend
				if n := utf8.RuneCountInString(line); n > width {
					t.Fatalf("%d s on %d columns: a line has %d:\n%s", seconds, width, n, line)
				}
			}
		}
	}
}

// Each call of the log is in the digits once.
func TestPlot_CountsEveryCall(t *testing.T) {
	calls := logAt(0, 50, 99, 100, 199, 1000, 1999)
	columns := Plot{Calls: calls, Cap: 5}.columns(100 * time.Millisecond)
	got := map[int]int{}
	for i, c := range columns {
		if c.calls > 0 {
			got[i] = c.calls
		}
	}
	for i, want := range map[int]int{0: 3, 1: 2, 10: 1, 19: 1} {
		if got[i] != want {
			t.Errorf("column %d has %d calls, want %d", i, got[i], want)
		}
	}
	if len(got) != 4 {
		t.Errorf("columns with calls: %v", got)
	}
	if level := columns[9].level; level != 5 {
		t.Errorf("in the second up to 1.0 s there were %d calls, want 5", level)
	}
	var highest int
	for _, c := range columns {
		highest = max(highest, c.level)
	}
	var log []apisim.Call
	for _, c := range calls {
		log = append(log, c.Call)
	}
	if want := apisim.FullestWindow(log, Window); highest != want {
		t.Errorf("the highest column has %d, the fullest window %d", highest, want)
	}
}
