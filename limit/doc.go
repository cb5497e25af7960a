// Package limit decides when calls to a rate-limited API may start.
//
// A [Spec] is what a person writes ("10/s, 1000/h, 20 in flight"). A [State]
// is what a limit remembers: the slots it granted, the calls in flight, its
// pauses, the guard it learned, what the API said is left, and at most one booking. [State.Earliest] says
// when the next call may start, [State.Take] charges it, [State.Release] ends
// it and [State.Observe] learns from the response.
//
// The promise of a rate N/W: in no window of length W, wherever it starts, do
// more than N permits, by cost, have their slot.
//
// Rates count cost; the in-flight cap counts calls, one per start, whatever
// they cost.
//
// The package is pure: values in, values out. It reads no clock and no
// network, and rolls no dice that are not handed in. The only thing it reads is
// the time zone database, a copy of which is built in. A State is not safe for
// concurrent use; a Spec is, as long as nobody changes it.
package limit

import (
	"math"
	"time"
)

// Instant is a point in time: microseconds since the Unix epoch, on the clock
// of the store.
type Instant = int64

// Never is the instant that does not come by waiting.
const Never Instant = math.MaxInt64

// Delta (δ) is the latest a start may be after its slot. Windows are spaced
// for it, so a start within Delta of its slot cannot break the promise.
const Delta = 10 * time.Millisecond

// MaxAhead is how far ahead of now a slot may be taken. One that lies further
// ahead is held to be written under a clock that has since been put back, and
// is forgotten.
const MaxAhead = 10 * time.Minute

const (
	maxInstant Instant = 253402300799999999 // the end of year 9999
	maxAhead           = Instant(MaxAhead / time.Microsecond)
)

// clampInstant brings wild values into the years 1970 to 9999, so that sums of
// instants and windows cannot overflow.
func clampInstant(t Instant) Instant { return min(max(t, 0), maxInstant) }

// micros is d in whole microseconds.
func micros(d time.Duration) Instant { return Instant(d / time.Microsecond) }
