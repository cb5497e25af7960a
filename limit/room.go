package limit

import (
	"math"
	"time"
)

// Room is an upper bound on how many asks of this cost could get a slot from
// now until an instant, both included. It may say too many, never too few, and
// is cheap: it tells how many jobs are worth looking at. math.MaxInt64 means no
// bound. Bookings are not considered.
func (s *State) Room(sp Spec, cost int64, now, until Instant) int64 {
	now, until, cost = clampInstant(now), clampInstant(until), clampCost(cost)
	s = s.sane(now)
	from, _ := s.opens(sp, now)
	if from > until {
		return 0
	}
	room := int64(math.MaxInt64)
	if sp.InFlight > 0 {
		room = max(0, sp.InFlight-s.inFlight)
	}
	v := s.view(sp)
	for i := range sp.Rates {
		r := &sp.Rates[i]
		n, w := r.Limit()
		if cost > n {
			return 0
		}
		if r.Calendar == Rolling {
			room = min(room, v.windowRoom(n, micros(w)+v.guard, from, until)/cost)
		} else {
			room = min(room, v.quotaRoom(r, n, from, until)/cost)
		}
	}
	if v.left != nil {
		room = min(room, v.left.room(cost, from, until))
	}
	if v.paced {
		// Before the n-th start the debt, n-1 costs more and drained until
		// then, must be down to the slack. The first asks for less after a pause.
		d := v.credit.debtAt(v.pace, from)
		n := 1 + (v.pace.slack(cost)-d+float64(until-from)/v.pace.interval)/float64(cost)
		paced := max(0, int64(math.Floor(min(n+1e-6, float64(maxSum)))))
		if paced == 0 && v.credit.earliest(v.pace, cost) <= until {
			paced = 1
		}
		room = min(room, paced)
	}
	return room
}

// windowRoom: whole windows ending at until hold n each, and the window before
// them n less what it holds already.
func (v *view) windowRoom(n int64, window, from, until Instant) int64 {
	whole := (until - from) / window
	start := until - whole*window - window
	used := int64(0)
	for i := len(v.charges) - 1; i >= 0 && v.charges[i].at > start; i-- {
		used = addCost(used, v.charges[i].cost)
	}
	return addCost(mulCost(n, whole), max(0, n-used))
}

// quotaRoom: what the present period has left and, if until is not in it or
// near its end, all of the periods that follow.
func (v *view) quotaRoom(r *Rate, n int64, from, until Instant) int64 {
	z, err := loadZone(r.Zone)
	if err != nil {
		return 0
	}
	p := z.periodAt(r.Calendar, from)
	left := max(0, n-v.charged(p))
	if until < p.end {
		return left
	}
	const shortest = Instant(22 * time.Hour / time.Microsecond)
	return addCost(left, mulCost(n, 1+(until-p.end)/shortest))
}

// mulCost is a·b, at most maxSum. Neither is negative.
func mulCost(a, b int64) int64 {
	if b != 0 && a > maxSum/b {
		return maxSum
	}
	return a * b
}
