package limit

import "time"

const (
	maxRefusals   = 24                                      // entries kept
	refusalsKept  = Instant(time.Hour / time.Microsecond)   // for so long
	refusalsApart = Instant(time.Second / time.Microsecond) // closer ones are one entry
)

// Refusal is a call that the API refused.
type Refusal struct {
	At  Instant // when the answer came
	Job int64   // whose call it was; 0: not known
}

// refusals is what is remembered of refusals for people to look at. Nothing is
// decided by it.
type refusals struct {
	log   []charge // oldest first: how many came after the entry before it, up to its instant
	cause Refusal  // the one that set the API's last pause; At 0: none yet
}

func (r *refusals) add(at Instant) {
	for len(r.log) > 0 && r.log[0].at < at-refusalsKept {
		r.log = r.log[1:]
	}
	if n := len(r.log); n > 0 && at < r.log[n-1].at+refusalsApart {
		r.log[n-1].cost++
		return
	}
	if len(r.log) >= maxRefusals {
		r.log = halve(r.log)
	}
	r.log = append(r.log, charge{at, 1})
}

// forget drops what lies after an instant: the clock was put back.
func (r *refusals) forget(far Instant) {
	for n := len(r.log); n > 0 && r.log[n-1].at > far; n-- {
		r.log = r.log[:n-1]
	}
	if r.cause.At > far {
		r.cause = Refusal{}
	}
}

// Cause is the refusal that set, or last made longer, the last pause by the API;
// false if there was none yet. The pause may be over.
func (s *State) Cause() (Refusal, bool) { return s.refused.cause, s.refused.cause.At != 0 }

// History counts the permits granted, by cost, and the refusals that came in n
// periods of this length, the last of which ends at now. What was merged in the
// state is spread evenly over the time it may be from; a long past is forgotten,
// refusals after an hour.
func (s *State) History(now Instant, period time.Duration, n int) (granted, refused []int64) {
	now = clampInstant(now)
	granted, refused = make([]int64, max(0, n)), make([]int64, max(0, n))
	spread(granted, s.log.charges, now, max(1, micros(period)))
	for _, r := range s.refused.log {
		put(refused, r.at, now, max(1, micros(period)), r.cost)
	}
	return granted, refused
}

// spread deals each charge out over the periods between the charge before it and
// its own instant.
func spread(into []int64, charges []charge, now, period Instant) {
	for i, c := range charges {
		from := c.at
		if i > 0 {
			from = charges[i-1].at
		}
		// A charge of one permit happened once: at its instant.
		steps := min((c.at-from)/period, c.cost-1)
		if steps <= 0 {
			put(into, c.at, now, period, c.cost)
			continue
		}
		dealt := int64(0)
		for k := Instant(1); k <= steps+1; k++ {
			share := int64(float64(c.cost)*float64(k)/float64(steps+1)) - dealt
			dealt += share
			put(into, from+(c.at-from)/(steps+1)*k, now, period, share)
		}
	}
}

// put counts n at an instant in its period.
func put(into []int64, at, now, period Instant, n int64) {
	if at > now {
		at = now // a slot granted ahead
	}
	if i := len(into) - 1 - int((now-at)/period); i >= 0 {
		into[i] = addCost(into[i], n)
	}
}

// Use is how many permits of a rate are taken now, of how many: in the window
// that ends now, or in the present period of a calendar quota. Slots ahead of
// now count.
func (s *State) Use(r Rate, now Instant) (used, of int64) {
	now = clampInstant(now)
	n, w := r.Limit()
	if r.Calendar == Rolling {
		return s.Used(w, now), n
	}
	z, err := loadZone(r.Zone)
	if err != nil {
		return 0, n
	}
	for _, c := range s.log.charges {
		if z.periodAt(r.Calendar, now).covers(c.at) {
			used = addCost(used, c.cost)
		}
	}
	return used, n
}
