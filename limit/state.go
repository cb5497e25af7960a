package limit

import (
	"slices"
	"time"
)

// State is everything a limit remembers. It does not depend on the spec: after
// a change of the spec it counts what was sent before. The zero State is that
// of a limit never used. Copy it with Clone only; it is not safe for concurrent
// use. Methods that take a now must get it from one clock, the store's.
type State struct {
	log      slotLog
	last     Instant // the newest slot; slots never go below it
	debt     float64 // permits taken from the burst credit, as of last
	drained  bool    // a pause ended by hand: the next start finds no burst credit
	inFlight int64

	guard       Instant // learned under guardN permits in guardW, see guardFor
	guardN      int64   // 0: not known, the stored form was of an older version
	guardW      Instant // 0: nothing learned
	quietSince  Instant // where the present stretch without refusals begins
	episode     Instant // refusals of slots up to here belong to the last episode
	backoffs    int64   // pauses in a row that we had to choose ourselves
	lastSuccess Instant

	api, person pause
	booking     Booking // none if Expires is 0
	left        left    // what the API said
	refused     refusals
}

// Ask is a wish to start one call.
type Ask struct {
	Cost     int64  // permits; see Spec.CheckCost. Below 1 counts as 1
	Priority int    // larger first; matters against bookings only
	Holder   uint64 // who asks, so that a booking's owner is known
}

// Clone is a copy that shares nothing with s.
func (s *State) Clone() State {
	c := *s
	c.log.charges = slices.Clone(s.log.charges)
	c.refused.log = slices.Clone(s.refused.log)
	return c
}

// Take charges one granted ask: one call in flight, its cost in all windows.
// The slot must be one that Earliest allows under the same spec; one below the
// newest slot is charged at the newest. A booking of the same holder is
// fulfilled and removed.
func (s *State) Take(sp Spec, a Ask, slot Instant) {
	slot = clampInstant(slot)
	s.repair(slot)
	slot = max(slot, s.last)
	cost := clampCost(a.Cost)
	if p, ok := sp.pacer(s.guardFor(sp)); ok {
		s.debt = min(s.creditView().debtAt(p, slot)+float64(cost), maxDebt)
		s.drained = false
	}
	if s.left.reset != 0 {
		s.left.take(cost, slot)
	}
	s.last = slot
	s.log.add(slot, cost)
	if s.log.fresh >= sweepEvery {
		s.log.sweep(sp.sweepPlan(s.guardFor(sp), slot))
	}
	s.inFlight = min(s.inFlight+1, maxSum)
	if b := s.booking; b.Expires != 0 && (b.Holder == a.Holder || b.Expires <= slot) {
		s.booking = Booking{}
	}
}

// Release ends a call that was taken with this cost and slot. With refund, for
// a start known never to have begun, its permits are given back too. Releasing
// more than was taken leaves zero in flight.
func (s *State) Release(sp Spec, cost int64, slot, now Instant, refund bool) {
	s.inFlight = max(0, s.inFlight-1)
	if refund {
		cost = clampCost(cost)
		s.log.remove(clampInstant(slot), cost)
		s.debt = max(0, s.debt-float64(cost))
		if slot > s.left.slot && slot < s.left.reset {
			s.left.n = addCost(s.left.n, s.left.share(cost))
		}
	}
	if s.booking.Expires != 0 && s.booking.Expires <= now {
		s.booking = Booking{}
	}
}

// InFlight is the number of calls taken and not released.
func (s *State) InFlight() int64 { return s.inFlight }

// LastSlot is the newest slot; later asks get none before it. 0: none yet.
func (s *State) LastSlot() Instant { return s.last }

// LastSuccess is when the last call that was not refused was observed. 0: none
// yet.
func (s *State) LastSuccess() Instant { return s.lastSuccess }

// Used is the number of permits, by cost, whose slot lies in the window before
// now, or ahead of now. It may count a little more than the window holds when
// charges in it are old enough to have been merged.
func (s *State) Used(window time.Duration, now Instant) int64 {
	return s.log.since(clampInstant(now) - min(micros(max(window, 0)), horizon))
}

// staleAfter is when a learned guard or a run of back-offs is no longer worth
// keeping.
const staleAfter = Instant(time.Hour / time.Microsecond)

// idleAfter is how long even a limit without rates must be quiet, so that
// states in use do not come and go.
const idleAfter = Instant(time.Minute / time.Microsecond)

// Idle reports whether dropping the state changes nothing under this spec:
// nothing in flight, paused, booked or counted by any window, and nothing
// learned that is still worth keeping.
func (s *State) Idle(sp Spec, now Instant) bool {
	now = clampInstant(now)
	quiet := now - s.last
	switch {
	case s.inFlight > 0, s.drained, s.person.until > now, s.apiUntil(now) > now, s.bookingAt(now), s.left.binds(now):
		return false
	case quiet < idleAfter:
		return false
	case (s.backoffs > 0 || s.guardFor(sp) > sp.defaultGuard()) && quiet < staleAfter:
		return false
	}
	guard := s.guardFor(sp)
	for i := range sp.Rates {
		r := &sp.Rates[i]
		if r.Calendar != Rolling {
			if z, err := loadZone(r.Zone); err == nil && s.last >= z.periodAt(r.Calendar, now).start-edge {
				return false
			}
			continue
		}
		if _, w := r.Limit(); quiet < micros(w)+guard {
			return false
		}
	}
	return true
}

func clampCost(c int64) int64 { return min(max(c, 1), MaxN) }

// damaged reports whether the state holds instants that no sane clock which now
// says now can have written: the clock ran ahead and was put back.
func (s *State) damaged(now Instant) bool {
	far := now + maxAhead
	return s.last > far || s.episode > far || s.quietSince > far || s.api.until > far+maxAPIPause || s.left.reset > far+maxAPIPause
}

// repair forgets what lies too far in the future. The alternative, to wait for
// it, would stop the limit for as long as the clock was wrong. The price is
// that calls sent while it was wrong are not counted, once.
func (s *State) repair(now Instant) {
	if !s.damaged(now) {
		return
	}
	far := now + maxAhead
	if s.last > far {
		c := s.log.charges
		for len(c) > 0 && c[len(c)-1].at > far {
			c = c[:len(c)-1]
		}
		s.log.charges, s.last, s.debt = c, 0, 0
		if len(c) > 0 {
			s.last = c[len(c)-1].at
		}
	}
	if s.episode > far {
		s.episode = 0
	}
	s.quietSince = min(s.quietSince, now)
	s.refused.forget(far)
	s.lastSuccess = min(s.lastSuccess, now)
	if s.api.until > far+maxAPIPause {
		s.api = pause{}
	}
	if s.left.reset > far+maxAPIPause || s.left.slot > far {
		s.left = left{}
	}
	if s.booking.At > far+horizon {
		s.booking = Booking{}
	}
}

// sane is s, or a repaired copy if it is damaged.
func (s *State) sane(now Instant) *State {
	if !s.damaged(now) {
		return s
	}
	c := s.Clone()
	c.repair(now)
	return &c
}
