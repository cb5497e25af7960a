package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is a call at an instant, in milliseconds, answered with success.
func at(ms int, worker int, message string) Call {
	t := time.Duration(ms) * time.Millisecond
	return Call{
		Call: apisim.Call{
			At: t, Arrival: epoch.Add(t), MessageID: message, Key: "key of " + message,
			Status: 201, Delivered: true, Occurrence: 1, InFlight: 1,
		},
		Worker: worker,
		Left:   epoch.Add(t + 100*time.Millisecond),
	}
}

// with changes a call.
func (c Call) with(change func(*Call)) Call {
	change(&c)
	return c
}

func badNumber(c *Call) { c.Status, c.Delivered = 400, false }
func known(c *Call)     { c.Delivered, c.Replayed, c.Occurrence = false, true, 2 }
func refused(c *Call)   { c.Status, c.Delivered, c.Refused, c.Occurrence = 429, false, true, 0 }

// goodRun is a small demo in which all went well.
func goodRun() *Evidence {
	return &Evidence{
		Algorithm: apisim.Sliding, Cap: 2, Workers: 3,
		Messages: []Message{
			{ID: "m-1"}, {ID: "m-2", Twice: true}, {ID: "m-3"}, {ID: "m-4", Bad: true}, {ID: "m-5", Bad: true},
		},
		Calls: []Call{
			at(0, 1, "m-1"),
			at(500, 2, "m-2"),
			at(1000, 3, "m-3"), // worker 3 is killed at 1050
			at(1500, 1, "m-4").with(badNumber),
			at(2000, 2, "m-3").with(known),
			at(2500, 2, "m-5").with(badNumber),
			at(4000, 1, "m-4"), // replayed at 3500
		},
		Kill:   &Kill{PID: 4711, Worker: 3, Message: "m-3", At: epoch.Add(1050 * time.Millisecond)},
		Replay: &Replay{Message: "m-4", At: epoch.Add(3500 * time.Millisecond)},
		States: map[string]penstock.State{
			"m-1": penstock.Done, "m-2": penstock.Done, "m-3": penstock.Done, "m-4": penstock.Done, "m-5": penstock.Dead,
		},
	}
}

func falseOnes(e *Evidence) []string {
	var names []string
	for _, c := range Judge(e) {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	return names
}

func TestClaims_TrueOfAGoodRun(t *testing.T) {
	for _, c := range Judge(goodRun()) {
		if !c.OK {
			t.Errorf("%s is false: %s", c.Name, c.Detail)
		}
		if c.Name == "" || c.Detail == "" {
			t.Errorf("a claim needs a name and a detail, got %+v", c)
		}
	}
}

// Every claim can be false, and is where it should be.
func TestClaims_CanBeFalse(t *testing.T) {
	tests := []struct {
		name   string
		spoil  func(e *Evidence)
		claims string // those that are then false, joined
	}{
		{"nothing was called", func(e *Evidence) { e.Calls = nil },
			"cap held, one limit, several processes, delivered exactly once, enqueued twice, one job, a killed process loses nothing, bad numbers are tried once, a dead letter can be replayed, the books agree"},
		{"two calls too early", func(e *Evidence) {
			e.Calls[2].Arrival = epoch.Add(600 * time.Millisecond)
			e.Calls[3].Arrival = epoch.Add(700 * time.Millisecond)
			e.Kill.At = epoch.Add(650 * time.Millisecond)
		}, "cap held"},
		{"two calls refused", func(e *Evidence) {
			e.Calls = append(e.Calls[:6:6], at(3000, 2, "m-1").with(refused), at(3300, 2, "m-1").with(refused), e.Calls[6])
			e.Calls[0].Status, e.Calls[0].Delivered = 503, false
			e.Calls = append(e.Calls, at(5000, 2, "m-1"))
		}, "hardly a refusal"},
		{"a process that never called", func(e *Evidence) { e.Workers = 4 }, "one limit, several processes"},
		{"a message never delivered", func(e *Evidence) { e.Calls = e.Calls[1:] }, "delivered exactly once, the books agree"},
		{"a message delivered twice for a failure", func(e *Evidence) {
			e.Calls[0].Status = 500
			e.Calls = append(e.Calls, at(6000, 2, "m-1"))
		}, "delivered exactly once"},
		{"a second job of a message", func(e *Evidence) {
			e.Calls = append(e.Calls, at(6000, 2, "m-2").with(func(c *Call) { c.Key = "another"; c.Delivered = false }))
		}, "enqueued twice, one job, no repeat without a reason"},
		{"nobody was killed", func(e *Evidence) { e.Kill = nil }, "a killed process loses nothing, no repeat without a reason"},
		{"the killed call was not repeated", func(e *Evidence) { e.Calls = append(e.Calls[:4:4], e.Calls[5:]...) },
			"a killed process loses nothing"},
		{"the killed call was delivered again", func(e *Evidence) { e.Calls[4] = at(2000, 2, "m-3") },
			"delivered exactly once, a killed process loses nothing"},
		{"the killed call was repeated under another key", func(e *Evidence) { e.Calls[4].Key = "another" },
			"a killed process loses nothing, no repeat without a reason"},
		{"a call long before the kill was repeated", func(e *Evidence) {
			e.Calls[0].Worker = 3
			e.Calls = append(e.Calls[:6:6], at(3000, 2, "m-1").with(known), e.Calls[6])
		}, "no repeat without a reason"},
		{"a bad number tried twice", func(e *Evidence) { e.Calls = append(e.Calls, at(6000, 1, "m-5").with(badNumber)) },
			"no repeat without a reason, bad numbers are tried once"},
		{"a bad number never tried", func(e *Evidence) { e.Calls = append(e.Calls[:5:5], e.Calls[6]) },
			"bad numbers are tried once, the books agree"},
		{"a bad number delivered", func(e *Evidence) { e.Calls[5] = at(2500, 2, "m-5") },
			"bad numbers are tried once, the books agree"},
		{"nothing was replayed", func(e *Evidence) {
			e.Replay, e.Calls = nil, e.Calls[:6]
			e.States["m-4"] = penstock.Dead
		}, "a dead letter can be replayed"},
		{"the replay failed", func(e *Evidence) {
			badNumber(&e.Calls[6])
			e.States["m-4"] = penstock.Dead
		}, "a dead letter can be replayed"},
		{"a job still waits", func(e *Evidence) { e.States["m-1"] = penstock.Waiting }, "the books agree"},
		{"dead in the books, delivered by the API", func(e *Evidence) { e.States["m-2"] = penstock.Dead }, "the books agree"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := goodRun()
			tt.spoil(e)
			if got := strings.Join(falseOnes(e), ", "); got != tt.claims {
				t.Errorf("false claims:\n got  %s\n want %s", got, tt.claims)
			}
		})
	}
}

