package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/apisim"
)

// A Claim is something the demo says about Penstock, and whether the API's log
// bears it out.
type Claim struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"` // the claim in words, with its figures
}

// Judge judges all claims.
func Judge(e *Evidence) []Claim {
	return []Claim{
		e.capHeld(), e.fewRefused(), e.sharedWork(), e.deliveredOnce(), e.enqueuedTwice(),
		e.killedMidCall(), e.noNeedlessRepeat(), e.badNumbers(), e.replayed(), e.booksAgree(),
	}
}

// strayShare is the share of calls that may come when the API has had its fill.
// The way there takes longer for one call than for the next, so that a limit
// kept exactly where calls leave is not kept exactly where they arrive.
const strayShare = 0.02

// allowed is how many strays are few, among so many calls.
func allowed(calls int) int { return max(1, int(strayShare*float64(calls))) }

// capHeld: counted by us, whatever the API's own way of counting lets through.
func (e *Evidence) capHeld() Claim {
	n, stray, most := e.fullest(), e.strays(), allowed(len(e.Calls))
	detail := fmt.Sprintf("the fullest second saw %s arrive, refused ones included; the cap is %d", count(n, "call"), e.Cap)
	if e.Algorithm == apisim.InFlight {
		detail = fmt.Sprintf("at most %s were in flight at a time, refused ones included; the cap is %d", count(n, "call"), e.Cap)
	}
	if stray > 0 {
		detail += fmt.Sprintf(" (%s too early, at most %d would be all right)", count(stray, "call"), most)
	}
	return Claim{"cap held", n > 0 && stray <= most, detail}
}

// fewRefused: what the API itself refused. It may be busy for a process that
// was killed, which nobody else can know.
func (e *Evidence) fewRefused() Claim {
	refused, orphaned := 0, 0
	for _, c := range e.Calls {
		if c.Refused {
			refused++
			if e.Algorithm == apisim.InFlight && c.inFlight() <= e.Cap {
				orphaned++
			}
		}
	}
	most := allowed(len(e.Calls))
	detail := fmt.Sprintf("the API refused %d of %s; at most %d would be all right", refused, count(len(e.Calls), "call"), most)
	if orphaned > 0 {
		detail += fmt.Sprintf(" (%d of them because it was still busy with calls of the killed process)", orphaned)
	}
	return Claim{"hardly a refusal", refused-orphaned <= most, detail}
}

// sharedWork: one limit over several processes is what this is about, so all of
// them must have called.
func (e *Evidence) sharedWork() Claim {
	by := make([]int, e.Workers+1)
	for _, c := range e.Calls {
		if c.Worker > 0 && c.Worker < len(by) {
			by[c.Worker]++
		}
	}
	var parts []string
	for i, n := range by[1:] {
		part := fmt.Sprint(n)
		if e.Kill != nil && e.Kill.Worker == i+1 {
			part += " (killed)"
		}
		parts = append(parts, part)
	}
	return Claim{"one limit, several processes", !slices.Contains(by[1:], 0),
		fmt.Sprintf("%d processes shared the limit; their calls: %s", e.Workers, strings.Join(parts, " + "))}
}

// killedMidCall: the call that the killed process had under way was made again,
// under the same key, and the API delivered nothing a second time.
func (e *Evidence) killedMidCall() Claim {
	c := Claim{Name: "a killed process loses nothing"}
	if e.Kill == nil {
		c.Detail = "no process was killed: no call was found under way"
		return c
	}
	repeated, replayed := 0, false
	calls := e.of(e.Kill.Message)
	for _, call := range calls {
		if call.Arrival.After(e.Kill.At) && !call.Refused {
			repeated++
			replayed = replayed || call.Replayed && call.ok()
		}
	}
	c.OK = replayed && len(keys(calls)) == 1 && e.deliveries(e.Kill.Message) == 1
	c.Detail = fmt.Sprintf("process %d was killed in its call for %s; the call was ", e.Kill.PID, e.Kill.Message)
	delivered := "delivered " + times(e.deliveries(e.Kill.Message))
	switch {
	case repeated == 0:
		c.Detail += "never repeated"
	case len(keys(calls)) != 1:
		c.Detail += "repeated under another key, " + delivered
	default:
		c.Detail += "repeated under its key, " + delivered
	}
	return c
}

// noNeedlessRepeat: a call is repeated only where something was wrong with the
// one before, and always under its first key.
func (e *Evidence) noNeedlessRepeat() Claim {
	repeats := e.repeats()
	var needless []string
	for _, r := range repeats {
		if r.Why == "" || r.Key != r.Before.Key {
			needless = append(needless, r.MessageID)
		}
	}
	c := Claim{"no repeat without a reason", len(needless) == 0,
		fmt.Sprintf("%s of %d repeated, each for a reason and under its first key", count(len(repeats), "call"), len(e.Calls))}
	if !c.OK {
		c.Detail = fmt.Sprintf("%d of %s had no reason or another key: %s", len(needless), count(len(repeats), "repeated call"), few(needless))
	}
	return c
}
