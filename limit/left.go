package limit

import "time"

const (
	// longestHold bounds what "none left" means where no reset is said.
	longestHold = Instant(10 * time.Second / time.Microsecond)
	// rounded is how much later than it is a reset is said, in whole seconds.
	rounded = Instant(time.Second / time.Microsecond)
)

// left is what the API said is left of a window of its own. It may know better
// than the spec: others may share its limit, or the limit may be lower than
// somebody thought. It holds until the window resets.
type left struct {
	slot   Instant // of the call whose answer said it
	reset  Instant // when that window is over; 0: nothing is known
	n      int64   // what may still start before it is over; below 0: as much has started too much
	whole  int64   // of how many; 0: not said
	byCost bool    // n counts permits; else calls, whatever they cost
	mild   bool    // the reset is our own guess, not the API's word
	ours   bool    // we took all that is missing: the spec says the same, and n binds nobody
}

// binds reports whether it keeps anybody from starting at t.
func (l *left) binds(t Instant) bool { return t < l.reset && !l.ours }

// share is what an ask of this cost takes of n.
func (l *left) share(cost int64) int64 {
	if l.byCost {
		return cost
	}
	return 1
}

// earliest is the first instant at or after t, as far as this goes, at which an ask may start. Later is
// never worse.
//
// What is left is not spread over the time until the reset. A sliding window
// gives back one call at a time, as they came: spread calls leave it more slowly
// than the next ones want to come, which are then refused.
func (l *left) earliest(cost int64, t Instant) Instant {
	if l.binds(t) && l.share(cost) > l.n {
		return l.reset
	}
	return t
}

// take notes that an ask starts at t.
func (l *left) take(cost int64, t Instant) {
	if t >= l.reset {
		*l = left{}
		return
	}
	l.n = max(-maxSum, l.n-l.share(cost))
}

// room is an upper bound on the asks that may start from and until, see Room.
func (l *left) room(cost int64, from, until Instant) int64 {
	if !l.binds(from) || until >= l.reset {
		return maxSum
	}
	return max(0, l.n) / l.share(cost)
}

// Left is what the API last said is left of a window of its own, less what was
// granted since.
type Left struct {
	N      int64
	Of     int64   // the whole window; 0: not said
	Until  Instant // when it resets
	ByCost bool    // it counts permits by cost; else calls
	// Binds says that it may keep calls from starting. It does not where we took
	// all that is missing: then the spec says the same.
	Binds bool
}

// Left returns what is known to be left now; false if that is nothing, or the
// window is over.
func (s *State) Left(now Instant) (Left, bool) {
	now = clampInstant(now)
	l := s.sane(now).left
	if now >= l.reset {
		return Left{}, false
	}
	return Left{N: max(0, l.n), Of: l.whole, Until: l.reset, ByCost: l.byCost, Binds: !l.ours}, true
}

// heed learns what is left from the answer to a call with this slot (0: not
// known). Answers overtake each other, so an older one says nothing new. It
// reports whether asks may start earlier now than was known before.
func (s *State) heed(sp Spec, o Observation, at, slot Instant) (loosened bool) {
	was := s.left
	if was.reset <= at {
		was = left{}
	}
	if slot != 0 && slot < was.slot {
		return false
	}
	n := min(max(o.Left, 0), maxSum)
	now := left{slot: slot, n: n - s.uncounted(sp, o, slot), whole: min(max(o.Whole, 0), maxSum), byCost: o.LeftByCost}
	if slot == 0 {
		now.slot = at
	}
	now.reset = min(clampInstant(o.ResetAt), at+maxAPIPause)
	if o.ResetAt != 0 && now.reset <= at {
		s.left = left{}
		return was.binds(at)
	}
	said := now.reset
	others, in, matched := int64(0), Instant(0), false
	if o.ResetAt != 0 {
		others, in, matched = s.others(sp, o, at, now.slot, &now.reset)
		now.ours = matched && others <= 0
	}
	known := was.binds(at) && !was.mild && said <= was.reset+rounded // the end of a window that we know
	if !now.ours && !known && o.vague(s.guardFor(sp)) {
		return s.hint(sp, now, was, at, n)
	}
	if matched && !now.ours && in > 0 && now.n > 0 { // they may go on as they did; half is ours in any case, or one burst would stop us
		now.n -= min(mulDivUp(others, now.reset-at, in)/o.permits(1), now.n-now.n/2)
	}
	// Calls that started together are answered in any order. Each answer counts
	// some of them; the one that counts most is right about all.
	if n > 0 && now.slot <= was.slot+s.guardFor(sp) && was.binds(at) && was.byCost == now.byCost && now.reset <= was.reset+rounded {
		now.slot, now.n = was.slot, max(now.n, was.n)
	}
	s.left = now
	return was.binds(at) && (now.ours || now.n > was.n || now.reset < was.reset)
}

// vague reports whether the reset is said so coarsely, or is so near, that it tells
// nothing. What is left of a bucket is often said with the moment at which it is
// full, rounded up to a second: who waited for that would be much too slow.
func (o *Observation) vague(guard Instant) bool {
	return o.ResetAt == 0 || o.ResetAt-o.At <= o.slack()+2*guard
}

