package memory

import (
	"cmp"
	"slices"
)

// entry is a row's place in an index: by at, then by id.
type entry struct{ at, id int64 }

func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.id, o.id))
}

// index is a sorted slice. A nil index is an empty one for reading.
type index struct{ entries []entry }

// add reports whether the entry is new.
func (x *index) add(e entry) bool {
	i, found := slices.BinarySearchFunc(x.entries, e, entry.compare)
	if !found {
		x.entries = slices.Insert(x.entries, i, e)
	}
	return !found
}

// remove reports whether the entry was there.
func (x *index) remove(e entry) bool {
	i, found := slices.BinarySearchFunc(x.entries, e, entry.compare)
	if found {
		x.entries = slices.Delete(x.entries, i, i+1)
	}
	return found
}

// first returns up to n entries at or after from and not after upTo.
func (x *index) first(from entry, upTo int64, n int) []entry {
	if x == nil || n <= 0 {
		return nil
	}
	i, _ := slices.BinarySearchFunc(x.entries, from, entry.compare)
	rest := x.entries[i:]
	end := 0
	for end < len(rest) && end < n && rest[end].at <= upTo {
		end++
	}
	return slices.Clone(rest[:end])
}

func (x *index) all() []entry {
	if x == nil {
		return nil
	}
	return x.entries
}
