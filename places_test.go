package penstock

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
)

func queueStart(queue string, limits ...string) *start {
	return &start{job: store.Claimed{Job: store.Job{LaneKey: store.LaneKey{Queue: queue, Draws: Draws(limits...)}}}}
}

func TestPlacesAsks(t *testing.T) {
	urgent := WorkQueue{Name: "urgent", Reserve: 2}
	low := WorkQueue{Name: "low"}
	capped := WorkQueue{Name: "capped", Max: 3}
	for _, tt := range []struct {
		name    string
		queues  []WorkQueue
		running map[string]int
		short   bool
		want    string
	}{
		{"any queue", nil, nil, false, "[{[] 10 0}]"},
		{"no place", nil, map[string]int{"x": 10}, false, "[]"},
		{"in order", []WorkQueue{urgent, low}, nil, false, "[{[{urgent 0 8} {low 1 8}] 8 0} {[{urgent 0 2}] 2 0}]"},
		{"only reserved places are left", []WorkQueue{low, urgent}, map[string]int{"low": 8}, false, "[{[{urgent 0 2}] 2 0}]"},
		{"reserve in use", []WorkQueue{low, urgent}, map[string]int{"urgent": 2}, false, "[{[{low 0 8} {urgent 1 8}] 8 0}]"},
		{"capped", []WorkQueue{capped, low}, map[string]int{"capped": 2}, false, "[{[{capped 0 1} {low 1 8}] 8 0}]"},
		{"cap reached", []WorkQueue{capped, low}, map[string]int{"capped": 3}, false, "[{[{low 1 7}] 7 0}]"},
		{"all caps reached", []WorkQueue{capped}, map[string]int{"capped": 3}, false, "[]"},
		{"short handlers fetch ahead", nil, map[string]int{"x": 4}, true, "[{[] 16 80}]"},
		{"and leave room for jobs under limits", nil, map[string]int{"x": 10}, true, "[{[] 10 80}]"},
		{"half of those got a place", nil, map[string]int{"x": 10, "limited": 5}, true, "[{[] 5 80}]"},
		{"more of those wait", nil, map[string]int{"x": 10, "limited": 6}, true, "[{[] 0 80}]"},
		{"but not while many wait for a place", nil, map[string]int{"x": 51}, true, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := places{all: 10, byQueue: map[string]int{}}
			for q, n := range tt.running {
				for range n {
					if q != "limited" {
						p.admit(queueStart(q))
					}
				}
			}
			for range tt.running["limited"] { // when no place is left
				p.admit(queueStart("x", "api"))
			}
			if tt.short {
				p.samples, p.mean, p.over = shortSamples, time.Microsecond, 10
			}
			if got := fmt.Sprint(p.asks(tt.queues)); got != tt.want {
				t.Errorf("asks %s, want %s", got, tt.want)
			}
		})
	}
}

// TestNothingIsFetchedAheadInVain: where all jobs draw on limits, a claim that could
// bring others only is not made, until one found some.
func TestNothingIsFetchedAheadInVain(t *testing.T) {
	p := places{all: 2, byQueue: map[string]int{}, samples: shortSamples, mean: time.Microsecond, over: 2}
	ask := func() string { return fmt.Sprint(p.asks(nil)) }
	full := func() {
		for range 4 {
			p.admit(queueStart("q", "api"))
		}
	}
	full()
	if got := ask(); got != "[{[] 0 64}]" {
		t.Errorf("asks %s, want for jobs without limits", got)
	}
	p.fetched(64, 0)
	if got := ask(); got != "[]" {
		t.Errorf("asks %s after none was found, want nothing", got)
	}
	p.leave(p.waiting[0], 0) // its place goes to another
	p.leave(p.waiting[0], 0)
	if got := ask(); got != "[{[] 2 0}]" {
		t.Errorf("asks %s, want for jobs under limits", got)
	}
	p.leave(queueStart("q", "api"), 0)
	if got := ask(); got != "[{[] 3 64}]" {
		t.Errorf("asks %s with a free place, want for any", got)
	}
	p.fetched(64, 1)
	p.fetched(0, 0) // says nothing
	full()
	if got := ask(); got != "[{[] 0 64}]" {
		t.Errorf("asks %s after some were found, want for more", got)
	}
}

