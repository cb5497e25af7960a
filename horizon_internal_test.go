package penstock

import (
	"testing"
	"time"
)

func TestHorizonFollowsClaims(t *testing.T) {
	var h horizon
	few := func() { h.claimed(2, 20, false, true) }
	if h.now() != horizonLeast {
		t.Fatalf("%v at first, expected %v", h.now(), horizonLeast)
	}
	for range 10 {
		few()
	}
	if h.now() != horizonMost {
		t.Errorf("%v after claims that brought two slots each, expected %v", h.now(), horizonMost)
	}
	for name, claimed := range map[string]func(){
		"places are short":    func() { h.claimed(2, 3, false, true) },
		"one is in flight":    func() { h.claimed(1, 20, true, true) },
		"claims bring plenty": func() { h.claimed(horizonMany+1, 1000, false, true) },
	} {
		h.d = horizonMost
		for range 10 {
			claimed()
		}
		if h.now() != horizonLeast {
			t.Errorf("%s: %v, expected %v", name, h.now(), horizonLeast)
		}
	}
	for name, claimed := range map[string]func(){
		"nothing more waits": func() { h.claimed(1, 20, false, false) },
		"no slots":           func() { h.claimed(0, 20, false, true) },
		"enough slots":       func() { h.claimed(horizonFew, 20, false, true) },
	} {
		h.d = 0
		claimed()
		if h.now() != horizonLeast {
			t.Errorf("%s: %v, expected %v as before", name, h.now(), time.Duration(horizonLeast))
		}
	}
}
