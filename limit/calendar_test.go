package limit

import (
	"testing"
	"time"
)

func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		zone       string
		calendar   Calendar
		in         string
		start, end string
		length     time.Duration
	}{
		{"UTC", Day, "2026-03-01T10:00:00Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", 24 * time.Hour},
		{"UTC", Month, "2024-02-29T10:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", 29 * 24 * time.Hour},
		{"UTC", Month, "2025-12-31T23:59:59Z", "2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z", 31 * 24 * time.Hour},
		{"America/New_York", Day, "2026-03-08T12:00:00Z", "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", 23 * time.Hour},
		{"America/New_York", Day, "2026-11-01T12:00:00Z", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00", 25 * time.Hour},
		{"Australia/Lord_Howe", Day, "2026-04-05T00:00:00Z", "2026-04-05T00:00:00+11:00", "2026-04-06T00:00:00+10:30", 24*time.Hour + 30*time.Minute},
		// Midnight is skipped: the day begins at one o'clock.
		{"America/Sao_Paulo", Day, "2018-11-04T12:00:00Z", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", 23 * time.Hour},
		{"Asia/Beirut", Day, "2022-03-27T12:00:00Z", "2022-03-27T01:00:00+03:00", "2022-03-28T00:00:00+03:00", 23 * time.Hour},
		// The day before it ends there.
		{"Asia/Beirut", Day, "2022-03-26T12:00:00Z", "2022-03-26T00:00:00+02:00", "2022-03-27T01:00:00+03:00", 24 * time.Hour},
		// Midnight comes twice: the day begins with the first.
		{"America/Havana", Day, "2025-11-02T12:00:00Z", "2025-11-02T00:00:00-04:00", "2025-11-03T00:00:00-05:00", 25 * time.Hour},
		{"Asia/Amman", Day, "2021-10-29T12:00:00Z", "2021-10-29T00:00:00+03:00", "2021-10-30T00:00:00+02:00", 25 * time.Hour},
		// At midnight the clocks go back to eleven of the evening before.
		{"America/Sao_Paulo", Day, "2018-02-17T12:00:00Z", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00", 25 * time.Hour},
		// A date that never was.
		{"Pacific/Apia", Day, "2011-12-30T09:00:00Z", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", 24 * time.Hour},
	} {
		z, err := loadZone(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second answer comes from memory
			p := z.periodAt(c.calendar, at(t, c.in))
			if p != (period{at(t, c.start), at(t, c.end)}) || time.Duration(p.end-p.start)*time.Microsecond != c.length {
				t.Errorf("%s, %s: %v to %v", c.zone, c.in, time.UnixMicro(p.start).In(z.loc), time.UnixMicro(p.end).In(z.loc))
			}
		}
	}
}

// Every instant lies in its period, and each period begins where the one before
// ends, over the changes of the clocks of many years.
func TestPeriodsFollowEachOther(t *testing.T) {
	for _, name := range []string{"America/New_York", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Africa/Cairo", "Europe/London", "Pacific/Apia", "Asia/Tehran"} {
		z, err := loadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []Calendar{Day, Month} {
			p := z.periodAt(c, at(t, "1995-01-01T12:00:00Z"))
			for p.end < at(t, "2030-01-01T00:00:00Z") {
				next := z.periodAt(c, p.end)
				last := z.periodAt(c, p.end-1)
				if next.start != p.end || last != p || next.end <= next.start {
					t.Fatalf("%s: after %v comes %v", name, p, next)
				}
				p = next
			}
		}
	}
}

// A day of 23 hours and one of 25 give exactly one quota each, however many
// calls there are, and the new day starts with nothing charged.
func TestQuotaOnOddDays(t *testing.T) {
	for _, c := range []struct{ day, next string }{
		{"2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00"},
		{"2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
	} {
		var s State
		sp := mustParse(t, "10000/day@America/New_York")
		start, next := at(t, c.day), at(t, c.next)
		s.Take(sp, Ask{Cost: 1}, start-hour) // yesterday's
		now, spent := start+edge, int64(0)
		for {
			at, _ := s.Earliest(sp, Ask{Cost: 7}, now)
			if at >= next {
				break
			}
			s.Take(sp, Ask{Cost: 7}, at)
			spent += 7
			now = at + 61_000_000/7 // the quota is spent over most of the day
		}
		if spent != 9996 {
			t.Errorf("%s: %d of 10000 spent", c.day, spent)
		}
		for _, step := range []struct{ cost, want int64 }{{5, next + edge}, {10000, next + edge}} {
			if got, why := s.Earliest(sp, Ask{Cost: step.cost}, now); got != step.want || why != Window {
				t.Errorf("%s: cost %d at %v after midnight, %v", c.day, step.cost, time.Duration(got-next)*time.Microsecond, why)
			}
		}
		if got, _ := s.Earliest(sp, Ask{Cost: 4}, now); got != now {
			t.Errorf("%s: the last four of the day wait until %d", c.day, got)
		}
	}
}

// A slot within half a second of midnight is charged to both days.
func TestQuotaAtTheEdge(t *testing.T) {
	sp := mustParse(t, "10/day@UTC")
	midnight := at(t, "2026-03-02T00:00:00Z")
	for offset, both := range map[Instant]bool{-edge - 1: false, -edge: true, 0: true, edge - 1: true, edge: false} {
		var s State
		s.Take(sp, Ask{Cost: 10}, midnight+offset)
		z, _ := loadZone("UTC")
		v := s.view(sp)
		before, after := v.charged(z.periodAt(Day, midnight-1)), v.charged(z.periodAt(Day, midnight))
		if (before == 10 && after == 10) != both || before+after < 10 {
			t.Errorf("%d µs from midnight: charged %d and %d", offset, before, after)
		}
	}
}

// Merging old charges loses nothing of a quota: with thousands of calls before
// and after midnight, each day is charged exactly its permits.
func TestQuotaIsExactWhenTheLogIsNot(t *testing.T) {
	var s State
	sp := mustParse(t, "1000/s, 5000/day@Europe/Berlin")
	first := at(t, "2026-03-02T00:00:00+01:00")
	var truth ledger
	for now := first - 10*second; now < first+49*hour; {
		at, _ := s.Earliest(sp, Ask{Cost: 1}, now)
		s.Take(sp, Ask{Cost: 1}, at)
		truth = append(truth, charge{at, 1})
		now = at + 3000
	}
	for day := range Instant(2) {
		midnight := first + day*24*hour
		if n := truth.between(midnight-edge-1, midnight+24*hour+edge-1); n != 5000 {
			t.Errorf("day %d: %d charged, want 5000", day, n)
		}
	}
	if len(s.log.charges) > 400 {
		t.Errorf("%d charges", len(s.log.charges))
	}
}

// In the first half second of a day the one before must still have room.
func TestQuotaWaitsOutTheEdge(t *testing.T) {
	var s State
	sp := mustParse(t, "10/day@UTC")
	midnight := at(t, "2026-03-02T00:00:00Z")
	s.Take(sp, Ask{Cost: 10}, midnight-hour)
	if got, why := s.Earliest(sp, Ask{Cost: 1}, midnight+100_000); got != midnight+edge || why != Window {
		t.Fatalf("%d µs after midnight, %v", got-midnight, why)
	}
	s = State{}
	s.Take(sp, Ask{Cost: 10}, midnight-edge) // charged to both
	if got, _ := s.Earliest(sp, Ask{Cost: 1}, midnight-1); got != midnight+24*hour+edge {
		t.Fatalf("%v after midnight", time.Duration(got-midnight)*time.Microsecond)
	}
}
