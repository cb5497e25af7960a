package apisim

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFullestWindow compares with the plain definition: windows that start at
// each accepted call.
func TestFullestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.IntRange(1, 50).Draw(t, "window"))
		var calls []Call
		for range rapid.IntRange(0, 40).Draw(t, "calls") {
			calls = append(calls, Call{
				At:      time.Duration(rapid.IntRange(0, 200).Draw(t, "at")),
				Refused: rapid.Bool().Draw(t, "refused"),
			})
		}
		want := 0
		for _, start := range calls {
			n := 0
			for _, c := range calls {
				if !c.Refused && c.At >= start.At && c.At < start.At+window {
					n++
				}
			}
			want = max(want, n)
		}
		if got := FullestWindow(calls, window); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

func TestBuckets(t *testing.T) {
	if got := Buckets(nil, time.Second); got != nil {
		t.Errorf("of nothing: %v", got)
	}
	calls := []Call{{At: ms(250)}, {At: ms(299), Refused: true}, {At: ms(500)}, {At: ms(450)}, {At: ms(599.9)}}
	want := []Count{{ms(200), 1, 1}, {ms(300), 0, 0}, {ms(400), 1, 0}, {ms(500), 2, 0}}
	got := Buckets(calls, ms(100))
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("bucket %d: %v, want %v", i, got[i], want[i])
		}
	}
}

func TestSummarise(t *testing.T) {
	got := Summarise([]Call{
		{At: 0, Status: 201, Delivered: true, MessageID: "a", InFlight: 1, Occurrence: 1},
		{At: 1, Status: 0, Delivered: true, MessageID: "b", InFlight: 3, Occurrence: 1},
		{At: 2, Status: 201, Replayed: true, MessageID: "b", InFlight: 2, Occurrence: 2},
		{At: 3, Status: 429, Refused: true, InFlight: 9},
		{At: 4, Status: 400, InFlight: 1, Occurrence: 1},
		{At: 9, Status: 201, Delivered: true, MessageID: "a", InFlight: 1, Occurrence: 2},
	}, 5)
	want := Stats{Calls: 6, Accepted: 5, Refused: 1, Rejected: 1, Failed: 1, Delivered: 3, Messages: 2,
		Repeated: 2, Replayed: 1, FullestWindow: 4, MostInFlight: 3}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