// One stray call is jitter; the claims say so instead of hiding it.
func TestClaims_OneStrayCallIsTold(t *testing.T) {
	e := goodRun()
	e.Calls[2].Arrival, e.Calls[2].At = epoch.Add(990*time.Millisecond), 990*time.Millisecond
	c := e.capHeld()
	if want := "the fullest second saw 3 calls arrive, refused ones included; the cap is 2 (1 call too early, at most 1 would be all right)"; !c.OK || c.Detail != want {
		t.Errorf("got %v, %s\nwant %s", c.OK, c.Detail, want)
	}
}

func TestAllowed(t *testing.T) {
	for calls, want := range map[int]int{0: 1, 50: 1, 99: 1, 100: 2, 1000: 20} {
		if got := allowed(calls); got != want {
			t.Errorf("allowed(%d) = %d, want %d", calls, got, want)
		}
	}
}

// An API is busy with the calls of a killed process for a while. Those do not
// count as in flight, and what is refused because of them is no stray.
func TestClaims_OrphansInFlight(t *testing.T) {
	e := goodRun()
	e.Algorithm, e.Cap = apisim.InFlight, 1
	e.Calls[4] = at(1080, 2, "m-3").with(refused).with(func(c *Call) { c.InFlight = 1 }) // the killed one ends at 1100
	e.Calls = append(e.Calls[:5:5], append([]Call{at(1200, 2, "m-3").with(known)}, e.Calls[5:]...)...)
	e.findOrphans()
	if got := falseOnes(e); len(got) > 0 {
		t.Errorf("false claims: %v", got)
	}
	if n := e.fullest(); n != 1 {
		t.Errorf("most in flight = %d, want 1", n)
	}
	// The same without the kill is above the cap.
	e.Calls[4].Orphans = 0
	if n := e.fullest(); n != 2 {
		t.Errorf("most in flight = %d, want 2", n)
	}
}

func TestRepeats_Reasons(t *testing.T) {
	failed := func(status int) func(*Call) {
		return func(c *Call) { c.Status, c.Delivered = status, false }
	}
	tests := []struct {
		before Call
		want   string
	}{
		{at(0, 1, "m-1").with(refused), "m-1  +0.9 s  refused → delivered"},
		{at(0, 1, "m-1").with(failed(503)), "m-1  +0.9 s  failed (503), before delivery → delivered"},
		{at(0, 1, "m-1").with(failed(0)), "m-1  +0.9 s  connection broke, before delivery → delivered"},
		{at(0, 1, "m-1").with(failed(504)).with(func(c *Call) { c.Held = true }), "m-1  +0.9 s  no answer, before delivery → delivered"},
		{at(0, 1, "m-1").with(failed(400)), "m-1  +0.9 s  NO good reason → delivered"},
		{at(0, 1, "m-1"), "m-1  +0.9 s  NO good reason, after delivery → delivered"},
		{at(0, 3, "m-1"), "m-1  +0.9 s  worker killed, after delivery → delivered"},
	}
	for _, tt := range tests {
		e := &Evidence{
			Calls: []Call{tt.before, at(900, 1, "m-1")},
			Kill:  &Kill{Worker: 3, At: epoch.Add(50 * time.Millisecond)},
		}
		got := e.repeats()
		if len(got) != 1 || got[0].String() != tt.want {
			t.Errorf("got %v\nwant %s", got, tt.want)
		}
	}
}
