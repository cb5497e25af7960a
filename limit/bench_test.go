package limit

import (
	"testing"
	"time"
)

// typical is a state in steady use, with about 100 charges.
func typical(b *testing.B, sp Spec) (State, Instant) {
	b.Helper()
	var s State
	now := testStart
	for range 5_000 {
		at, _ := s.Earliest(sp, Ask{Cost: 1}, now)
		s.Take(sp, Ask{Cost: 1}, at)
		now = max(now, at)
	}
	return s, now
}

var benchSpecs = []string{"unlimited", "5/s", "1000/s", "50/s, 10000/day@UTC", "100/s, 1000/m, 100000/day"}

func BenchmarkEarliest(b *testing.B) {
	for _, spec := range benchSpecs {
		b.Run(spec, func(b *testing.B) {
			sp, _ := Parse(spec)
			s, now := typical(b, sp)
			b.ReportMetric(float64(len(s.log.charges)), "charges")
			b.ReportAllocs()
			for b.Loop() {
				s.Earliest(sp, Ask{Cost: 1}, now)
			}
		})
	}
}

func BenchmarkEarliestAndTake(b *testing.B) {
	for _, spec := range benchSpecs {
		b.Run(spec, func(b *testing.B) {
			sp, _ := Parse(spec)
			s, now := typical(b, sp)
			b.ReportAllocs()
			for b.Loop() {
				at, _ := s.Earliest(sp, Ask{Cost: 1}, now)
				s.Take(sp, Ask{Cost: 1}, at)
				s.Release(sp, 1, at, at, false)
				now = at
			}
		})
	}
}

func BenchmarkRoom(b *testing.B) {
	sp, _ := Parse("1000/s")
	s, now := typical(b, sp)
	for b.Loop() {
		s.Room(sp, 1, now, now+micros(100*time.Millisecond))
	}
}

func BenchmarkStore(b *testing.B) {
	sp, _ := Parse("50/s")
	var s State
	for i := range Instant(100) {
		s.Take(sp, Ask{Cost: 1}, testStart+i*21_000)
	}
	stored, _ := s.MarshalBinary()
	b.Run("Marshal", func(b *testing.B) {
		b.ReportMetric(float64(len(s.log.charges)), "charges")
		b.ReportMetric(float64(len(stored)), "bytes")
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.MarshalBinary()
		}
	})
	b.Run("Unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var t State
			if err := t.UnmarshalBinary(stored); err != nil {
				b.Fatal(err)
			}
		}
	})
}
