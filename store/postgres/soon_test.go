package postgres

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/penstockhq/penstock/store/engine"
)

// sightOf is what was read of two bands before lanes woke: gates "a" and "b" are open in
// band 1, with lanes 1 and 2 at "a" and 3 at "b"; gate "shut" of band 2 is not, and
// lanes 10 to 13 are about to wake.
func sightOf() *sight {
	s := &sight{from: map[int64]floor{}, before: map[engine.GateKey]maybe[engine.Gate]{},
		gates: []engine.Gate{{Band: 1, Limit: "a", OpensAt: 10}, {Band: 1, Limit: "b", OpensAt: 20}},
		lanes: []engine.Lane{readyLane(1, 1, "a", 5), readyLane(2, 1, "a", 7), readyLane(3, 1, "b", 1)}}
	for _, l := range s.lanes {
		s.from[l.ID] = floor{100, 1}
	}
	for id := int64(10); id < 14; id++ {
		s.from[id] = floor{100, 1}
	}
	s.before[engine.GateKey{Band: 1, Limit: "new"}] = maybe[engine.Gate]{}
	s.before[engine.GateKey{Band: 2, Limit: "empty"}] = maybe[engine.Gate]{engine.Gate{Band: 2, Limit: "empty", OpensAt: engine.Empty}, true}
	s.before[engine.GateKey{Band: 2, Limit: "shut"}] = maybe[engine.Gate]{engine.Gate{Band: 2, Limit: "shut", OpensAt: 500}, true}
	return s
}

func readyLane(id, band int64, gate string, vtime int64) engine.Lane {
	return engine.Lane{ID: id, Band: engine.Band{ID: band}, Gate: gate, State: engine.LaneReady, VTime: vtime, FloorAt: 100, FloorID: 1}
}

