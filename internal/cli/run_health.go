package cli

import (
	"context"
	"sync"
	"time"

	"github.com/penstockhq/penstock"
)

const (
	healthEvery = time.Second
	illMost     = 30 * time.Second // how long the store may fail before the run gives up
	lockedAfter = 2 * time.Second  // how long it may keep a question waiting before that is said
)

// lockedText is what a store that does not answer waits for: processes of
// Penstock take turns of milliseconds, so somebody else holds the file.
const lockedText = "waiting for the database: locked by another program"

// saysIfLocked does something that the store may keep waiting, and says so if it
// does.
func saysIfLocked(say func(string), do func() error) error {
	t := time.AfterFunc(lockedAfter, func() { say(lockedText) })
	defer t.Stop()
	return do()
}

// health asks the store now and then whether it works. Its methods are safe for
// concurrent use.
type health struct {
	mu    sync.Mutex
	asked time.Time // when the question was asked that is not answered yet; zero: none
	ill   time.Time // since when the store has been failing; zero: it works
	what  error     // what it says
}

// watch asks until ctx ends.
func (h *health) watch(ctx context.Context, c *penstock.Client, say func(string)) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		h.mu.Lock()
		h.asked = time.Now()
		h.mu.Unlock()
		err := saysIfLocked(say, func() error {
			ask, cancel := context.WithTimeout(ctx, illMost)
			defer cancel()
			return c.Health(ask)
		})
		h.answered(time.Now(), err, ctx.Err() != nil)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *health) answered(now time.Time, err error, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = time.Time{}
	switch {
	case err == nil || over:
		h.ill, h.what = time.Time{}, nil
		return
	case h.ill.IsZero():
		h.ill = now
	}
	h.what = err
}

// trouble is what is wrong with the store now; "" if nothing is known to be.
func (h *health) trouble(now time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.asked.IsZero() && now.Sub(h.asked) >= lockedAfter:
		return lockedText
	case !h.ill.IsZero():
		return "the database fails: " + oneLine(h.what).Error()
	}
	return ""
}

// lost returns an error once the store has been failing for too long.
func (h *health) lost(now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ill.IsZero() || now.Sub(h.ill) < illMost {
		return nil
	}
	return oneLineOf(h.what)
}
