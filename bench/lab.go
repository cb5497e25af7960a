package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A lab is where scenarios are run: settings, a place for files, the report.
type lab struct {
	dir      string
	rounds   int
	quick    bool
	profiles string
	on       string // the kind of database of the scenario under way
	scenario string
	report   *report
	files    int
	server   *server // nil until somebody needs it
}

// close removes what the lab made.
func (l *lab) close() error {
	err := os.RemoveAll(l.dir)
	if l.server != nil {
		err = errors.Join(err, l.server.end())
	}
	return err
}

// place is where a fresh database is, or can be made: what forget removes.
func (l *lab) place(ctx context.Context) (string, error) {
	if l.on == onPostgres {
		return l.database(ctx)
	}
	return l.path("jobs.db")
}

// path returns a file name that was not used before, in a directory of its own.
func (l *lab) path(name string) (string, error) {
	l.files++
	dir := filepath.Join(l.dir, fmt.Sprintf("%04d", l.files))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}

// forget removes what a place of the lab holds.
func (l *lab) forget(place string) {
	remove := func() error { return os.RemoveAll(filepath.Dir(place)) }
	if isDSN(place) {
		remove = func() error { return l.drop(place) }
	}
	if err := remove(); err != nil {
		l.say("%v", err)
	}
}

// pick returns the full size, or the small one of a quick run.
func pick[T any](l *lab, full, quick T) T {
	if l.quick {
		return quick
	}
	return full
}

// say prints a line of progress.
func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%-10s %s\n", l.scenario, fmt.Sprintf(format, args...))
}

// add notes one value of a figure of the scenario under way.
func (l *lab) add(name, unit string, value float64) {
	f := l.report.figure(l.scenario, name, unit)
	f.On = l.on
	f.add(value)
}

// ratio makes a figure of two others, round by round.
func (l *lab) ratio(name, above, below string) {
	a, b := l.report.find(l.scenario, above), l.report.find(l.scenario, below)
	if a == nil || b == nil {
		return
	}
	for i := range min(len(a.Values), len(b.Values)) {
		if b.Values[i] != 0 {
			l.add(name, "×", a.Values[i]/b.Values[i])
		}
	}
}

// atLeast and atMost set what a figure is to reach.
func (l *lab) atLeast(name string, goal float64) { l.goal(name, "≥", goal) }
func (l *lab) atMost(name string, goal float64)  { l.goal(name, "≤", goal) }

func (l *lab) goal(name, sign string, goal float64) {
	if f := l.report.find(l.scenario, name); f != nil {
		f.Sign, f.Goal = sign, goal
	}
}
