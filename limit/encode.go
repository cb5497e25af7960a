package limit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The stored form: a version, then fixed fields as varints, then the charges,
// newest first, each as the microseconds since the one after it and its cost.
// An empty value is the zero State. Version 1 had no past, see flagPast; version
// 2 had no guardN, and for a guardW above ten seconds just these; version 3 had
// nothing of what the API says is left, and is still written where there is none.
const (
	stateVersion       = 4
	stateVersionBefore = 3
)

const (
	flagDrained = 1 << iota
	flagBooking
	flagPast // when pauses began, refusals: what most limits have nothing of
	flagLeft // what the API said is left
)

// ErrState means that stored bytes are not the state of a limit.
var ErrState = errors.New("not the stored state of a limit")

// MarshalBinary is the stored form of the state. It does not fail.
func (s *State) MarshalBinary() ([]byte, error) {
	return s.AppendBinary(make([]byte, 0, 96+6*len(s.log.charges)+len(s.api.reason)+len(s.person.reason)))
}

// AppendBinary appends the stored form to b. It does not fail.
func (s *State) AppendBinary(b []byte) ([]byte, error) {
	flags := byte(0)
	if s.drained {
		flags |= flagDrained
	}
	if s.booking.Expires != 0 {
		flags |= flagBooking
	}
	if s.hasPast() {
		flags |= flagPast
	}
	version := byte(stateVersionBefore)
	if s.left.reset != 0 {
		version = stateVersion
		flags |= flagLeft
	}
	b = append(b, version, flags)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.debt))
	for _, x := range s.fields() {
		b = binary.AppendUvarint(b, uint64(*x))
	}
	b = binary.AppendUvarint(b, uint64(s.guardN))
	for _, r := range [...]string{s.api.reason, s.person.reason} {
		b = binary.AppendUvarint(b, uint64(len(r)))
		b = append(b, r...)
	}
	if s.booking.Expires != 0 {
		b = binary.AppendUvarint(b, uint64(s.booking.At))
		b = binary.AppendUvarint(b, uint64(s.booking.Expires))
		b = binary.AppendUvarint(b, uint64(s.booking.Cost))
		b = binary.AppendVarint(b, int64(s.booking.Priority))
		b = binary.LittleEndian.AppendUint64(b, s.booking.Holder)
	}
	if flags&flagPast != 0 {
		b = s.appendPast(b)
	}
	if flags&flagLeft != 0 {
		b = s.left.append(b)
	}
	c := s.log.charges
	b = binary.AppendUvarint(b, uint64(s.log.fresh))
	b = binary.AppendUvarint(b, uint64(len(c)))
	next := s.last
	for i := len(c) - 1; i >= 0; i-- {
		b = binary.AppendUvarint(b, uint64(next-c[i].at))
		b = binary.AppendUvarint(b, uint64(c[i].cost))
		next = c[i].at
	}
	return b, nil
}

// fields are the plain numbers of the state, none negative, in stored order.
func (s *State) fields() [10]*int64 {
	return [...]*int64{
		&s.last, &s.inFlight, &s.guard, &s.guardW, &s.quietSince, &s.episode, &s.backoffs, &s.lastSuccess,
		&s.api.until, &s.person.until,
	}
}

// UnmarshalBinary replaces s by the stored state. On an error, which wraps
// ErrState, s is unchanged.
func (s *State) UnmarshalBinary(data []byte) error {
	if len(data) == 0 {
		*s = State{}
		return nil
	}
	d := decoder{b: data}
	v := d.byte()
	if v < 1 || v > stateVersion {
		return fmt.Errorf("%w: expected version 1 to %d, got %d: this Penstock may be older than the one that wrote it", ErrState, stateVersion, v)
	}
	var n State
	n.decode(&d, v)
	if d.fault == "" && len(d.b) > 0 {
		d.fail("bytes left over")
	}
	if d.fault != "" {
		return fmt.Errorf("%w: %s, %d bytes before the end of %d", ErrState, d.fault, len(d.b), len(data))
	}
	*s = n
	return nil
}

