// Package demo shows Penstock at its main job: it sends messages through a
// pretend SMS API with a strict limit from several processes, kills one of them
// in the middle of a call, and then lets the API's own log say whether all went
// well.
package demo

import (
	"slices"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

// Window is the time the cap is about.
const Window = time.Second

// A Message is one SMS to be sent.
type Message struct {
	ID       string
	Customer string // whose number is looked up when the message is sent
	Bad      bool   // the customer's number is none
	Twice    bool   // enqueued a second time
}

// A Call is one line of the API's log, and who called.
type Call struct {
	apisim.Call
	Worker int // its number, from the call's User-Agent
}

// ok says whether the call was answered with success.
func (c Call) ok() bool { return c.Status >= 200 && c.Status < 300 }

// A Kill is what the demo did to one worker.
type Kill struct {
	PID     int
	Worker  int
	Message string // of a call that was under way
	At      time.Time
}

// A Replay is the dead letter that was put back in line.
type Replay struct {
	Message string
	At      time.Time
}

// Evidence is all that the claims are judged by: the API's log, and what the
// demo itself did.
type Evidence struct {
	Algorithm apisim.Algorithm
	Cap       int
	Workers   int
	Messages  []Message
	Calls     []Call // in the order of arrival
	Kill      *Kill
	Replay    *Replay
	// States are Penstock's books at the end, by message.
	States map[string]penstock.State
}

// of returns the calls for one message, in the order of arrival.
func (e *Evidence) of(message string) []Call {
	var calls []Call
	for _, c := range e.Calls {
		if c.MessageID == message {
			calls = append(calls, c)
		}
	}
	return calls
}

// log returns the log without the callers.
func (e *Evidence) log() []apisim.Call {
	log := make([]apisim.Call, len(e.Calls))
	for i, c := range e.Calls {
		log[i] = c.Call
	}
	return log
}

// fullest is the peak that the cap is about, of all that arrived, refused calls
// included: calls within any window, or calls at the same time.
func (e *Evidence) fullest() int {
	log := e.log()
	if e.Algorithm == apisim.InFlight {
		most := 0
		for _, c := range log {
			most = max(most, inFlight(c))
		}
		return most
	}
	for i := range log {
		log[i].Refused = false
	}
	return apisim.FullestWindow(log, Window)
}

// inFlight is how many calls were under way when this one arrived, with it.
func inFlight(c apisim.Call) int {
	if c.Refused {
		return c.InFlight + 1 // it was there, though not let in
	}
	return c.InFlight
}

// rejected says whether the API ended the message for good: a call was answered
// with a 4xx that is no refusal, and none went through.
func (e *Evidence) rejected(message string) bool {
	calls := e.of(message)
	bad := slices.ContainsFunc(calls, func(c Call) bool { return !c.Refused && c.Status >= 400 && c.Status < 500 })
	return bad && !slices.ContainsFunc(calls, Call.ok)
}

// deliveries is how often a message reached its phone.
func (e *Evidence) deliveries(message string) int {
	n := 0
	for _, c := range e.of(message) {
		if c.Delivered {
			n++
		}
	}
	return n
}

// A Repeat is a call for a message that was called for before.
type Repeat struct {
	Call
	Before Call   // the one it repeats
	Why    string // what was wrong with that one; "" is no good reason
}

// repeats returns all repeated calls, in the order of arrival.
func (e *Evidence) repeats() []Repeat {
	last := map[string]Call{}
	var all []Repeat
	for _, c := range e.Calls {
		if before, ok := last[c.MessageID]; ok {
			all = append(all, Repeat{Call: c, Before: before, Why: e.why(before, c)})
		}
		last[c.MessageID] = c
	}
	return all
}

// unsure is how old a call may be whose outcome a killed process had not yet
// recorded.
const unsure = time.Second

// why returns the good reason for repeating a call, or "".
func (e *Evidence) why(before, again Call) string {
	switch {
	case before.Refused:
		return "it was refused"
	case e.Kill != nil && before.Worker == e.Kill.Worker && between(before, e.Kill.At, again) && e.Kill.At.Sub(before.Arrival) < unsure:
		return "its worker was killed"
	case before.Held:
		return "its answer did not come"
	case before.Status == 0:
		return "its connection broke"
	case before.Status >= 500:
		return "its answer was a failure"
	case e.Replay != nil && before.MessageID == e.Replay.Message && between(before, e.Replay.At, again):
		return "its dead letter was replayed"
	}
	return ""
}

// between says whether t lies between the arrivals of two calls.
func between(before Call, t time.Time, again Call) bool {
	return before.Arrival.Before(t) && again.Arrival.After(t)
}
