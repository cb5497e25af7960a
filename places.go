package penstock

import (
	"time"

	"github.com/penstockhq/penstock/store"
)

// How many handlers run at a time where nobody said: first so many; more while
// all of them wait for something; at most so many.
const (
	autoFirst = 100
	autoMost  = 1000
	autoSlow  = 10 * time.Millisecond // a handler that takes this long waits for something
)

// How jobs without limits are fetched ahead, so that short handlers never wait
// for a commit.
const (
	shortHandler  = 2 * time.Millisecond
	shortSamples  = 64 // handlers to see before they are believed to be short
	aheadPerPlace = 8
	aheadLeast    = 64
	aheadPatience = 500 * time.Millisecond // a job fetched ahead is given back after so long
	overMost      = 500                    // starts under limits beyond the places, as long as none comes late
	overSteps     = 8                      // starts in time for one more of them, once one was late
)

// suspectOne is how many suspects a process runs at a time: if it dies, it must
// be known which one it was.
const suspectOne = 1

// places counts who runs where. It is pure bookkeeping; the worker's lock
// guards it.
type places struct {
	all       int            // places there are
	taken     int            // by handlers, or by starts that wait for their slot
	byQueue   map[string]int // claimed jobs per queue whose place is not free yet
	suspects  int
	waiting   []*start // claimed under limits beyond the places
	ahead     []*start // fetched ahead without limits
	aheadNext bool     // the last place that was passed on went to one of waiting
	over      int      // how many starts under limits to claim beyond the places
	dry       bool     // a claim that would have fetched jobs without limits ahead found none, and no later one did
	claim     int64    // the token of the claim that met was told of last
	inTime    int      // how many of its starts were in time
	late      bool     // and whether one was late
	wasLate   bool     // one of any claim

	mean    time.Duration // of recent handlers
	samples int
}

func (p *places) free() int { return max(p.all-p.taken, 0) }

// admit takes in a claimed job. It returns true if it has a place and is to run
// now; otherwise it waits for one.
func (p *places) admit(s *start) bool {
	p.byQueue[s.job.Queue]++
	if s.job.Suspect {
		p.suspects++
	}
	if p.taken < p.all {
		p.taken++
		return true
	}
	if len(s.job.Draws) > 0 {
		p.waiting = append(p.waiting, s)
	} else {
		p.ahead = append(p.ahead, s)
	}
	return false
}

// leave is told that a start's handler is over, and returns the start that gets
// its place, or nil if the place is free now.
func (p *places) leave(s *start, took time.Duration) *start {
	p.gone(s)
	if took > 0 {
		p.measure(took)
	}
	return p.pass()
}

// pass hands a place that is left to the next start that waits for one, or frees it.
func (p *places) pass() *start {
	if p.taken > p.all { // the number of places was cut
		p.taken--
		return nil
	}
	line := &p.waiting
	if len(p.waiting) == 0 || p.aheadNext && len(p.ahead) > 0 {
		line = &p.ahead
	}
	if len(*line) == 0 {
		p.taken--
		return nil
	}
	// In turn, since starts under limits may keep coming for as long as there are jobs.
	p.aheadNext = line == &p.waiting
	next := (*line)[0]
	(*line)[0] = nil
	*line = (*line)[1:]
	return next
}

// gone forgets a claimed job.
func (p *places) gone(s *start) {
	p.goneOf(s.job.Queue)
	if s.job.Suspect {
		p.suspects--
	}
}

func (p *places) goneOf(queue string) {
	if p.byQueue[queue]--; p.byQueue[queue] <= 0 {
		delete(p.byQueue, queue)
	}
}

// reserve takes a place for a job of the queue that may come, as admit does for one that
// did, if a claim for the queues could bring it.
func (p *places) reserve(queues []WorkQueue, queue string) bool {
	free, served := p.free(), len(queues) == 0
	for _, q := range queues {
		switch {
		case q.Name != queue:
			free -= max(q.Reserve-p.byQueue[q.Name], 0)
		case q.Max > 0 && p.byQueue[queue] >= q.Max:
			return false
		default:
			served = true
		}
	}
	if !served || free <= 0 {
		return false
	}
	p.taken++
	p.byQueue[queue]++
	return true
}

// giveUp gives a reserved place back, and returns the start that gets it, or nil if the
// place is free now.
func (p *places) giveUp(queue string) *start {
	p.goneOf(queue)
	return p.pass()
}

// takeWaiting removes and returns what was claimed and has no place.
func (p *places) takeWaiting() []*start {
	out := append(p.ahead, p.waiting...)
	p.ahead, p.waiting = nil, nil
	for _, s := range out {
		p.gone(s)
	}
	return out
}

// inVain reports whether what was claimed beyond the places has waited for one for too long,
// since before the instant, of starts with slots since the other one, the store's.
func (p *places) inVain(before time.Time, slot int64) bool {
	return len(p.ahead) > 0 && p.ahead[0].at.Before(before) ||
		len(p.waiting) > 0 && p.waiting[0].at.Before(before) && p.waiting[0].job.Slot < slot
}

