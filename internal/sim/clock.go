package sim

import (
	"math/rand/v2"
	"sync"
	"time"
)

// storeClock is the clock of the store: it runs like the bubble's, is off by
// some hours, and jumps.
type storeClock struct {
	mu    sync.Mutex
	off   time.Duration
	jumps []int64 // when it jumped, µs since the world began
	log   *journal
	last  time.Time
}

func newStoreClock(r *rand.Rand, log *journal) *storeClock {
	return &storeClock{log: log, off: 26*365*24*time.Hour + between(r, -10*time.Hour, 10*time.Hour)}
}

// Now is the clock's time in microseconds.
func (c *storeClock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off).UnixMicro()
}

// jump moves the clock.
func (c *storeClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
	c.last = time.Now()
	c.jumps = append(c.jumps, c.log.now())
}

// jumped is when it last jumped; zero: never.
func (c *storeClock) jumped() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// jumpedBetween says whether it jumped between two instants, given in µs since
// the world began.
func (c *storeClock) jumpedBetween(from, to int64) bool {
	for _, at := range c.jumps {
		if from < at && at <= to {
			return true
		}
	}
	return false
}
