package cli

import (
	"time"

	"github.com/penstockhq/penstock/internal/cli/progress"
)

// note shows a line about what is under way: at once on a terminal, now and
// then elsewhere.
func (s *screen) note(text string) {
	switch {
	case s.quiet:
	case s.term != nil:
		w := s.width()
		s.term.Draw([]string{progress.Cut(text, w-1)}, w)
	case time.Since(s.said) >= sayEvery:
		s.said = time.Now()
		s.say("%s", text)
	}
}
