package sim

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// silent is a logger for which no line is ever put together.
var silent = slog.New(slog.DiscardHandler)

// Kind says which promise a violation breaks.
type Kind string

// The promises that are checked.
const (
	Lost      Kind = "lost"      // a job that was enqueued is not there
	Stuck     Kind = "stuck"     // a job did not end although nothing held it
	Effect    Kind = "effect"    // a guarded effect happened twice, or not at all
	Window    Kind = "window"    // an API saw more starts in a window than its limit allows
	Slots     Kind = "slots"     // within a limit a slot was granted before an older one
	Permits   Kind = "permits"   // calls in flight do not equal running jobs, or exceed the cap
	Leases    Kind = "leases"    // a job was leased twice, or ended by somebody who does not hold it
	Taken     Kind = "taken"     // a rescue took a job from a process that lives
	Paused    Kind = "paused"    // a paused queue started something
	Ended     Kind = "ended"     // a cancelled or ended job was started
	Why       Kind = "why"       // a waiting job is not explained
	Overslept Kind = "overslept" // the sweep found lanes that should have been awake
	Audit     Kind = "audit"     // what the store holds does not fit together
	Broken    Kind = "broken"    // something failed that never may
)

// Violation is a broken promise.
type Violation struct {
	Kind Kind
	At   time.Duration // since the world began
	Text string
}

// String is the violation on one line.
func (v Violation) String() string { return fmt.Sprintf("%s at %v: %s", v.Kind, v.At, v.Text) }

// maxViolations is how many are kept of one run.
const maxViolations = 20

// journal is all that happened in a world, for its digest and for people.
type journal struct {
	trace func(string)
	began time.Time

	mu         sync.Mutex
	sum        uint64
	instant    time.Duration
	lines      []string // of this millisecond
	violations []Violation
	facts      map[string]int
}

func newJournal(trace func(string)) *journal {
	return &journal{trace: trace, began: time.Now(), facts: map[string]int{}}
}

// note writes a line. For the digest, lines of one millisecond have no order
// among each other.
func (j *journal) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(line)
}

func (j *journal) add(line string) {
	at := time.Since(j.began)
	if at := at.Truncate(time.Millisecond); at != j.instant {
		j.fold()
		j.instant = at
	}
	j.lines = append(j.lines, line)
	if j.trace != nil {
		j.trace(fmt.Sprintf("%12.6f  %s", at.Seconds(), line))
	}
}

func (j *journal) fold() {
	if len(j.lines) == 0 {
		return
	}
	slices.Sort(j.lines)
	h := fnv.New64a()
	fmt.Fprint(h, j.sum, j.instant)
	for _, l := range j.lines {
		_, _ = h.Write([]byte(l))
	}
	j.sum, j.lines = h.Sum64(), j.lines[:0]
}

func (j *journal) digest() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fold()
	return j.sum
}

// now is the time since the world began, in microseconds.
func (j *journal) now() int64 { return time.Since(j.began).Microseconds() }

// broken says whether a promise was broken.
func (j *journal) broken() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.violations) > 0
}

// count counts something that happened, to show that seeds reach it.
func (j *journal) count(what string) {
	j.mu.Lock()
	j.facts[what]++
	j.mu.Unlock()
}

// fail notes a broken promise.
func (j *journal) fail(k Kind, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := Violation{Kind: k, At: time.Since(j.began), Text: fmt.Sprintf(format, args...)}
	if len(j.violations) < maxViolations {
		j.violations = append(j.violations, v)
	}
	j.add("VIOLATION " + string(k) + ": " + v.Text)
}
