package postgres

import (
	"context"
	"time"

	"github.com/penstockhq/penstock/store/engine"
)

// Most starts end quietly: their ends are announced, and nobody is told, since the next
// claim of whatever process takes the announcements along. If none came for
// engine.QuietFor, somebody may be waiting for a call in flight that they gave back. So
// the process that announced them looks whether they were taken, and tells if they were not.
// The looks of its workers before their claims do as well.

// ends is when starts ended whose announcements nobody is known to have taken, and when
// this process last looked. The zero value says that there are none.
type ends struct{ first, last, looked time.Time }

func (e *ends) add(at time.Time) {
	if e.first.IsZero() {
		e.first = at
	}
	e.last = at
}

// settle forgets what was announced before the instant.
func (e *ends) settle(before time.Time) {
	switch {
	case e.last.Before(before):
		*e = ends{looked: e.looked}
	case e.first.Before(before):
		e.first = before
	}
}

// due is when to look; false: never. Who looked lately may be about to look again.
func (e *ends) due() (time.Time, bool) {
	at := e.first
	if e.looked.After(at) {
		at = e.looked
	}
	return at.Add(engine.QuietFor), !e.first.IsZero()
}

// ended is called after a commit that announced the ends of starts.
func (h *hub) ended() {
	if h.listen == nil {
		return // all who watch look all the time
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends.add(time.Now())
	if h.minding == nil {
		timer := time.NewTimer(engine.QuietFor)
		if h.start(func() { h.mindEnds(timer) }) {
			h.minding = timer
		}
	}
}

// took is called after a commit that took all that was announced before the instant.
func (h *hub) took(before time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends.settle(before)
	h.mindLater()
}

// looked is called after a look at the instant that found nothing, and so nothing that
// was announced QuietFor before.
func (h *hub) looked(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends.settle(at.Add(-engine.QuietFor))
	if at.After(h.ends.looked) {
		h.ends.looked = at
	}
	h.mindLater()
}

// mindLater lets mindEnds sleep until there is something to look for; h.mu is held.
func (h *hub) mindLater() {
	if due, some := h.ends.due(); some && h.minding != nil {
		h.minding.Reset(time.Until(due))
	}
}

// mindEnds looks, as long as there are ends that nobody is known to have taken, when the
// timer says so.
func (h *hub) mindEnds(timer *time.Timer) {
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-h.ctx.Done():
			return
		}
		wait, some := h.endsDue()
		if !some {
			return
		}
		if wait <= 0 {
			asked := time.Now()
			if left, err := h.announced(); err == nil && left { // after an error it is asked again
				h.tell()
				h.took(asked.Add(-engine.QuietFor)) // those who can are about to
			}
			wait = lookEvery
		}
		timer.Reset(wait)
	}
}

// endsDue returns how long it is until ends are to be looked for. If there are none, the
// minding ends.
func (h *hub) endsDue() (wait time.Duration, some bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	due, some := h.ends.due()
	if !some {
		h.minding = nil
	}
	return time.Until(due), some
}

// announced reports whether there is an announcement that is a reason to claim.
func (h *hub) announced() (is bool, err error) {
	ctx, cancel := context.WithTimeout(h.ctx, time.Second)
	defer cancel()
	err = h.d.Peek(ctx, func(t engine.Tx) error {
		is, err = t.Announced(engine.AnyLane)
		return err
	})
	return is, err
}
