//go:build unix

package system

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sayings are the lines that a worker process has said.
type sayings struct {
	mu    sync.Mutex
	lines []string
	said  chan struct{} // closed and renewed at each line
}

func newSayings() *sayings { return &sayings{said: make(chan struct{})} }

// hear is for launch.
func (s *sayings) hear(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
	close(s.said)
	s.said = make(chan struct{})
}

// begins says whether a line begins with those words, and returns what tells of
// the next one.
func (s *sayings) begins(words string) (bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lines, func(line string) bool { return strings.HasPrefix(line+" ", words+" ") }), s.said
}

// await waits for a line that begins with those words.
func (s *sayings) await(t *testing.T, words string) {
	t.Helper()
	late := time.After(patience)
	for {
		found, said := s.begins(words)
		if found {
			return
		}
		select {
		case <-said:
		case <-late:
			t.Fatalf("after %v the process has not said %q, but %q", patience, words, s.lines)
		}
	}
}

// never fails the test if a line begins with those words.
func (s *sayings) never(t *testing.T, words string) {
	t.Helper()
	if found, _ := s.begins(words); found {
		t.Errorf("the process said %q", s.lines)
	}
}
