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
	l := &lab{on: onPostgres, scenario: "drain", report: &report{Machine: &host{}, Rounds: 2}}
	for _, v := range []float64{10, 30} {
		l.add("a", "jobs/s", v)
	}
	for _, v := range []float64{5, 10} {
		l.add("b", "jobs/s", v)
	}
	l.ratio("a ÷ b", "a", "b")
	l.atLeast("a ÷ b", 2.5)
	l.atMost("a", 19)
	begin, end := marks(onPostgres)
	doc := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(doc, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600); err != nil {
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
	if got, err := choose("postgres"); err != nil || len(got) < 2 || got[0].on != onPostgres || got[len(got)-1].on != onPostgres {
		t.Errorf("choose of all on PostgreSQL = %v, %v", got, err)
	}
	if _, err := choose("nonsense"); err == nil {
		t.Error("a scenario that is not there was chosen")
	}
}

// A table holds the figures of its kind of database alone, and a run on one kind
// leaves the other one's table in a document as it is.
func TestTablesAreApart(t *testing.T) {
	l := &lab{report: &report{Machine: &host{}, Rounds: 1, Server: "15.1"}}
	l.on, l.scenario = onPostgres, "pg-drain"
	l.add("on a server", "jobs/s", 1)
	begin, end := marks(onPostgres)
	otherBegin, otherEnd := marks(onSQLite)
	doc := filepath.Join(t.TempDir(), "doc.md")
	other := otherBegin + "kept\n" + otherEnd + "\n"
	if err := os.WriteFile(doc, []byte(other+begin+end), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.report.replaceIn(doc); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(doc)
	if err != nil || !strings.HasPrefix(string(got), other) || !strings.Contains(string(got), "PostgreSQL 15.1") || !strings.Contains(string(got), "on a server") {
		t.Errorf("%v: the document is\n%s", err, got)
	}
	l.on, l.scenario = onSQLite, "drain"
	l.add("on a file", "jobs/s", 2)
	var table strings.Builder
	if err := l.report.writeTable(&table, onSQLite); err != nil {
		t.Fatal(err)
	}
	if s := table.String(); !strings.Contains(s, "on a file") || strings.Contains(s, "on a server") {
		t.Errorf("the table of files is\n%s", s)
	}
}

// A process's name may look like fields.
func TestParseStat(t *testing.T) {
	got := parseStat("4711 (post) S 9 gres) S 42 4711 4711 0 -1 4194560 5 6 7 8 150 50 1000 500 20 0 1 0 900 1 2")
	want := procStat{name: "post) S 9 gres", parent: 42, own: 2 * time.Second, waited: 15 * time.Second, present: true}
	if got != want {
		t.Errorf("parseStat = %+v, want %+v", got, want)
	}
	if got := parseStat("4711 (cut"); got.present {
		t.Errorf("half a line was read: %+v", got)
	}
}

// What cannot be seen costs nothing, and stops nobody.
func TestServerOutOfSight(t *testing.T) {
	if got := serverCPU(0); got != 0 {
		t.Errorf("a server elsewhere used %v", got)
	}
	if got := parentOf(os.Getpid()); got != 0 {
		t.Errorf("this process is taken for a backend of %d", got)
	}
}
