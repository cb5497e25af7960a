package engine

import (
	"encoding/binary"
	"errors"
)

// A job's counters are nearly always zero, and no query looks at them. They
// share one column: signed varints in the order of pastFields, trailing zeros
// left out, so new counters can be added at the end. A job that went well has
// NULL there.

const pastFields = 9

func past(j *Job) [pastFields]int64 {
	return [pastFields]int64{
		int64(j.Attempts), int64(j.Throttles), int64(j.Losses), int64(j.RefusedRun), j.RefusedAt,
		j.ThrottledAt, j.ThrottleSum, int64(j.Events), j.Next,
	}
}

// EncodePast returns nil for a job that went well.
func EncodePast(j *Job) []byte {
	fields := past(j)
	n := len(fields)
	for n > 0 && fields[n-1] == 0 {
		n--
	}
	if n == 0 {
		return nil
	}
	b := make([]byte, 0, 32)
	for _, f := range fields[:n] {
		b = binary.AppendVarint(b, f)
	}
	return b
}

var errPast = errors.New("stored job counters: not a sequence of varints")

// DecodePast fills in a job's counters.
func DecodePast(j *Job, b []byte) error {
	var fields [pastFields]int64
	for i := 0; len(b) > 0 && i < len(fields); i++ {
		v, n := binary.Varint(b)
		if n <= 0 {
			return errPast
		}
		fields[i], b = v, b[n:]
	}
	j.Attempts, j.Throttles, j.Losses, j.RefusedRun = int(fields[0]), int(fields[1]), int(fields[2]), int(fields[3])
	j.RefusedAt, j.ThrottledAt, j.ThrottleSum, j.Events, j.Next = fields[4], fields[5], fields[6], int(fields[7]), fields[8]
	return nil
}

// NoPast reports whether all counters are zero.
func NoPast(j *Job) bool { return past(j) == [pastFields]int64{} }