// TestPictureFromWhatWasReadBefore: lanes that woke take their places among those that
// stood at the gates before; where that is not certain, the picture is read again.
func TestPictureFromWhatWasReadBefore(t *testing.T) {
	lane := func(l engine.Lane, change func(*engine.Lane)) engine.Lane { change(&l); return l }
	for _, c := range []struct {
		name  string
		lanes []engine.Lane // written since
		gates []engine.Gate
		most  int
		want  string // gates and lanes; "": read it again
	}{
		{"nothing woke", nil, nil, 9, "1a 1b | 1 2 3"},
		{"at an open gate", []engine.Lane{readyLane(10, 1, "a", 6)}, nil, 9, "1a 1b | 1 10 2 3"},
		{"first by its id", []engine.Lane{readyLane(10, 1, "a", 7)}, nil, 9, "1a 1b | 1 2 10 3"},
		{"beyond the most", []engine.Lane{readyLane(10, 1, "a", 6)}, nil, 3, "1a 1b | 1 10 2"},
		{"at a new gate", []engine.Lane{readyLane(10, 1, "new", 0)}, []engine.Gate{{Band: 1, Limit: "new", OpensAt: 15}}, 9, "1a 1new 1b | 1 2 10 3"},
		{"at one that was empty", []engine.Lane{readyLane(10, 2, "empty", 0)}, []engine.Gate{{Band: 2, Limit: "empty", OpensAt: 15}}, 9, "1a 1b 2empty | 1 2 3 10"},
		{"more gates than the most", []engine.Lane{readyLane(10, 1, "new", 0)}, []engine.Gate{{Band: 1, Limit: "new", OpensAt: 5}}, 2, "1new 1a | 10 1"},
		{"an open gate opens sooner", nil, []engine.Gate{{Band: 1, Limit: "b", OpensAt: 5}}, 9, "1b 1a | 3 1 2"},
		{"the same, though not all its lanes are known", nil, []engine.Gate{{Band: 1, Limit: "b", OpensAt: 5}}, 3, ""},
		{"a gate where others may stand", []engine.Lane{readyLane(10, 2, "shut", 0)}, []engine.Gate{{Band: 2, Limit: "shut", OpensAt: 15}}, 9, ""},
		{"a gate that was not read", []engine.Lane{readyLane(10, 2, "else", 0)}, []engine.Gate{{Band: 2, Limit: "else", OpensAt: 15}}, 9, ""},
		{"a gate that stays shut", []engine.Lane{readyLane(10, 2, "shut", 0)}, []engine.Gate{{Band: 2, Limit: "shut", OpensAt: 400}}, 9, "1a 1b | 1 2 3"},
		{"a gate opens later", nil, []engine.Gate{{Band: 1, Limit: "a", OpensAt: 11}}, 9, ""},
		{"a lane sleeps", []engine.Lane{lane(readyLane(1, 1, "a", 5), func(l *engine.Lane) { l.State = engine.LaneSleeping })}, nil, 9, ""},
		{"a lane goes to another gate", []engine.Lane{readyLane(1, 1, "b", 5)}, nil, 9, ""},
		{"a lane falls behind", []engine.Lane{readyLane(1, 1, "a", 6)}, nil, 9, ""},
		{"an earlier job than those that were read", []engine.Lane{lane(readyLane(10, 1, "a", 6), func(l *engine.Lane) { l.FloorID = 0 })}, nil, 9, ""},
		{"the same in a lane that stood there", []engine.Lane{lane(readyLane(2, 1, "a", 7), func(l *engine.Lane) { l.FloorAt = 99 })}, nil, 9, ""},
		{"a lane whose jobs were not read", []engine.Lane{readyLane(77, 1, "a", 6)}, nil, 9, ""},
		{"a woken lane that sleeps on", []engine.Lane{lane(readyLane(77, 1, "a", 6), func(l *engine.Lane) { l.State = engine.LaneSleeping })}, nil, 9, "1a 1b | 1 2 3"},
	} {
		tx := new(tx)
		for _, l := range c.lanes {
			put(&tx.dirty.lanes, l.ID, l)
		}
		for _, g := range c.gates {
			put(&tx.dirty.gates, engine.GateKey{Band: g.Band, Limit: g.Limit}, g)
		}
		s, p := sightOf(), &engine.PictureAsk{Bands: []int64{1, 2}, Now: 20, Open: 10, Reach: 50, Lanes: c.most}
		got := ""
		if gates, ok := tx.openNow(s, p); ok {
			if lanes, ok := tx.linedUpNow(s, p, gates); ok {
				for _, g := range gates {
					got += fmt.Sprint(g.Band, g.Limit, " ")
				}
				got += "|"
				for _, l := range lanes {
					got += fmt.Sprint(" ", l.ID)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPictureOfOtherBands: what was read of the bands that the last claim served is of
// no use where others are served now; in bands where nothing was, nothing had to be read.
func TestPictureOfOtherBands(t *testing.T) {
	for _, c := range []struct {
		read, now []int64
		want      bool
	}{{[]int64{1}, []int64{1}, true}, {[]int64{1}, []int64{1, 3}, true}, {[]int64{1, 3}, []int64{1}, true}, {[]int64{3, 1}, []int64{1, 3}, true},
		{[]int64{1}, []int64{1, 2}, false}, {[]int64{1, 2}, []int64{1}, false}, {[]int64{2}, []int64{1}, false},
		{[]int64{1, 2}, []int64{2, 1}, false}, {nil, []int64{3}, false}, {nil, []int64{1}, false}} {
		s := sightOf()
		s.ask.Bands, s.firsts = c.read, map[int64]firsts{1: {}, 2: {}}
		tx := &tx{soon: s, guess: new(guess), now: 20}
		p := &engine.PictureAsk{Bands: c.now, Now: 20, Open: 10, Lanes: 9}
		if got := tx.sawSoon(p); got != c.want {
			t.Errorf("read of %v, served are %v: known %v, want %v", c.read, c.now, got, c.want)
		}
		if next := tx.guess.bands(""); !slices.Equal(next, c.now) {
			t.Errorf("the next claim reads of %v, want %v", next, c.now)
		}
	}
	s := sightOf()
	s.ask.Bands, s.firsts = []int64{1}, map[int64]firsts{1: {}}
	tx := &tx{soon: s, guess: new(guess), now: 20}
	if tx.sawSoon(&engine.PictureAsk{Bands: []int64{1}, Now: 21, Open: 10, Lanes: 9}) {
		t.Error("what was read for another instant was taken")
	}
}

// TestAwaitedOfGatesThatMoved: what opens soon is asked for again where a gate that was
// about to open is open now.
func TestAwaitedOfGatesThatMoved(t *testing.T) {
	s := sightOf()
	s.ask.Bands, s.firsts = []int64{1, 2}, map[int64]firsts{1: {}, 2: {}}
	s.before[engine.GateKey{Band: 2, Limit: "shut"}] = maybe[engine.Gate]{engine.Gate{Band: 2, Limit: "shut", OpensAt: 60}, true}
	at := []int64{60, 61, 55}
	band := []int64{2, 1, 3}
	s.opening = []opening{{"shut", &band[0], &at[0]}, {"a", &band[1], &at[1]}, {"a", &band[2], &at[2]}, {"b", nil, nil}}
	tx := &tx{soon: s, guess: new(guess), now: 20}
	// It opens, but for a lane of a band that is not looked at.
	put(&tx.dirty.gates, engine.GateKey{Band: 2, Limit: "shut"}, engine.Gate{Band: 2, Limit: "shut", OpensAt: 40})
	if !tx.sawSoon(&engine.PictureAsk{Bands: []int64{1, 2}, Now: 20, Open: 10, Reach: 50, Lanes: 9}) {
		t.Fatal("the picture was not known")
	}
	// In band 3 nobody is served.
	if want := map[string]maybe[int64]{"a": {61, true}, "b": {}}; !maps.Equal(tx.kept.awaited, want) {
		t.Errorf("known are %v, want %v", tx.kept.awaited, want)
	}
}
