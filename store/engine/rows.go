package engine

import (
	"cmp"
	"slices"

	"github.com/penstockhq/penstock/store"
)

// What stores do alike with rows.

// SplitStates tells the states of hot rows from those of ended ones; none are all.
func SplitStates(states []store.State) (hot, ended []store.State) {
	if len(states) == 0 {
		return []store.State{store.Waiting, store.Running}, []store.State{store.Done, store.Dead, store.Cancelled}
	}
	for _, s := range states {
		if s.Ended() {
			ended = append(ended, s)
		} else {
			hot = append(hot, s)
		}
	}
	return hot, ended
}

// SortFound puts jobs in the order that a filter asks for.
func SortFound(f store.Filter, jobs []*Job) {
	slices.SortFunc(jobs, func(a, b *Job) int {
		if f.Newest {
			a, b = b, a
		}
		return cmp.Compare(a.ID, b.ID)
	})
}

// InOrder puts jobs in the order of ids, nil for the missing ones.
func InOrder(ids []int64, jobs []*Job) []*Job {
	byID := make(map[int64]*Job, len(jobs))
	for _, j := range jobs {
		byID[j.ID] = j
	}
	ordered := make([]*Job, len(ids))
	for i, id := range ids {
		ordered[i] = byID[id]
	}
	return ordered
}

// JobIDs are the ids of jobs.
func JobIDs(jobs []*Job) []int64 {
	ids := make([]int64, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

// SameLease reports whether one statement can write both leases.
func SameLease(a, b *Job) bool {
	return slices.Equal(a.Charges, b.Charges) && a.State == b.State && a.Worker == b.Worker && a.Token == b.Token &&
		a.Slot == b.Slot && a.LeaseAt == b.LeaseAt && a.Starts == b.Starts
}
