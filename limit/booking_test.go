package limit

import "testing"

// A costly ask at the head is not starved by a stream of small ones: cost 8 of
// 10 in 10 s against an endless stream of cost 1. Without a booking it would
// never run.
func TestACostlyAskIsNotStarved(t *testing.T) {
	for _, book := range []bool{true, false} {
		var s State
		sp := mustParse(t, "10/10s")
		big := Ask{Cost: 8, Priority: 5, Holder: 1}
		now, ran := testStart, Instant(0)
		takeAll(&s, sp, now, now+20*second, 1000)
		now += 20 * second
		begun := now
		for ran == 0 && now < begun+10*minute {
			if at, _ := s.Earliest(sp, big, now); at <= now {
				s.Take(sp, big, now)
				ran = now - begun
			} else if _, has := s.Booking(now); book && !has {
				s.Book(Booking{At: at, Expires: at + second, Cost: 8, Priority: 5, Holder: 1})
			}
			small := Ask{Cost: 1, Priority: 5, Holder: 2}
			if at, _ := s.Earliest(sp, small, now); at <= now {
				s.Take(sp, small, now)
			}
			now += 10_000
		}
		if book && (ran == 0 || ran > 12*second) {
			t.Errorf("with a booking it ran after %d s", ran/second)
		}
		if !book && ran != 0 {
			t.Errorf("without one it ran after %d s: the trial proves nothing", ran/second)
		}
	}
}

func TestBookingsByRank(t *testing.T) {
	b := func(holder uint64, priority int, at Instant) Booking {
		return Booking{At: testStart + at, Expires: testStart + at + minute, Cost: 2, Priority: priority, Holder: holder}
	}
	for name, c := range map[string]struct {
		books []Booking
		want  uint64
	}{
		"the first stays":             {[]Booking{b(1, 5, 10), b(2, 5, 20)}, 1},
		"an earlier one replaces":     {[]Booking{b(1, 5, 20), b(2, 5, 10)}, 2},
		"a higher one replaces":       {[]Booking{b(1, 5, 10), b(2, 6, 20)}, 2},
		"a lower one does not":        {[]Booking{b(1, 5, 20), b(2, 4, 10)}, 1},
		"the holder moves its own":    {[]Booking{b(1, 5, 10), b(1, 4, 30), b(2, 5, 40)}, 2},
		"one that is none is no such": {[]Booking{b(1, 5, 10), {Holder: 2, Priority: 9}}, 1},
	} {
		var s State
		for _, x := range c.books {
			s.Book(x)
		}
		if got, ok := s.Booking(testStart); !ok || got.Holder != c.want {
			t.Errorf("%s: holder %d, want %d", name, got.Holder, c.want)
		}
	}
	var s State
	s.Book(b(1, 5, 0))
	s.DropBooking(2)
	if _, ok := s.Booking(testStart); !ok {
		t.Error("dropped by another")
	}
	if _, ok := s.Booking(testStart + minute); ok {
		t.Error("an expired booking is in force")
	}
	s.DropBooking(1)
	if _, ok := s.Booking(testStart); ok {
		t.Error("not dropped by its holder")
	}
}

func TestWhomABookingHoldsUp(t *testing.T) {
	sp := mustParse(t, "10/10s burst 10")
	base := func() *State {
		var s State
		s.Take(sp, Ask{Cost: 5}, testStart)
		s.Book(Booking{At: testStart + 10_500_000, Expires: testStart + minute, Cost: 8, Priority: 5, Holder: 1})
		return &s
	}
	now := testStart + 5*second
	for name, c := range map[string]struct {
		ask  Ask
		free bool
	}{
		"fits beside it":          {Ask{Cost: 2, Priority: 5, Holder: 2}, true},
		"does not":                {Ask{Cost: 3, Priority: 5, Holder: 2}, false},
		"lower, does not":         {Ask{Cost: 3, Priority: 1, Holder: 2}, false},
		"higher goes first":       {Ask{Cost: 3, Priority: 6, Holder: 2}, true},
		"the holder's own lesser": {Ask{Cost: 3, Priority: 5, Holder: 1}, true},
	} {
		got, why := base().Earliest(sp, c.ask, now)
		if (got == now) != c.free || (why == Booked) == c.free {
			t.Errorf("%s: %d µs, %v", name, got-now, why)
		}
	}
	// After the booked ask there is room again in its window.
	if got, _ := base().Earliest(sp, Ask{Cost: 3, Priority: 5}, now); got != testStart+21*second {
		t.Errorf("behind the booking at %d", got-testStart)
	}
	// An expired booking, and one that can never be met, hold up nobody.
	if _, why := base().Earliest(sp, Ask{Cost: 3, Priority: 5}, testStart+minute); why != None {
		t.Errorf("expired: %v", why)
	}
	if got, why := base().Earliest(mustParse(t, "7/10s burst 7"), Ask{Cost: 2, Priority: 5}, now); got != now {
		t.Errorf("a booking of 8 after a cut to 7: %d, %v", got-now, why)
	}
	// Whose instant has come keeps its place until it expires.
	if _, why := base().Earliest(sp, Ask{Cost: 3, Priority: 5}, testStart+12*second); why != Booked {
		t.Errorf("late holder: %v", why)
	}
}
