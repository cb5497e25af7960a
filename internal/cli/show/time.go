package show

import (
	"math"
	"strconv"
	"time"
)

// Duration writes a duration with its two largest units: 350ms, 4.2s, 3m20s,
// 2h5m, 3d4h.
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(-d)
	}
	two := func(n time.Duration, unit string, rest time.Duration, small string) string {
		s := strconv.FormatInt(int64(n), 10) + unit
		if rest > 0 {
			s += strconv.FormatInt(int64(rest), 10) + small
		}
		return s
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 9950*time.Millisecond:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	if d = d.Round(time.Second); d < time.Hour {
		if d < time.Minute {
			return strconv.FormatInt(int64(d/time.Second), 10) + "s"
		}
		return two(d/time.Minute, "m", d%time.Minute/time.Second, "s")
	}
	if d = d.Round(time.Minute); d < day {
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "m")
	}
	return two(d/day, "d", d%day/time.Hour, "h")
}

// Between is the duration from one instant of the store to a later one. It is at
// most 292 years, which is as far as durations go.
func Between(from, to int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(to-from, -most), most)) * time.Microsecond
}

// Age is how long ago an instant was: "3m20s". "" for none.
func Age(now, at int64) string {
	if at == 0 {
		return ""
	}
	return Duration(max(0, Between(at, now)))
}

// Clock is an instant for people, in local time, with the date unless it is
// today's: "15:04:05", "2006-01-02 15:04:05". "" for none.
func Clock(now, at int64) string {
	if at == 0 {
		return ""
	}
	if at >= never-1 {
		return "never"
	}
	t, n := time.UnixMicro(at).Local(), time.UnixMicro(now).Local()
	if t.YearDay() == n.YearDay() && t.Year() == n.Year() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// When is an instant for people and how far it is away: "15:04:05 (in 3m20s)",
// "15:04:05 (3m20s ago)". "" for none.
func When(now, at int64) string {
	switch {
	case at == 0 || at >= never-1:
		return Clock(now, at)
	case at > now:
		return Clock(now, at) + " (in " + Duration(Between(now, at)) + ")"
	}
	return Clock(now, at) + " (" + Duration(Between(at, now)) + " ago)"
}