// met is told of each start under limits of a claim whether it began in time for its
// slot. How many do is how many to claim next time, and a few more as long as none comes
// late; of the starts that came late, the first one tells all.
func (p *places) met(claim int64, inTime bool) {
	if p.claim != claim {
		p.claim, p.inTime, p.late = claim, 0, false
	}
	switch {
	case inTime:
		p.inTime++
		if !p.wasLate || p.inTime%overSteps == 0 {
			p.over = min(p.over+1, overMost)
		}
	case !p.late:
		p.late, p.wasLate = true, true
		p.over = max(min(p.over, p.inTime*3/4-p.all), 0)
	}
}

func (p *places) measure(took time.Duration) {
	if p.samples < shortSamples {
		p.samples++
	}
	p.mean += (took - p.mean) / time.Duration(min(p.samples, 32))
}

// forget has handlers be no longer believed to be short: one takes long.
func (p *places) forget() { p.samples, p.mean = 0, 0 }

// short says that handlers are so short that fetching ahead pays.
func (p *places) short() bool { return p.samples >= shortSamples && p.mean < shortHandler }

// prefetch is how many jobs without limits to claim on top of the free places.
func (p *places) prefetch() int {
	if !p.short() {
		return 0
	}
	want := max(p.all*aheadPerPlace, aheadLeast)
	if len(p.ahead) > want/2 {
		return 0
	}
	return want - len(p.ahead)
}

// ask is one claim to be made.
type ask struct {
	queues   []store.QueueAsk
	places   int
	prefetch int
}

// leftNothing says that the claim took fewer jobs than it could, in all and of each queue.
func (a ask) leftNothing(jobs []store.Claimed) bool {
	got := map[string]int{}
	for i := range jobs {
		got[jobs[i].Queue]++
	}
	for _, q := range a.queues {
		if got[q.Name] >= q.Max {
			return false
		}
	}
	return len(jobs) < a.places
}

// asks says which claims are worth making: none if there is no place. order is
// the queues in the order to be served now. Where queues reserve places that
// they do not use, a first claim leaves those alone and a second one asks for
// them, for each such queue.
func (p *places) asks(order []WorkQueue) []ask {
	free, prefetch := p.free(), p.prefetch()
	over := 0
	if prefetch > 0 && 2*len(p.waiting) <= p.over {
		// Jobs under limits are fetched ahead, too: as many as get a place before their
		// slot is too old, since handlers are short. But what a claim brings beyond the
		// places may also be without limits, so not while many of those wait.
		over = max(p.over, 1) - len(p.waiting)
	}
	if p.dry && free == 0 {
		prefetch = 0
	}
	reserved := 0
	for _, q := range order {
		reserved += max(q.Reserve-p.byQueue[q.Name], 0)
	}
	var out []ask
	common := ask{places: max(free-reserved, 0), prefetch: prefetch}
	if reserved == 0 {
		common.places += max(over, 0)
	} else {
		common.prefetch = 0
	}
	for i, q := range order {
		room := common.places + common.prefetch
		if q.Max > 0 {
			room = min(room, q.Max-p.byQueue[q.Name])
		}
		if room > 0 {
			common.queues = append(common.queues, store.QueueAsk{Name: q.Name, Place: i, Max: room})
		}
	}
	if common.places+common.prefetch > 0 && (len(order) == 0 || len(common.queues) > 0) {
		out = append(out, common)
	}
	for _, q := range order {
		if own := min(q.Reserve-p.byQueue[q.Name], free); own > 0 {
			out = append(out, ask{queues: []store.QueueAsk{{Name: q.Name, Max: own}}, places: own})
			free -= own
		}
	}
	return out
}

// fetched is told of a claim how many jobs it was to fetch ahead, and how many without
// limits it brought.
func (p *places) fetched(prefetch, free int) {
	p.dry = free == 0 && (p.dry || prefetch > 0)
}

// halfRun says that half of what was fetched ahead has got a place.
func (p *places) halfRun() bool {
	return 2*len(p.ahead) == p.all*aheadPerPlace || p.over > 1 && len(p.waiting) == p.over/2
}

// soonMore says that a claim made a moment later can take many jobs where one
// made now could take few: handlers are short, and most places are taken.
func (p *places) soonMore() bool {
	return p.short() && len(p.ahead) == 0 && 2*p.free() < p.all
}

// grow adds places if all are taken by handlers that wait for something.
func (p *places) grow() bool {
	if p.all >= autoMost || p.free() > 0 || p.samples > 0 && p.mean < autoSlow {
		return false
	}
	p.all = min(p.all*3/2, autoMost)
	return true
}

// inOrder returns the queues in the order to be served: as they are, or drawn
// by weight without putting back.
func inOrder(queues []WorkQueue, weighted bool, random func() float64) []WorkQueue {
	if !weighted || len(queues) < 2 {
		return queues
	}
	left := append([]WorkQueue(nil), queues...)
	out := make([]WorkQueue, 0, len(left))
	for len(left) > 0 {
		sum := 0
		for _, q := range left {
			sum += max(q.Weight, 1)
		}
		point := int(random() * float64(sum))
		pick := len(left) - 1
		for i, q := range left {
			if point -= max(q.Weight, 1); point < 0 {
				pick = i
				break
			}
		}
		out = append(out, left[pick])
		left = append(left[:pick], left[pick+1:]...)
	}
	return out
}
