package limit

// farLeast is how many permits must be free beyond half of all for a limit to be far.
const farLeast = 500

// Far reports whether the limit is far from being used up: less than half of it is
// charged, and nothing else stands against the ask from now until an instant. Then a
// start may begin at any time between them, if it is charged at the latter.
//
// Why no window is broken: the starts in a window that ends at x were charged in it,
// with the lateness that guards allow for, or are of asks that were far and begin before
// they are charged. Of these, the last one that was granted before x counted all that was
// charged from the beginning of that window on, and what it was charged at; whatever was
// taken after it either was far as well, and counted it, or begins when this one was
// charged, or later.
func (s *State) Far(sp Spec, a Ask, now, until Instant) bool {
	now, until = clampInstant(now), clampInstant(until)
	s = s.sane(now)
	if t, why := s.opens(sp, now); t > now && why != Pacing || s.last > until || s.bookingAt(now) {
		return false
	}
	cost := clampCost(a.Cost)
	if sp.InFlight > 0 && addCost(s.inFlight, farLeast) > sp.InFlight/2 {
		return false
	}
	v := s.view(sp)
	if v.left != nil && v.left.binds(now) {
		return false
	}
	// Those that begin late take up the credit of those that come then.
	if v.paced && v.credit.debtAt(v.pace, until)+float64(until-now)/v.pace.interval+float64(cost)+farLeast > v.pace.burst {
		return false
	}
	for i := range sp.Rates {
		r := &sp.Rates[i]
		n, w := r.Limit()
		used := int64(0)
		if r.Calendar == Rolling {
			used = s.log.since(now - micros(w) - v.guard - (until - now))
		} else {
			z, err := loadZone(r.Zone)
			if err != nil {
				return false
			}
			p := z.periodAt(r.Calendar, now)
			if now < p.start+edge || until+edge >= p.end {
				return false
			}
			used = v.charged(p)
		}
		if addCost(addCost(used, cost), farLeast) > n/2 {
			return false
		}
	}
	return true
}