func (s *State) decode(d *decoder, version byte) {
	flags := d.byte()
	known := byte(flagDrained | flagBooking)
	if version >= 2 {
		known |= flagPast
	}
	if version >= 4 {
		known |= flagLeft
	}
	if flags&^known != 0 {
		d.fail("unknown flags")
	}
	s.drained = flags&flagDrained != 0
	s.debt = math.Float64frombits(d.uint64())
	if !(s.debt >= 0 && s.debt <= maxDebt) {
		d.fail("a debt out of range")
	}
	for _, x := range s.fields() {
		*x = d.int(math.MaxInt64)
	}
	if version >= 3 {
		s.guardN = d.int(MaxN)
	}
	for _, x := range [...]Instant{s.last, s.guard, s.guardW, s.quietSince, s.episode, s.lastSuccess, s.api.until} {
		if x > maxInstant {
			d.fail("an instant out of range")
		}
	}
	if s.inFlight > maxSum || s.backoffs > 16 || s.person.until > maxInstant && s.person.until != Never {
		d.fail("a number out of range")
	}
	s.api.reason, s.person.reason = d.text(), d.text()
	if flags&flagBooking != 0 {
		s.booking = Booking{At: d.int(maxInstant), Expires: d.int(maxInstant), Cost: d.int(MaxN), Priority: d.priority(), Holder: d.uint64()}
		if s.booking.Expires == 0 || s.booking.Cost == 0 {
			d.fail("a booking out of range")
		}
	}
	if flags&flagPast != 0 {
		s.decodePast(d)
	}
	if flags&flagLeft != 0 {
		s.left.decode(d)
	}
	s.log.fresh = int(d.int(sweepEvery))
	count := d.int(2 * maxCharges)
	if count > int64(len(d.b)/2) {
		d.fail("fewer charges than announced")
	}
	if d.fault != "" || count == 0 {
		return
	}
	// Room for a few more: a loaded state is usually charged next.
	s.log.charges = make([]charge, count, count+8)
	at := s.last
	b, pos := d.b, 0 // this loop is most of the work of loading a state
	for i := count - 1; i >= 0; i-- {
		var delta, cost uint64
		delta, pos = uvarint(b, pos)
		cost, pos = uvarint(b, pos)
		if pos > len(b) || delta > uint64(at) || delta == 0 && i < count-1 || cost == 0 || cost > uint64(maxSum) {
			d.fail("charges out of order or out of range")
			return
		}
		at -= Instant(delta)
		s.log.charges[i] = charge{at, int64(cost)}
	}
	d.b = b[pos:]
}

// uvarint reads a varint of b at pos and returns the position after it, which
// lies beyond the end if there is none.
func uvarint(b []byte, pos int) (x uint64, next int) {
	for shift := uint(0); pos < len(b) && shift < 64; shift += 7 {
		c := b[pos]
		pos++
		x |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return x, pos
		}
	}
	return 0, len(b) + 1
}

// decoder reads values off b. After the first fault it returns zeros.
type decoder struct {
	b     []byte
	fault string
}

func (d *decoder) fail(text string) {
	if d.fault == "" {
		d.fault = text
	}
}

func (d *decoder) take(n int) []byte {
	if d.fault != "" || n > len(d.b) {
		d.fail("it ends too early")
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if v := d.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// int reads an unsigned varint of at most limit.
func (d *decoder) int(limit int64) int64 {
	if d.fault != "" {
		return 0
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > uint64(limit) {
		d.fail("a number out of range")
		return 0
	}
	d.b = d.b[n:]
	return int64(v)
}

// signed reads a signed varint.
func (d *decoder) signed() int64 {
	if d.fault != "" {
		return 0
	}
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("a number out of range")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) priority() int {
	v := d.signed()
	if int64(int(v)) != v {
		d.fail("a priority out of range")
		return 0
	}
	return int(v)
}

func (d *decoder) text() string { return string(d.take(int(d.int(maxReason)))) }
