package penstock

import (
	"sync/atomic"
	"time"
)

// clock maps the time of this machine to that of the store and back. It holds
// the sample with the shortest round trip, since that one says most.
type clock struct {
	offset atomic.Int64 // store's time less ours, µs
	rtt    atomic.Int64 // of the sample, µs, plus 1; 0: none yet
}

// sample takes in that the store's clock read storeNow at some instant between
// before and after. A sample that does not contradict equal clocks is taken as
// equal clocks: then the mapping adds no error on one machine.
func (c *clock) sample(before, after time.Time, storeNow int64) {
	rtt := after.Sub(before).Microseconds()
	if known := c.rtt.Load(); known != 0 && rtt+1 > known && c.agrees(before, after, storeNow, known) {
		return
	}
	c.offset.Store(offsetOf(before.UnixMicro(), after.UnixMicro(), storeNow))
	c.rtt.Store(rtt + 1)
}

// agrees says whether the mapping in use can be right, given that the store's
// clock read storeNow between before and after. If not, a clock has jumped.
func (c *clock) agrees(before, after time.Time, storeNow, known int64) bool {
	o := c.offset.Load()
	return o >= storeNow-after.UnixMicro()-known && o <= storeNow-before.UnixMicro()+known
}

// age makes newer samples count for more, so that a drifting clock is followed.
func (c *clock) age() {
	if known := c.rtt.Load(); known != 0 {
		c.rtt.Store(known + known/8 + 1)
	}
}

func offsetOf(before, after, storeNow int64) int64 {
	if storeNow >= before && storeNow <= after {
		return 0
	}
	return storeNow - (before + (after-before)/2)
}

func (c *clock) now() int64 { return c.toStore(time.Now()) }

func (c *clock) toStore(t time.Time) int64 { return t.UnixMicro() + c.offset.Load() }

// until is how long it is until the store's clock reads at.
func (c *clock) until(at int64) time.Duration {
	left := at - c.now()
	if left > int64(time.Duration(1<<63-1)/time.Microsecond) {
		return 1<<63 - 1
	}
	return time.Duration(left) * time.Microsecond
}
