package penstock

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// trouble remembers what goes wrong with the store at the moment, so that Health
// can tell, and an outage is logged once, however much it keeps from working, and
// its end once, too. It is safe for concurrent use.
type trouble struct {
	log *slog.Logger

	mu    sync.Mutex
	what  map[ailment]ill
	since time.Time // when the outage began; zero: there is none
}

// ailment is something that a worker cannot do, as "claim jobs".
type ailment struct {
	w    *worker
	what string
}

type ill struct {
	err   error
	since time.Time
}

// set notes that something fails.
func (t *trouble) set(w *worker, what string, err error) {
	t.mu.Lock()
	if t.what == nil {
		t.what = map[ailment]ill{}
	}
	news := t.since.IsZero()
	if news {
		t.since = time.Now()
	}
	old, known := t.what[ailment{w, what}]
	if !known {
		old.since = time.Now()
	}
	t.what[ailment{w, what}] = ill{err, old.since}
	t.mu.Unlock()
	if news {
		t.log.Error("the store fails, trying on", "doing", what, "error", oneLine(err))
	}
}

// clear notes that it works, or is not wanted any more.
func (t *trouble) clear(w *worker, what string) {
	t.mu.Lock()
	delete(t.what, ailment{w, what})
	lasted := t.over()
	t.mu.Unlock()
	if lasted > 0 {
		t.log.Warn("the store works again", "after", lasted.Round(time.Millisecond))
	}
}

// over ends the outage if nothing is wrong any more, and returns how long it was;
// 0: there is none that has ended.
func (t *trouble) over() time.Duration {
	if len(t.what) > 0 || t.since.IsZero() {
		return 0
	}
	lasted := max(time.Since(t.since), 1)
	t.since = time.Time{}
	return lasted
}

// forget is for a worker that has ended, with whatever was wrong.
func (t *trouble) forget(w *worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for a := range t.what {
		if a.w == w {
			delete(t.what, a)
		}
	}
	t.over()
}

// report returns what has been failing for longer than d.
func (t *trouble) report(d time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var what []string
	errs := map[string]error{}
	for a, ill := range t.what {
		if lasts := time.Since(ill.since); lasts >= d {
			what = append(what, a.what)
			errs[a.what] = fmt.Errorf("cannot %s for %v: %w", a.what, lasts.Round(time.Second), ill.err)
		}
	}
	slices.SortFunc(what, cmp.Compare)
	var all []error
	for _, w := range slices.Compact(what) {
		all = append(all, errs[w])
	}
	return errors.Join(all...)
}
