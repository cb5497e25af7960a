// Package storetest is the conformance suite of stores. A store's test file
// calls Run with a Factory; every promise of package store is then tried
// against the real thing, and each test ends with an Audit.
//
// It also holds what tests above the stores need: a wrapper that plays dead
// (Faulty) and hooks into the transactions beneath a store (Hook, Count).
package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Factory opens stores for tests, each empty and of its own, and says by the
// fields of Handle what they can do.
type Factory struct {
	// Open opens an empty store. It registers with t whatever must be removed
	// afterwards; the suite closes the store itself.
	Open func(t testing.TB, o Options) Handle
}

// Options are what the suite asks of a store.
type Options struct {
	// Now is the clock the store is to keep, in microseconds since the epoch.
	Now func() int64
	// Wrap is put between the store's rows and the engine; nil: nothing is.
	Wrap func(engine.DB) engine.DB
}

func (o Options) wrap(db engine.DB) engine.DB {
	if o.Wrap == nil {
		return db
	}
	return o.Wrap(db)
}

// NewEngine returns the engine's store over db, with what Options put between.
func (o Options) NewEngine(db engine.DB) store.Store { return engine.New(o.wrap(db)) }

// Handle is an opened store and its capabilities.
type Handle struct {
	Store store.Store
	// Own is Store with ways to write that go past Options.Wrap, for tests that put
	// nothing there; nil: it has none.
	Own store.Store
	// Another opens one more handle on the same data, as another process would;
	// nil: the store has no others.
	Another func(t testing.TB) store.Store
	// Kill makes it known at first hand that the worker's process is gone; nil:
	// the store knows no such thing.
	Kill func(worker string)
}

// Clock is a clock that moves when told to. It is safe for concurrent use.
type Clock struct{ now atomic.Int64 }

// Epoch is where a Clock starts: a Thursday noon.
var Epoch = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).UnixMicro()

// NewClock returns a clock that says Epoch.
func NewClock() *Clock {
	c := new(Clock)
	c.now.Store(Epoch)
	return c
}

// Now is the clock's time in microseconds.
func (c *Clock) Now() int64 { return c.now.Load() }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.now.Add(d.Microseconds()) }

// To moves the clock to the instant, never backwards.
func (c *Clock) To(at int64) {
	for {
		now := c.now.Load()
		if at <= now || c.now.CompareAndSwap(now, at) {
			return
		}
	}
}

// test is one test of the suite.
type test struct {
	name string
	run  func(*env)
}

// Run tries every promise of the store contract, each on a store of its own.
func Run(t *testing.T, f Factory) {
	if f.Open == nil {
		t.Fatal("storetest: Factory.Open is nil: expected a function that opens an empty store")
	}
	seen := make(map[string]bool)
	for _, group := range [][]test{
		insertTests, startTests, loadTests, claimTests, orderTests, placesTests, expiryTests,
		permitTests, nextTests, finishTests, throttleTests, leaseTests, rescueTests,
		cancelTests, replayTests, effectTests, limitTests, queueTests, inspectTests, whyTests,
		eventTests, byteTests, operateTests, tidyTests, hazardTests, cutTests, caseTests, flatTests, randomTests, processTests,
	} {
		for _, tt := range group {
			if seen[tt.name] {
				panic(fmt.Sprintf("storetest: two tests are called %s", tt.name))
			}
			seen[tt.name] = true
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				tt.run(newEnv(t, f))
			})
		}
	}
}
