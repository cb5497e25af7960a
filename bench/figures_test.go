package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Overlapping pauses count once, and only within the time looked at.
func TestLength(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		spans []span
		want  time.Duration
	}{
		{nil, 0},
		{[]span{{1 * s, 2 * s}}, s},
		{[]span{{3 * s, 5 * s}, {1 * s, 4 * s}, {2 * s, 3 * s}}, 4 * s},
		{[]span{{-2 * s, 1 * s}, {9 * s, 12 * s}}, 2 * s},
		{[]span{{11 * s, 12 * s}}, 0},
	} {
		if got := length(c.spans, span{0, 10 * s}); got != c.want {
			t.Errorf("length(%v) = %v, want %v", c.spans, got, c.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i)*time.Millisecond)
	}
	for p, want := range map[float64]float64{1: 1, 50: 50, 99: 99, 100: 100} {
		if got := percentile(all, p); got != want {
			t.Errorf("percentile %v = %v, want %v", p, got, want)
		}
	}
	if got := percentile([]time.Duration{7 * time.Millisecond}, 99); got != 7 {
		t.Errorf("percentile of one value = %v, want 7", got)
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("median of three = %v, want 2", got)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median of four = %v, want 2.5", got)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.4321: "0.432", 12.345: "12.3", 100: "100", 1234567.8: "1,234,568", -4321: "-4,321"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

// A ratio is taken round by round; a goal that is missed is said.
func TestReport(t *testing.T) {
	l := &lab{scenario: "drain", report: &report{Machine: &host{}, Rounds: 2}}
	for _, v := range []float64{10, 30} {
		l.add("a", "jobs/s", v)
	}
	for _, v := range []float64{5, 10} {
		l.add("b", "jobs/s", v)
	}
	l.ratio("a ÷ b", "a", "b")
	l.atLeast("a ÷ b", 2.5)
	l.atMost("a", 19)
	doc := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(doc, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.report.replaceIn(doc); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n", "after\n", "|  | a ÷ b | 2.5 | 2 – 3 | × | ≥ 2.5 | met |", "| drain | a | 20 | 10 – 30 | jobs/s | ≤ 19 | **missed** |", "Goals missed: 1"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the document lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "old") {
		t.Errorf("the old table is still there:\n%s", got)
	}
	if err := l.report.replaceIn(doc); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestChoose(t *testing.T) {
	if got, err := choose("drain, keys"); err != nil || len(got) != 2 || got[1].name != "keys" {
		t.Errorf("choose = %v, %v", got, err)
	}
	if _, err := choose("nonsense"); err == nil {
		t.Error("a scenario that is not there was chosen")
	}
}
