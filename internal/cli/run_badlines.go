package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/penstockhq/penstock/internal/cli/progress"
)

// badMost is how many bad lines are printed; the rest is counted.
const badMost = 50

// badLines keeps the first bad lines and counts all. Lines may be added by
// several goroutines.
type badLines struct {
	mu    sync.Mutex
	n     int64
	first []badLine
}

type badLine struct {
	n   int64
	err error
}

// add notes a bad line. Lines come nearly in order: some faults are known only
// when a chunk of lines is stored.
func (b *badLines) add(n int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	if len(b.first) < badMost+chunkJobs {
		b.first = append(b.first, badLine{n, err})
	}
}

// print writes "line N: reason" for the first ones.
func (b *badLines) print(w io.Writer) {
	slices.SortFunc(b.first, func(x, y badLine) int { return int(x.n - y.n) })
	for _, l := range b.first[:min(badMost, len(b.first))] {
		fmt.Fprintf(w, "line %d: %s\n", l.n, strings.ReplaceAll(l.err.Error(), "\n", "; "))
	}
	if more := b.n - badMost; more > 0 {
		fmt.Fprintf(w, "and %s\n", count(more, "more bad line"))
	}
}

// count writes a number and what it is of: "1 call", "2,000 calls".
func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return progress.Digits(n) + " " + what
}
