package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstockhq/penstock"
)

const (
	healthEvery = time.Second
	illMost     = time.Minute      // how long the store may fail before a command gives up
	askMost     = 10 * time.Second // how long it may take to answer
	lockedAfter = 2 * time.Second  // how long it may keep a question waiting before that is said
)

// lockedText is what a store that does not answer waits for: processes of
// Penstock take turns of milliseconds, so somebody else holds the file.
func lockedText() string {
	if onServer.Load() {
		return "waiting for the database: its server does not answer"
	}
	return "waiting for the database: locked by another program"
}

// saysIfLocked does something that the store may keep waiting, and says so if it
// does.
func saysIfLocked(say func(string), do func() error) error {
	t := time.AfterFunc(lockedAfter, func() { say(lockedText()) })
	defer t.Stop()
	return do()
}

// health asks the store now and then whether it works. Its methods are safe for
// concurrent use, but for watch.
type health struct {
	gone chan struct{} // closed once it has not worked for too long

	mu    sync.Mutex
	asked time.Time // when the question was asked that is not answered yet; zero: none
	ill   time.Time // since when the store has been failing; zero: it works
	what  error     // what it says
}

func newHealth() *health { return &health{gone: make(chan struct{})} }

// watch asks until ctx ends, or the store has been failing for too long.
func (h *health) watch(ctx context.Context, c *penstock.Client, say func(string)) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	quiet := func(string) {}
	for tell := say; ; {
		h.mu.Lock()
		h.asked = time.Now()
		h.mu.Unlock()
		err := saysIfLocked(tell, func() error {
			ask, cancel := context.WithTimeout(ctx, askMost)
			defer cancel()
			return c.Health(ask)
		})
		if h.answered(time.Now(), err, ctx.Err() != nil) {
			close(h.gone)
			return
		}
		if tell = say; err != nil {
			tell = quiet // it was said
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// answered takes in an answer, and reports whether the store has been failing for too
// long.
func (h *health) answered(now time.Time, err error, over bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked
	h.asked = time.Time{}
	switch {
	case err == nil || over:
		h.ill, h.what = time.Time{}, nil
		return false
	case h.ill.IsZero():
		h.ill = asked
	}
	h.what = err
	return now.Sub(h.ill) >= illMost
}

// trouble is what is wrong with the store now; "" if nothing is known to be.
func (h *health) trouble(now time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.asked.IsZero() && now.Sub(h.asked) >= lockedAfter:
		return lockedText()
	case !h.ill.IsZero():
		return "the database fails: " + oneLine(h.what).Error()
	}
	return ""
}

// errGaveUp is why a command ends that has worked.
var errGaveUp = errors.New("it has not worked for a minute, so this command gives up; what it did is kept, and the same command goes on")

// lost is the error to end with, once the store is gone.
func (h *health) lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return oneLineOf(fmt.Errorf("%w: %w", errGaveUp, h.what))
}