// A place goes to a start under limits first, then to what was fetched ahead, in turn.
func TestPlacesLeave(t *testing.T) {
	p := places{all: 1, byQueue: map[string]int{}}
	first, ahead, limited, second := queueStart("q"), queueStart("q"), queueStart("q", "api"), queueStart("q", "api")
	if !p.admit(first) || p.admit(ahead) || p.admit(limited) || p.admit(second) {
		t.Fatal("one place, and not exactly one start got it")
	}
	for _, step := range []struct{ leaves, next *start }{{first, limited}, {limited, ahead}, {ahead, second}, {second, nil}} {
		if got := p.leave(step.leaves, time.Millisecond); got != step.next {
			t.Errorf("place went to %p, want %p", got, step.next)
		}
	}
	if p.free() != 1 || len(p.byQueue) != 0 {
		t.Errorf("free %d, by queue %v", p.free(), p.byQueue)
	}
}

func TestInOrderByWeight(t *testing.T) {
	queues := []WorkQueue{{Name: "a", Weight: 3}, {Name: "b"}}
	first := map[string]int{}
	for i := range 400 {
		out := inOrder(queues, true, func() float64 { return float64(i) / 400 })
		if len(out) != 2 || out[0].Name == out[1].Name {
			t.Fatalf("order %v", out)
		}
		first[out[0].Name]++
	}
	if first["a"] != 300 || first["b"] != 100 {
		t.Errorf("first were %v, want 3 to 1", first)
	}
	if out := inOrder(queues, false, nil); out[0].Name != "a" {
		t.Errorf("in order: %v", out)
	}
}

func TestPlacesGrow(t *testing.T) {
	p := places{all: 100, byQueue: map[string]int{}, samples: shortSamples, mean: time.Second}
	if p.grow() {
		t.Error("grew with places free")
	}
	for range 20 {
		p.taken = p.all
		p.grow()
	}
	if p.all != autoMost {
		t.Errorf("grew to %d, want %d", p.all, autoMost)
	}
	p = places{all: 100, taken: 100, samples: shortSamples, mean: time.Millisecond}
	if p.grow() {
		t.Error("grew though handlers are short")
	}
}

func TestClock(t *testing.T) {
	at := time.Unix(1000, 0)
	var c clock
	c.sample(at, at.Add(2*time.Millisecond), at.UnixMicro()+1500)
	if c.offset.Load() != 0 {
		t.Errorf("offset %d, though the sample does not contradict equal clocks", c.offset.Load())
	}
	hour := int64(3600) * second
	c = clock{}
	c.sample(at, at.Add(20*time.Millisecond), at.UnixMicro()+hour)
	c.sample(at, at.Add(2*time.Millisecond), at.UnixMicro()+hour)  // says more
	c.sample(at, at.Add(90*time.Millisecond), at.UnixMicro()+hour) // says less
	if got := c.offset.Load(); got != hour-1000 {
		t.Errorf("offset %d, want %d", got, hour-1000)
	}
	if got := c.toStore(at); got != at.UnixMicro()+hour-1000 {
		t.Errorf("toStore %d", got)
	}
}

// TestStartsBeyondThePlacesFollowThoseInTime: of a claim whose starts came late at
// some point, as many are asked for next time as were in time, and not none.
func TestStartsBeyondThePlacesFollowThoseInTime(t *testing.T) {
	p := places{all: 100}
	for i, claim := range []struct {
		starts, inTime int
		over           int
		why            string
	}{
		{300, 300, 300, "as many as were in time"},
		{400, 200, 50, "with the places 3/4 of the 200 that were in time"},
		{160, 160, 70, "one more for each 8 in time"},
		{170, 0, 0, "none after a claim that came too late as a whole"},
		{100_000, 100_000, overMost, "the most there are"},
	} {
		for k := range claim.starts {
			p.met(int64(i+1), k < claim.inTime)
		}
		if p.over != claim.over {
			t.Errorf("claim %d, %d of %d starts in time: %d beyond the places, expected %d: %s", i+1, claim.inTime, claim.starts, p.over, claim.over, claim.why)
		}
	}
}
