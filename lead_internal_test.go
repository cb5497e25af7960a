package penstock

import (
	"testing"
	"time"
)

// The lead follows slow claims at once, and falls to nothing within a few quick
// ones: kept for longer, it would hold places that wait for far slots, and a run of
// quick calls would crawl.
func TestLeadFollowsClaims(t *testing.T) {
	var l lead
	l.claimed(time.Millisecond)
	if l.now() != 0 {
		t.Errorf("lead %v after a quick claim", l.now())
	}
	l.claimed(400 * time.Millisecond)
	if l.now() != 800*time.Millisecond {
		t.Errorf("lead %v after a claim of 400 ms", l.now())
	}
	l.claimed(time.Hour)
	if l.now() != leadMost {
		t.Errorf("lead %v after a claim of an hour, at most %v", l.now(), leadMost)
	}
	for range 15 {
		l.claimed(time.Millisecond)
	}
	if l.now() != 0 {
		t.Errorf("lead %v after 15 quick claims", l.now())
	}
}