// hint heeds what is said without a useful reset. Some left is nothing to go by.
// With none left, there is more soon for all we know: half the pace does no harm
// even if it is said for ever.
func (s *State) hint(sp Spec, now, was left, at Instant, n int64) (loosened bool) {
	if n > 0 {
		if was.binds(at) && n > was.n && now.reset != 0 {
			s.left = left{}
			return true
		}
		return false
	}
	guess := clampInstant(s.last + 2*sp.interval())
	if now.reset == 0 || now.reset > guess {
		now.reset = guess
	}
	if now.mild = true; now.reset > max(at, was.reset) {
		s.left = now
	}
	return false
}

// uncounted is how much of what the API says is left may be taken already, by
// calls that reached it after the one that was answered: those with later slots,
// and those that started so little before it that they may have been overtaken.
func (s *State) uncounted(sp Spec, o Observation, slot Instant) int64 {
	if slot == 0 {
		return s.inFlight
	}
	n := max(0, s.log.since(slot-s.guardFor(sp))-clampCost(o.Cost))
	each := o.permits(1)
	return n/each + min(n%each, 1)
}

// permits is how many permits so much of what the API counts comes to, if all
// calls cost what this one did.
func (o *Observation) permits(n int64) int64 {
	if n = max(0, n); o.LeftByCost {
		return min(n, maxSum)
	}
	return mulCost(n, clampCost(o.Cost))
}

// others tells how much of what is missing of the window was not taken by us, and
// in what time, if the window is known: by a rate of the spec that is no larger. If
// that is nothing, the spec is as strict as the API. It may bring the reset
// forward, since a window of a rate is over after its length.
func (s *State) others(sp Spec, o Observation, at, slot Instant, reset *Instant) (n int64, in Instant, known bool) {
	whole := o.permits(o.Whole)
	missing := whole - o.permits(o.Left)
	slack := o.slack()
	for i := range sp.Rates {
		r := &sp.Rates[i]
		most, d := r.Limit()
		if whole < most {
			continue
		}
		w, end := micros(d), at+micros(d)
		if r.Calendar != Rolling {
			z, err := loadZone(r.Zone)
			if err != nil {
				continue
			}
			p := z.periodAt(r.Calendar, at)
			w, end = p.end-p.start, p.end
		}
		if end <= at || *reset > end+slack {
			continue
		}
		*reset = min(*reset, end)
		from := *reset - w
		n = missing - (s.log.since(from-slack-s.guardFor(sp)) - s.log.since(slot))
		if in, known = at-from, true; n <= 0 {
			break
		}
	}
	return n, in, known
}

// slack is how much later than it is the reset may be said: most APIs say it in
// whole seconds.
func (o *Observation) slack() Instant {
	if (o.ResetAt-o.At)%rounded == 0 || o.ResetAt%rounded == 0 {
		return rounded
	}
	return 0
}

// interval is the time between two permits under the shortest window, at most
// longestHold.
func (sp Spec) interval() Instant {
	n, w := sp.guarded()
	if w == 0 {
		return rounded
	}
	return min(w/n, longestHold/2)
}

// most is an upper bound on the permits that the spec lets through in a time of
// this length, whatever happened before.
func (sp Spec) most(d Instant) int64 {
	most := maxSum
	for i := range sp.Rates {
		r := &sp.Rates[i]
		n, w := r.Limit()
		if n = max(0, n); r.Calendar == Rolling && w > 0 {
			n = mulCost(n, 1+d/max(1, micros(w)))
		}
		most = min(most, n)
	}
	if p, ok := sp.pacer(0); ok {
		most = min(most, int64(min(p.burst+float64(d)/p.interval+1, float64(maxSum))))
	}
	return max(0, most)
}

// Matters reports whether it is worth the trouble to tell a limit of this spec
// what was observed. Much left is no news, and neither is what the spec would not
// let through before the reset anyway.
func (o Observation) Matters(sp Spec) bool {
	if o.Refused || !o.LeftKnown {
		return true
	}
	if o.ResetAt == 0 {
		return o.Left <= 0
	}
	d := clampInstant(o.ResetAt) - clampInstant(o.At)
	left, whole := o.permits(o.Left), o.permits(o.Whole)
	if d <= 0 || left >= sp.most(d) || left > 0 && o.vague(sp.defaultGuard()) {
		return false
	}
	const soon = 2 * rounded // calls that are under way are not counted yet
	if left > whole/2 && left > sp.most(soon) && whole > 0 {
		return false
	}
	return !onSchedule(sp, left, whole, d, o.slack())
}

// onSchedule reports whether no more is missing of the window than a paced rate of
// the spec can have taken by itself.
func onSchedule(sp Spec, left, whole int64, d, slack Instant) bool {
	p, ok := sp.pacer(0)
	if !ok {
		return false
	}
	n, w := sp.guarded()
	if whole < n || d > w+slack {
		return false
	}
	gone := min(w-d+slack, w)
	return float64(whole-left) <= p.burst+1+float64(gone)/p.interval
}
