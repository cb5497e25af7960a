package limit

import (
	"encoding/binary"
	"math"
)

// hasPast says whether there is anything that only people look at.
func (s *State) hasPast() bool {
	return s.api.since != 0 || s.person.since != 0 || s.refused.cause != (Refusal{}) || len(s.refused.log) > 0
}

// appendPast writes when pauses began, the cause of the API's, and refusals,
// oldest first, each as the microseconds since the one before it and its number.
func (s *State) appendPast(b []byte) []byte {
	for _, x := range s.past() {
		b = binary.AppendUvarint(b, uint64(*x))
	}
	b = binary.AppendUvarint(b, uint64(len(s.refused.log)))
	before := Instant(0)
	for _, r := range s.refused.log {
		b = binary.AppendUvarint(b, uint64(r.at-before))
		b = binary.AppendUvarint(b, uint64(r.cost))
		before = r.at
	}
	return b
}

func (s *State) past() [4]*int64 {
	return [...]*int64{&s.api.since, &s.person.since, &s.refused.cause.At, &s.refused.cause.Job}
}

func (s *State) decodePast(d *decoder) {
	for _, x := range s.past() {
		*x = d.int(math.MaxInt64)
	}
	for _, at := range [...]Instant{s.api.since, s.person.since, s.refused.cause.At} {
		if at > maxInstant {
			d.fail("an instant out of range")
		}
	}
	n := d.int(maxRefusals)
	at := Instant(0)
	for i := range n {
		delta, count := d.int(maxInstant-at), d.int(maxSum)
		if d.fault != "" {
			return
		}
		if delta == 0 && i > 0 || count == 0 {
			d.fail("refusals out of order or out of range")
			return
		}
		at += delta
		s.refused.log = append(s.refused.log, charge{at, count})
	}
}
