package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A report is all figures of one run of the program.
type report struct {
	At      time.Time `json:"at"`
	Machine *host     `json:"machine"`
	Rounds  int       `json:"rounds"`
	Quick   bool      `json:"quick,omitempty"`
	Server  string    `json:"server,omitempty"` // PostgreSQL's version
	Figures []*figure `json:"figures"`
}

// A figure is one quantity, with a value per round.
type figure struct {
	On       string    `json:"on"` // the kind of database
	Scenario string    `json:"scenario"`
	Name     string    `json:"name"`
	Unit     string    `json:"unit"`
	Median   float64   `json:"median"`
	Values   []float64 `json:"values"`
	Sign     string    `json:"sign,omitempty"` // of the goal: ≥ or ≤, or empty for none
	Goal     float64   `json:"goal,omitempty"`
}

// figure returns the figure of that name, which is made if it is not there.
func (r *report) figure(scenario, name, unit string) *figure {
	if f := r.find(scenario, name); f != nil {
		return f
	}
	f := &figure{Scenario: scenario, Name: name, Unit: unit}
	r.Figures = append(r.Figures, f)
	return f
}

func (r *report) find(scenario, name string) *figure {
	for _, f := range r.Figures {
		if f.Scenario == scenario && f.Name == name {
			return f
		}
	}
	return nil
}

func (f *figure) add(v float64) {
	f.Values = append(f.Values, v)
	f.Median = median(f.Values)
}

// met says whether the median reaches the goal.
func (f *figure) met() bool {
	if f.Sign == "≤" {
		return f.Median <= f.Goal
	}
	return f.Median >= f.Goal
}

// kinds are those of the databases that there are figures of.
func (r *report) kinds() (on []string) {
	for _, f := range r.Figures {
		if !slices.Contains(on, f.On) {
			on = append(on, f.On)
		}
	}
	return on
}

// writeMarkdown prints a table for each kind of database.
func (r *report) writeMarkdown(w io.Writer) error {
	for i, on := range r.kinds() {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := r.writeTable(w, on); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) writeTable(w io.Writer, on string) error {
	var b strings.Builder
	b.WriteString(r.Machine.describe(on))
	if on == onPostgres {
		fmt.Fprintf(&b, ", PostgreSQL %s", r.Server)
	}
	fmt.Fprintf(&b, "\n\n%s; medians of %d rounds", r.At.Format(time.RFC3339), r.Rounds)
	if r.Quick {
		b.WriteString("; a quick run, whose figures mean little")
	}
	b.WriteString("\n\n| scenario | figure | median | min – max | unit | goal | |\n| --- | --- | ---: | ---: | --- | ---: | --- |\n")
	last, missed := "", 0
	for _, f := range r.Figures {
		if f.On != on {
			continue
		}
		scenario, goal, verdict := f.Scenario, "", ""
		if scenario == last {
			scenario = ""
		}
		last = f.Scenario
		if f.Sign != "" {
			goal, verdict = f.Sign+" "+number(f.Goal), "met"
			if !f.met() {
				verdict = "**missed**"
				missed++
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s – %s | %s | %s | %s |\n", scenario, f.Name, number(f.Median),
			number(slices.Min(f.Values)), number(slices.Max(f.Values)), f.Unit, goal, verdict)
	}
	fmt.Fprintf(&b, "\nGoals missed: %d\n", missed)
	_, err := io.WriteString(w, b.String())
	return err
}

// marks are the lines around the table of a kind of database in a document.
func marks(on string) (begin, end string) {
	return "<!-- table " + on + ": begin -->\n", "<!-- table " + on + ": end -->"
}

// replaceIn puts the tables into a document, between their marks.
func (r *report) replaceIn(path string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(old)
	for _, on := range r.kinds() {
		begin, end := marks(on)
		head, rest, begun := strings.Cut(text, begin)
		_, tail, ended := strings.Cut(rest, end)
		if !begun || !ended {
			return fmt.Errorf("%s: expected the lines %q and %q", path, strings.TrimSpace(begin), end)
		}
		var table strings.Builder
		if err := r.writeTable(&table, on); err != nil {
			return err
		}
		text = head + begin + "\n" + table.String() + "\n" + end + tail
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// number prints three significant digits, and thousands with commas.
func number(v float64) string {
	if math.Abs(v) < 100 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if v < 0 {
		return "-" + digits
	}
	return digits
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// percentile returns the p-th percentile (nearest rank) in milliseconds; it sorts all.
func percentile(all []time.Duration, p float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	rank := int(math.Ceil(p / 100 * float64(len(all))))
	return milliseconds(all[min(max(rank, 1), len(all))-1])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
