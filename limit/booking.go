package limit

// Booking keeps room for one costly ask, so that a stream of small ones does
// not starve it. A limit has at most one.
type Booking struct {
	At       Instant // the slot that is wished for
	Expires  Instant // from here on the booking is ignored
	Cost     int64
	Priority int
	Holder   uint64
}

// Book notes a booking. It replaces one of the same holder and a weaker one: of
// lower priority, or of the same and later. A stronger one stays.
func (s *State) Book(b Booking) {
	b.At, b.Expires, b.Cost = clampInstant(b.At), clampInstant(b.Expires), clampCost(b.Cost)
	old := s.booking
	expired := old.Expires <= s.last // the last slot is the best clock here
	stronger := b.Priority > old.Priority || b.Priority == old.Priority && b.At < old.At
	if b.Expires > 0 && (old.Expires == 0 || expired || old.Holder == b.Holder || stronger) {
		s.booking = b
	}
}

// DropBooking removes the holder's booking, if there is one.
func (s *State) DropBooking(holder uint64) {
	if s.booking.Holder == holder {
		s.booking = Booking{}
	}
}

// Booking returns the booking in force; false if there is none.
func (s *State) Booking(now Instant) (Booking, bool) {
	if !s.bookingAt(clampInstant(now)) {
		return Booking{}, false
	}
	return s.booking, true
}

func (s *State) bookingAt(now Instant) bool { return s.booking.Expires > now }

// besideBooking is the first slot for an ask that must leave the booking
// possible: e, its earliest slot without the booking, if the booked ask can
// still follow in its time; else the first slot after the booked ask. The limit
// is open from from on.
func (v *view) besideBooking(b Booking, cost int64, e, from Instant) (Instant, Why) {
	// The booked ask goes at its instant, or when it can if that has slipped.
	at, _ := v.earliest(b.Cost, max(b.At, from))
	if at == Never {
		return e, None // nobody waits for what cannot be
	}
	if e <= at {
		after := v.with(cost, e)
		if t, _ := after.earliest(b.Cost, at); t == at {
			return e, None
		}
	}
	after := v.with(b.Cost, at)
	t, _ := after.earliest(cost, at)
	return t, Booked
}
