package penstock

import (
	"math"
	"time"

	"github.com/penstockhq/penstock/store"
)

const (
	horizonLeast = 50 * time.Millisecond  // for a commit to be over when the slot comes
	horizonMost  = 200 * time.Millisecond // for a pause to reach nearly everything that has not begun
	farAhead     = 40 * time.Millisecond  // how long handlers may take to get through what a claim brings under limits that are far away
	horizonFew   = 8                      // slots: a claim that brings fewer costs more than need be
	horizonMany  = 2 * horizonFew
)

// horizon is how far ahead of now a slot may lie that is granted. Under a limit that
// lets a start through now and then it grows, so that a claim brings several: of few
// starts a pause may come too late for the same few, however far ahead they lie.
type horizon struct {
	d        time.Duration
	cautious bool // an API refused a call, and none was let through since
}

func (h *horizon) now() time.Duration { return max(h.d, horizonLeast) }

// stagger is how much later than it could a worker comes for permits that claims as r
// says, by a chance of 0 to 1. All may come as late as those whose horizon did not grow,
// as long as that leaves the lead: else who reaches far would always come first, and a
// worker that is new would get nothing.
func stagger(r store.ClaimRequest, chance float64) time.Duration {
	return time.Duration(chance * float64(r.Ahead()-max(r.Lead, horizonLeast/4)))
}

// claimed is told of a claim that brought starts with slots, how many there were places
// for, whether one of them holds a permit in flight from now on, and how soon it is worth
// another one, or forever. What waits for its slot keeps a place, and such a permit, from
// others: where these are short, slots should not lie far ahead. A claim that brought
// nothing since others have been granted all that lies within the horizon, and more, should
// reach as far as theirs.
func (h *horizon) claimed(slots, places int, inFlight bool, next time.Duration) {
	overtaken := slots == 0 && next > h.now() && next <= horizonMost && !h.cautious
	switch {
	case inFlight || 2*slots > places || slots > horizonMany:
		h.d = max(h.now()/2, horizonLeast)
	case overtaken || slots > 0 && slots < horizonFew && next < forever:
		h.d = min(h.now()*3/2, horizonMost)
	}
	h.cautious = h.cautious && slots == 0
}

// forever is how long who was told of no instant waits for one.
const forever = time.Duration(math.MaxInt64)

// refused is told that an API refused a call. Until some are let through, the claims
// that come find out with few starts whether others are.
func (h *horizon) refused() { h.d, h.cautious = 0, true }
