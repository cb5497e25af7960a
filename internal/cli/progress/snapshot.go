// Package progress shows how a run is getting on: a few lines that are redrawn
// on a terminal, a line now and then elsewhere.
package progress

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstockhq/penstock/internal/cli/show"
)

// Snapshot is how a run stands.
type Snapshot struct {
	Run       string
	Total     int64 // calls of the run
	Done      int64
	Dead      int64
	Cancelled int64
	Running   int64 // in this process
	Waiting   int64 // all others that have not ended
	Refused   int64 // by the API, in this process
	Retried   int64 // failures that are tried again, in this process
	Rate      float64
	Limit     string        // the limit to hold the rate against, as "5/s"; "": none
	Why       string        // why calls wait
	Left      time.Duration // until all are done; 0: not known
	Stopping  bool          // told to stop, and waiting for running calls
}

// Ended is how many calls have ended.
func (s *Snapshot) Ended() int64 { return s.Done + s.Dead + s.Cancelled }

// Plain is the snapshot on one line.
func (s *Snapshot) Plain() string {
	parts := append([]string{fmt.Sprintf("%s: %s of %s", s.Run, Digits(s.Ended()), Digits(s.Total))}, s.counts()...)
	return strings.Join(append(parts, s.pace()...), ", ")
}

// Lines is the snapshot for a terminal of a width, in columns. No line is
// longer than that.
func (s *Snapshot) Lines(width int, unicode bool) []string {
	dot := " · "
	if !unicode {
		dot = ", "
	}
	lines := []string{
		s.bar(width, unicode),
		strings.Join(s.counts(), dot),
		strings.Join(s.pace(), dot),
	}
	for i := range lines {
		lines[i] = Cut(lines[i], width)
	}
	return lines
}

// counts are the numbers of calls, those of interest only.
func (s *Snapshot) counts() []string {
	parts := []string{"done " + Digits(s.Done)}
	for _, c := range []struct {
		what   string
		n      int64
		always bool
	}{{"dead", s.Dead, true}, {"cancelled", s.Cancelled, false}, {"running", s.Running, false}, {"waiting", s.Waiting, true}, {"refused", s.Refused, true}, {"retried", s.Retried, false}} {
		if c.n != 0 || c.always {
			parts = append(parts, c.what+" "+Digits(c.n))
		}
	}
	return parts
}

// pace is how fast it goes and what holds it back.
func (s *Snapshot) pace() []string {
	rate := Rate(s.Rate)
	if s.Limit != "" {
		rate += " of " + s.Limit
	}
	parts := []string{rate}
	switch {
	case s.Stopping:
		return append(parts, "stopping: running calls may finish (again to stop at once)")
	case s.Left > 0:
		parts = append(parts, Duration(s.Left)+" left")
	}
	if s.Why != "" {
		parts = append(parts, s.Why)
	}
	return parts
}

// bar is the name, a bar and the share, as wide as there is room.
func (s *Snapshot) bar(width int, unicode bool) string {
	share := 0.0
	if s.Total > 0 {
		share = float64(s.Ended()) / float64(s.Total)
	}
	percent := int(share * 100) // 100 % only when all is over
	name := s.Run
	if most := max(width/4, 8); show.Width(name) > most {
		name = Cut(name, most)
	}
	tail := fmt.Sprintf(" %3d %%  %s of %s", percent, Digits(s.Ended()), Digits(s.Total))
	room := min(width-show.Width(name)-len(tail)-1, 40)
	if room < 6 {
		return name + tail
	}
	return name + " " + Bar(share, room, unicode) + tail
}

// Bar draws a share from 0 to 1.
func Bar(share float64, width int, unicode bool) string {
	share = min(max(share, 0), 1)
	if !unicode {
		full := int(share * float64(width-2))
		return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-2-full) + "]"
	}
	eighths := int(share * float64(width*8))
	full := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		full += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return full + strings.Repeat("░", width-utf8.RuneCountInString(full))
}
