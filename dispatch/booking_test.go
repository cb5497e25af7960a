package dispatch

import (
	"testing"
	"time"
)

// TestNobodyBooksForNobody: a lane whose jobs that were read are all granted may
// hold no more, and books nothing; one with a job that is refused does.
func TestNobodyBooksForNobody(t *testing.T) {
	for _, left := range []bool{false, true} {
		p := newPicture(10)
		api := p.limit(t, "api", "4/s")
		ids := []int64{1}
		if left {
			ids = append(ids, 2)
		}
		p.lane(Lane{Draws: []Draw{{"api", 2}}, More: true}, ids...)
		wantGrants(t, p.Plan(), 1)
		if b, booked := api.Booking(t0 + time.Millisecond.Microseconds()); booked != left {
			t.Errorf("a job left: %v, booked: %v, %+v", left, booked, b)
		}
	}
}
