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
	l.claimed(time.Millisecond, 10)
	if l.now() != 0 {
		t.Errorf("lead %v after a quick claim", l.now())
	}
	l.claimed(400*time.Millisecond, 10)
	if l.now() != 800*time.Millisecond {
		t.Errorf("lead %v after a claim of 400 ms", l.now())
	}
	l.claimed(time.Hour, 10)
	if l.now() != leadMost {
		t.Errorf("lead %v after a claim of an hour, at most %v", l.now(), leadMost)
	}
	for range 15 {
		l.claimed(time.Millisecond, 10)
	}
	if l.now() != 0 {
		t.Errorf("lead %v after 15 quick claims", l.now())
	}
}

// Claims that bring nothing are quick, and say nothing of those that bring much; but
// where only small ones are left, the lead follows them in the end.
func TestLeadKeepsToClaimsOfItsSize(t *testing.T) {
	var l lead
	l.claimed(20*time.Millisecond, 1000)
	for range 5 {
		l.claimed(time.Millisecond, 0)
	}
	if l.now() != 40*time.Millisecond {
		t.Errorf("lead %v after claims of nothing", l.now())
	}
	for range 100 {
		l.claimed(time.Millisecond, 1)
	}
	if l.now() != 0 {
		t.Errorf("lead %v after 100 quick claims of one job", l.now())
	}
}
