package demo

import (
	"fmt"
	"slices"

	"github.com/penstockhq/penstock"
)

// deliveredOnce: every message to a good number reached its phone, once.
func (e *Evidence) deliveredOnce() Claim {
	expected, delivered, none, more := 0, 0, 0, 0
	for _, m := range e.Messages {
		if m.Bad {
			continue
		}
		expected++
		switch e.deliveries(m.ID) {
		case 0:
			none++
		case 1:
			delivered++
		default:
			more++
		}
	}
	detail := fmt.Sprintf("%d of %s to good numbers delivered exactly once", delivered, count(expected, "message"))
	if none > 0 {
		detail += fmt.Sprintf(", %d never", none)
	}
	if more > 0 {
		detail += fmt.Sprintf(", %d more than once", more)
	}
	return Claim{"delivered exactly once", delivered == expected, detail}
}

// enqueuedTwice: a message that was enqueued twice is one job. Each enqueue
// brought a key of its own, so a second job would show by its key.
func (e *Evidence) enqueuedTwice() Claim {
	twice, good := 0, 0
	for _, m := range e.Messages {
		if !m.Twice {
			continue
		}
		twice++
		if len(keys(e.of(m.ID))) == 1 {
			good++
		}
	}
	return Claim{"enqueued twice, one job", twice > 0 && good == twice,
		fmt.Sprintf("%d of %s that were enqueued twice came under one key", good, count(twice, "message"))}
}

// badNumbers: what can never work is tried once. Refused calls do not count, as
// the API did not look at them; nor does what came after the replay.
func (e *Evidence) badNumbers() Claim {
	bad, once := 0, 0
	for _, m := range e.Messages {
		if !m.Bad {
			continue
		}
		bad++
		if e.triedOnce(m.ID) {
			once++
		}
	}
	return Claim{"bad numbers are tried once", bad > 0 && once == bad,
		fmt.Sprintf("%d of %s to bad numbers rejected after one call", once, count(bad, "message"))}
}

// triedOnce says whether the API looked at the message once and rejected it.
// The process that made the call may have been killed before it could tell.
func (e *Evidence) triedOnce(message string) bool {
	var tried []Call
	for _, c := range e.of(message) {
		after := e.Replay != nil && e.Replay.Message == message && c.Arrival.After(e.Replay.At)
		if c.Refused || after {
			continue
		}
		if c.Status != 400 || c.Delivered {
			return false
		}
		tried = append(tried, c)
	}
	return len(tried) == 1 || len(tried) == 2 && e.lost(tried[0], tried[1])
}

// replayed: a dead letter that was put back in line ended well.
func (e *Evidence) replayed() Claim {
	c := Claim{Name: "a dead letter can be replayed"}
	if e.Replay == nil {
		c.Detail = "none was replayed"
		return c
	}
	before := e.deliveriesWhere(e.Replay.Message, func(c Call) bool { return c.Arrival.Before(e.Replay.At) })
	after := e.deliveriesWhere(e.Replay.Message, func(c Call) bool { return c.Arrival.After(e.Replay.At) })
	oneKey := len(keys(e.of(e.Replay.Message))) == 1
	c.OK = before == 0 && after == 1 && oneKey
	c.Detail = fmt.Sprintf("%s, its number corrected, was delivered %s after its replay", e.Replay.Message, times(after))
	if before > 0 {
		c.Detail += fmt.Sprintf(", and %s before", times(before))
	}
	if !oneKey {
		c.Detail += ", under another key"
	}
	return c
}

// booksAgree: what Penstock says of each job is what the API saw.
func (e *Evidence) booksAgree() Claim {
	var differ []string
	done, dead := 0, 0
	for _, m := range e.Messages {
		state := e.States[m.ID]
		switch {
		case state == penstock.Done && e.deliveries(m.ID) > 0:
			done++
		case state == penstock.Dead && e.rejected(m.ID):
			dead++
		default:
			differ = append(differ, m.ID)
		}
	}
	c := Claim{"the books agree", len(differ) == 0,
		fmt.Sprintf("Penstock has %d done and %s, and so has the API", done, count(dead, "dead letter"))}
	if !c.OK {
		c.Detail = fmt.Sprintf("Penstock and the API differ about %s: %s", count(len(differ), "message"), few(differ))
	}
	return c
}

// deliveriesWhere counts a message's deliveries among some of its calls.
func (e *Evidence) deliveriesWhere(message string, which func(Call) bool) int {
	n := 0
	for _, c := range e.of(message) {
		if c.Delivered && which(c) {
			n++
		}
	}
	return n
}

// keys returns the different keys of calls.
func keys(calls []Call) []string {
	var all []string
	for _, c := range calls {
		if !slices.Contains(all, c.Key) {
			all = append(all, c.Key)
		}
	}
	return all
}
