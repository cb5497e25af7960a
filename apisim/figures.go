package apisim

import (
	"slices"
	"time"
)

// FullestWindow is the largest number of accepted calls that arrived within any
// window of that length, wherever it starts. Calls exactly one window apart do
// not share one.
func FullestWindow(calls []Call, window time.Duration) int {
	at := make([]time.Duration, 0, len(calls))
	for _, c := range calls {
		if !c.Refused {
			at = append(at, c.At)
		}
	}
	slices.Sort(at)
	fullest, first := 0, 0
	for last := range at {
		for first < last && at[last]-at[first] >= window {
			first++
		}
		fullest = max(fullest, last-first+1)
	}
	return fullest
}

// Count is how many calls arrived in one stretch of time.
type Count struct {
	// Start is where the stretch begins, since the API's start.
	Start    time.Duration `json:"start_ns"`
	Accepted int           `json:"accepted"`
	Refused  int           `json:"refused"`
}

// Buckets counts calls in stretches of the given width, from the one of the
// first call to that of the last, empty ones between them included.
func Buckets(calls []Call, width time.Duration) []Count {
	if len(calls) == 0 || width <= 0 {
		return nil
	}
	first, last := calls[0].At, calls[0].At
	for _, c := range calls {
		first, last = min(first, c.At), max(last, c.At)
	}
	first -= first % width
	counts := make([]Count, (last-first)/width+1)
	for i := range counts {
		counts[i].Start = first + time.Duration(i)*width
	}
	for _, c := range calls {
		count := &counts[(c.At-first)/width]
		if c.Refused {
			count.Refused++
		} else {
			count.Accepted++
		}
	}
	return counts
}

// Refused is how many of the calls were over the limit.
func Refused(calls []Call) int {
	n := 0
	for _, c := range calls {
		if c.Refused {
			n++
		}
	}
	return n
}

// Delivered is how often each message was delivered, by message id.
func Delivered(calls []Call) map[string]int {
	delivered := map[string]int{}
	for _, c := range calls {
		if c.Delivered {
			delivered[c.MessageID]++
		}
	}
	return delivered
}

// Stats is a log in figures.
type Stats struct {
	Calls     int `json:"calls"`
	Accepted  int `json:"accepted"`
	Refused   int `json:"refused"`
	Rejected  int `json:"rejected"`  // answered with another 4xx than the limit's 429
	Failed    int `json:"failed"`    // answered with a 5xx, or not at all
	Delivered int `json:"delivered"` // effects, repeats of a message included
	Messages  int `json:"messages"`  // different messages among them
	Repeated  int `json:"repeated"`  // accepted calls of a key that was accepted before
	Replayed  int `json:"replayed"`  // of those, answered from the first answer
	// FullestWindow and MostInFlight are the peaks of accepted calls.
	FullestWindow int `json:"fullest_window"`
	MostInFlight  int `json:"most_in_flight"`
}

// Summarise counts a log; window is that of FullestWindow.
func Summarise(calls []Call, window time.Duration) Stats {
	s := Stats{Calls: len(calls), Refused: Refused(calls), FullestWindow: FullestWindow(calls, window)}
	s.Accepted = s.Calls - s.Refused
	for _, n := range Delivered(calls) {
		s.Messages++
		s.Delivered += n
	}
	for _, c := range calls {
		if c.Refused {
			continue
		}
		s.MostInFlight = max(s.MostInFlight, c.InFlight)
		switch {
		case c.Status == 0 || c.Status >= 500:
			s.Failed++
		case c.Status >= 400:
			s.Rejected++
		}
		if c.Occurrence > 1 {
			s.Repeated++
		}
		if c.Replayed {
			s.Replayed++
		}
	}
	return s
}
