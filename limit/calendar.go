package limit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	_ "time/tzdata" // zones must be the same on a machine that has no zone files
)

// edge is how close to a reset a slot may be and still be charged to the
// periods on both sides: the API's midnight is not exactly ours. It does not
// follow the learned guard, because the log keeps its counts apart exactly here.
const edge = Instant(500 * time.Millisecond / time.Microsecond)

// period is one day or month of a zone, from its first instant to that of the
// next.
type period struct{ start, end Instant }

// covers reports whether a slot at t is charged to the period.
func (p period) covers(t Instant) bool { return t >= p.start-edge && t < p.end+edge }

// zone is a time zone with its latest day and month, because neighbouring
// questions are nearly always about the same ones. It never changes what
// periodAt returns, only how fast.
type zone struct {
	loc    *time.Location
	recent [Month + 1]atomic.Pointer[period]
}

var zones sync.Map // name -> *zone

// loadZone finds an IANA zone. The error text says what was expected.
func loadZone(name string) (*zone, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*zone), nil
	}
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("expected the name of a zone, such as America/New_York or UTC, got %q", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("expected the name of a zone, such as America/New_York or UTC, got %q, which the time zone database does not know", name)
	}
	z, _ := zones.LoadOrStore(name, &zone{loc: loc})
	return z.(*zone), nil
}

// periodAt is the day or month that contains t.
func (z *zone) periodAt(c Calendar, t Instant) period {
	if p := z.recent[c].Load(); p != nil && t >= p.start && t < p.end {
		return *p
	}
	y, m, d := time.UnixMicro(t).In(z.loc).Date()
	var p period
	if c == Month {
		p = period{z.firstInstant(y, m, 1), z.firstInstant(y, m+1, 1)}
	} else {
		p = period{z.firstInstant(y, m, d), z.firstInstant(y, m, d+1)}
	}
	z.recent[c].Store(&p)
	return p
}

// firstInstant is when a date begins in the zone. That is midnight, unless the
// clocks skip midnight or pass it twice, where time.Date may answer with either
// side.
func (z *zone) firstInstant(y int, m time.Month, d int) Instant {
	t := time.Date(y, m, d, 0, 0, 0, 0, z.loc)
	want := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	if ly, lm, ld := t.Date(); time.Date(ly, lm, ld, 0, 0, 0, 0, time.UTC).Before(want) {
		_, next := t.ZoneBounds() // midnight was skipped: the date begins where the clocks jump
		return next.UnixMicro()
	}
	since, _ := t.ZoneBounds()
	if since.IsZero() {
		return t.UnixMicro()
	}
	_, now := t.Zone()
	_, before := since.Add(-time.Second).Zone()
	if first := t.Add(time.Duration(now-before) * time.Second); first.Before(since) && first.Before(t) {
		return first.UnixMicro() // midnight came twice: the earlier one
	}
	return t.UnixMicro()
}
