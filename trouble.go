package penstock

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// trouble remembers what goes wrong at the moment, so that it is logged once
// and told by Health.
type trouble struct {
	mu   sync.Mutex
	what map[string]ill
}

type ill struct {
	err   error
	since time.Time
}

// set notes that something fails, and returns true if it did not before.
func (t *trouble) set(what string, err error) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.what[what]
	if t.what == nil {
		t.what = map[string]ill{}
	}
	if !known {
		old.since = time.Now()
	}
	t.what[what] = ill{err, old.since}
	return !known
}

// clear notes that it works.
func (t *trouble) clear(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.what, what)
}

// report returns what has been failing for longer than d.
func (t *trouble) report(d time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []error
	for _, what := range sortedKeys(t.what) {
		if lasts := time.Since(t.what[what].since); lasts >= d {
			all = append(all, fmt.Errorf("%s has been failing for %v: %w", what, lasts.Round(time.Millisecond), t.what[what].err))
		}
	}
	return errors.Join(all...)
}
