package sim

import "testing"

// enough is within how many seeds each planted bug must be found.
const enough = 60

// TestPlantedBugs puts known bugs in, one at a time, and wants each found by the
// promise it breaks.
func TestPlantedBugs(t *testing.T) {
	for _, tt := range []struct {
		plant Plant
		by    []Kind // each must have noticed
	}{
		{WakeLost, []Kind{Stuck}},
		{InsertAsleep, []Kind{Overslept}},
		{ReleaseTwice, []Kind{Permits}},
		{SlotBackwards, []Kind{Slots, Window}},
		{RescueBlind, []Kind{Taken}},
		{FinishBlind, []Kind{Leases}},
	} {
		t.Run(string(tt.plant), func(t *testing.T) {
			seen := map[Kind]Violation{}
			seeds := map[Kind]uint64{}
			for seed := uint64(1); seed <= enough; seed++ {
				for _, v := range Run(t, seed, Options{Plant: tt.plant}).Violations {
					if _, known := seen[v.Kind]; !known {
						seen[v.Kind], seeds[v.Kind] = v, seed
					}
				}
				if all(tt.by, seen) {
					break
				}
			}
			for _, k := range tt.by {
				if v, ok := seen[k]; ok {
					t.Logf("found by seed %d: %v", seeds[k], v)
					if !again(t, seeds[k], tt.plant, k) {
						t.Errorf("seed %d did not show it again in three replays", seeds[k])
					}
				} else {
					t.Errorf("%d seeds did not show that it breaks %q; seen was %v", enough, k, seen)
				}
			}
		})
	}
}

// again says whether a seed shows a violation when it is replayed.
func again(t *testing.T, seed uint64, p Plant, k Kind) bool {
	for range 3 {
		for _, v := range Run(t, seed, Options{Plant: p}).Violations {
			if v.Kind == k {
				return true
			}
		}
	}
	return false
}

func all(kinds []Kind, seen map[Kind]Violation) bool {
	for _, k := range kinds {
		if _, ok := seen[k]; !ok {
			return false
		}
	}
	return true
}

// TestReplays plays seeds twice: the journals must be equal, but for the very few
// in which what the runtime does at random in one instant made a difference. That
// is about one in five hundred, and one in ten under the race detector, which
// shuffles goroutines; the bound allows for that.
func TestReplays(t *testing.T) {
	const seeds, least = 40, 30
	same := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		if a, b := Run(t, seed, Options{}), Run(t, seed, Options{}); a.Digest == b.Digest {
			same++
		} else {
			t.Logf("seed %d differs", seed)
		}
	}
	t.Logf("%d of %d seeds were the same twice", same, seeds)
	if same < least {
		t.Errorf("%d of %d seeds were the same when played twice, expected at least %d", same, seeds, least)
	}
}
