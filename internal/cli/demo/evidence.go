// Package demo shows Penstock at its main job: it sends messages through a
// pretend SMS API with a strict limit from several processes, kills one of them
// in the middle of a call, and then lets the API's own log say whether all went
// well.
package demo

import (
	"fmt"
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
	Worker int       // its number, from the call's User-Agent
	Left   time.Time // when its answer went out; zero if it did not
	// Orphans is how many calls of the killed process the API was still busy
	// with when this one arrived.
	Orphans int
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
	if e.Algorithm == apisim.InFlight {
		most := 0
		for _, c := range e.Calls {
			most = max(most, c.inFlight())
		}
		return most
	}
	log := e.log()
	for i := range log {
		log[i].Refused = false
	}
	return apisim.FullestWindow(log, Window)
}

// strays is how many calls came when the API had had its fill: those that a
// strict sliding window would refuse, or those above the cap in flight.
func (e *Evidence) strays() int {
	var counted []time.Time
	n := 0
	for _, c := range e.Calls {
		if e.Algorithm == apisim.InFlight {
			if c.inFlight() > e.Cap {
				n++
			}
			continue
		}
		for len(counted) > 0 && c.Arrival.Sub(counted[0]) >= Window {
			counted = counted[1:]
		}
		if len(counted) >= e.Cap {
			n++
			continue
		}
		counted = append(counted, c.Arrival)
	}
	return n
}

// inFlight is how many calls were under way when this one arrived, with it. An
// API can be busy with a call whose caller is dead; nobody holds that one any more.
func (c Call) inFlight() int {
	n := c.InFlight - c.Orphans
	if c.Refused {
		n++ // it was there, though not let in
	}
	return n
}

// findOrphans fills in Orphans.
func (e *Evidence) findOrphans() {
	if e.Kill == nil {
		return
	}
	for i := range e.Calls {
		at := e.Calls[i].Arrival
		for _, c := range e.Calls[:i] {
			if at.After(e.Kill.At) && c.Worker == e.Kill.Worker && !c.Refused && (c.Left.IsZero() || c.Left.After(at)) {
				e.Calls[i].Orphans++
			}
		}
	}
}

// lost says whether before was called by the killed process at its end, so that
// its outcome may be recorded nowhere, and again came after it.
func (e *Evidence) lost(before, again Call) bool {
	return e.Kill != nil && before.Worker == e.Kill.Worker && again.Worker != e.Kill.Worker &&
		before.Arrival.After(e.Kill.At.Add(-unsure))
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
		return "refused"
	case before.Held:
		return "no answer"
	case before.Status == 0:
		return "connection broke"
	case before.Status >= 500:
		return fmt.Sprintf("failed (%d)", before.Status)
	case e.lost(before, again):
		return "worker killed"
	case e.Replay != nil && before.MessageID == e.Replay.Message && before.Arrival.Before(e.Replay.At) && again.Arrival.After(e.Replay.At):
		return "dead letter replayed"
	}
	return ""
}
