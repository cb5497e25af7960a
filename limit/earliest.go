package limit

import "slices"

// Earliest is the first slot, at or after now and the newest slot, at which the
// ask could be taken if nothing else happens, and why that is not now. It is
// Never if waiting alone does not help: the limit is full, paused without end,
// or its spec was cut below the cost. It changes nothing.
func (s *State) Earliest(sp Spec, a Ask, now Instant) (Instant, Why) {
	now = clampInstant(now)
	s = s.sane(now)
	t, why := s.opens(sp, now)
	if t == Never {
		return t, why
	}
	cost := clampCost(a.Cost)
	v := s.view(sp)
	e, w := v.earliest(cost, t)
	if e == Never {
		return e, w
	}
	if w != None {
		why = w
	}
	if !s.bookingAt(now) || s.booking.Holder == a.Holder || s.booking.Priority < a.Priority {
		return e, why
	}
	booked, w := v.besideBooking(s.booking, cost, e, t)
	if w != None {
		why = w
	}
	return booked, why
}

// opens is when neither pauses, nor the cap, nor the newest slot stand against
// a start at or after now. It is Never if that takes an event.
func (s *State) opens(sp Spec, now Instant) (Instant, Why) {
	switch {
	case sp.Paused:
		return Never, PausedBySpec
	case s.person.until == Never:
		return Never, PausedByPerson
	case sp.InFlight > 0 && s.inFlight >= sp.InFlight:
		return Never, Full
	}
	t, why := now, None
	if s.last > t {
		t, why = s.last, Pacing
	}
	if u := s.apiUntil(now); u > t {
		t, why = u, PausedByAPI
	}
	if u := s.person.until; u > t {
		t, why = u, PausedByPerson
	}
	return t, why
}

// view is a state as its rates see it, with at most one further charge that is
// only supposed. It must not outlive the state.
type view struct {
	sp      Spec
	guard   Instant
	pace    pacer
	paced   bool
	credit  credit
	charges []charge
	extra   charge // cost 0: none
	left    *left  // nil: nothing is known to be left
}

func (s *State) view(sp Spec) view {
	v := view{sp: sp, guard: s.guardFor(sp), credit: s.creditView(), charges: s.log.charges}
	if s.left.reset != 0 {
		v.left = &s.left
	}
	v.pace, v.paced = sp.pacer(v.guard)
	return v
}

// with is the view after taking cost at t.
func (v view) with(cost int64, t Instant) view {
	if v.paced {
		v.credit = credit{last: t, debt: v.credit.debtAt(v.pace, t) + float64(cost)}
	}
	v.extra = charge{t, cost}
	if v.left != nil {
		l := *v.left
		l.take(cost, t)
		v.left = &l
	}
	return v
}

// earliest is the first instant at or after from that all rates agree to.
func (v *view) earliest(cost int64, from Instant) (Instant, Why) {
	t, why := from, None
	calendar := false
	for i := range v.sp.Rates {
		r := &v.sp.Rates[i]
		n, w := r.Limit()
		if cost > n {
			return Never, TooCostly
		}
		if r.Calendar != Rolling {
			calendar = true
			continue
		}
		if e := v.windowFree(n-cost, micros(w)+v.guard, t); e > t {
			t, why = e, Window
		}
	}
	if v.paced {
		if e := v.credit.earliest(v.pace, cost); e > t {
			t, why = e, Pacing
		}
	}
	if v.left != nil {
		if e := v.left.earliest(cost, t); e > t {
			t, why = e, Announced
		}
	}
	// Later is never worse for any of these, but it may lead into the
	// next period of a quota: repeat until no quota moves.
	for moved := calendar; moved; {
		moved = false
		for i := range v.sp.Rates {
			if r := &v.sp.Rates[i]; r.Calendar != Rolling {
				if e := v.quotaFree(r, cost, t); e > t {
					t, why, moved = e, Window, true
				}
			}
		}
	}
	return t, why
}

// windowFree is the first instant at or after t whose window of this length
// holds at most room.
func (v *view) windowFree(room int64, window, t Instant) Instant {
	sum := int64(0)
	from := t - window
	if v.extra.cost > 0 && v.extra.at > from {
		if sum = v.extra.cost; sum > room {
			return v.extra.at + window
		}
	}
	for i := len(v.charges) - 1; i >= 0 && v.charges[i].at > from; i-- {
		if sum += v.charges[i].cost; sum > room {
			return v.charges[i].at + window
		}
	}
	return t
}

// quotaFree is the first instant at or after t at which the periods that a
// start is charged to have room for cost. A zone that is no longer known stops
// the limit rather than lifting it.
func (v *view) quotaFree(r *Rate, cost int64, t Instant) Instant {
	z, err := loadZone(r.Zone)
	if err != nil {
		return Never
	}
	p := z.periodAt(r.Calendar, t)
	if t < p.start+edge { // still charged to the one before
		if e := v.periodFree(r.N-cost, z.periodAt(r.Calendar, p.start-1), t); e > t {
			return e
		}
	}
	// Near its end a start is charged to the next one, too. That need not be
	// asked: all that is charged to the next one so far is charged to this one.
	return v.periodFree(r.N-cost, p, t)
}

// periodFree is t if the period holds at most room, else when it is over.
func (v *view) periodFree(room int64, p period, t Instant) Instant {
	if v.charged(p) > room {
		return p.end + edge
	}
	return t
}

// charged is the cost charged to a period.
func (v *view) charged(p period) int64 {
	sum := int64(0)
	if v.extra.cost > 0 && p.covers(v.extra.at) {
		sum = v.extra.cost
	}
	for i := len(v.charges) - 1; i >= 0 && v.charges[i].at >= p.start-edge; i-- {
		if v.charges[i].at < p.end+edge {
			sum = addCost(sum, v.charges[i].cost)
		}
	}
	return sum
}

// sweepPlan says how finely a log must be kept for this spec: its windows,
// ascending, and the walls that merged charges may not cross, as of the newest
// slot.
func (sp Spec) sweepPlan(guard, last Instant) (windows, walls []Instant) {
	for i := range sp.Rates {
		r := &sp.Rates[i]
		if r.Calendar == Rolling {
			_, w := r.Limit()
			windows = append(windows, micros(w)+guard)
			continue
		}
		z, err := loadZone(r.Zone)
		if err != nil {
			continue
		}
		p := z.periodAt(r.Calendar, last)
		before := z.periodAt(r.Calendar, p.start-1)
		walls = append(walls, before.start-edge, p.start-edge, p.end-edge)
	}
	slices.Sort(windows)
	return windows, walls
}
