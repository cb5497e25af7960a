package results

// idSet is a set of job ids. Those of a run lie close together, so it takes
// about a bit for each.
type idSet map[int64]*[64]uint64

const pageBits = 12 // of ids per page: 64 words of 64 bits

func (s idSet) has(id int64) bool {
	p := s[id>>pageBits]
	return p != nil && p[id>>6&63]&(1<<(id&63)) != 0
}

// add reports whether the id is new.
func (s idSet) add(id int64) bool {
	p := s[id>>pageBits]
	if p == nil {
		p = new([64]uint64)
		s[id>>pageBits] = p
	}
	word, bit := &p[id>>6&63], uint64(1)<<(id&63)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}
