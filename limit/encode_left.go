package limit

import "encoding/binary"

const (
	leftByCost = 1 << iota
	leftOurs
	leftMild
)

func (l *left) append(b []byte) []byte {
	flags := byte(0)
	if l.byCost {
		flags |= leftByCost
	}
	if l.ours {
		flags |= leftOurs
	}
	if l.mild {
		flags |= leftMild
	}
	b = append(b, flags)
	for _, x := range l.fields() {
		b = binary.AppendUvarint(b, uint64(*x))
	}
	return binary.AppendVarint(b, l.n)
}

// fields are the numbers that are never negative.
func (l *left) fields() [3]*int64 { return [...]*int64{&l.slot, &l.reset, &l.whole} }

func (l *left) decode(d *decoder) {
	flags := d.byte()
	if flags&^(leftByCost|leftOurs|leftMild) != 0 {
		d.fail("unknown flags")
	}
	l.byCost, l.ours, l.mild = flags&leftByCost != 0, flags&leftOurs != 0, flags&leftMild != 0
	for _, x := range l.fields() {
		*x = d.int(maxSum)
	}
	l.n = d.signed()
	if l.n < -maxSum || l.n > maxSum || l.slot > maxInstant || l.reset > maxInstant || l.reset == 0 {
		d.fail("what is left out of range")
	}
}
