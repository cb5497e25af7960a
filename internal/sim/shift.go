package sim

import (
	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// A process whose clock is off by some time sees the store's clock off by as
// much the other way. In a bubble all share one clock, so the instants between
// the process and the store are moved instead.

// there moves an instant; 0 and what means "never" stay.
func there(at, d int64) int64 {
	if at == 0 || at >= dispatch.Held {
		return at
	}
	return at + d
}

func shiftJob(j *store.Job, d int64) {
	for _, at := range []*int64{&j.At, &j.EnqueuedAt, &j.ExpiresAt, &j.RefusedAt, &j.ThrottledAt, &j.Slot, &j.FinishedAt} {
		*at = there(*at, d)
	}
}

func shiftClaimed(c *store.Claimed, d int64) {
	shiftJob(&c.Job, d)
	charges := make([]dispatch.Charge, len(c.Charges))
	for i, ch := range c.Charges {
		ch.Slot = there(ch.Slot, d)
		charges[i] = ch
	}
	c.Charges = charges
}

func shiftFinish(f store.Finish, d int64) store.Finish {
	f.At, f.Started, f.Passed = there(f.At, d), there(f.Started, d), there(f.Passed, d)
	obs := make([]store.Observed, len(f.Observations))
	for i, o := range f.Observations {
		o.At, o.Slot, o.RetryAt = there(o.At, d), there(o.Slot, d), there(o.RetryAt, d)
		obs[i] = o
	}
	f.Observations = obs
	return f
}
