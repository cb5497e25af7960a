package cli

import (
	"sync"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
)

// tally counts what happens in this process.
type tally struct {
	mu      sync.Mutex
	starts  int64
	refused int64
	retried int64 // failures that will be tried again
	running int64
	failure string                        // the last such failure
	dead    int                           // dead calls
	ended   [penstock.Cancelled + 1]int64 // by state
	news    []int64                       // ids of jobs that have ended, not yet taken
	signal  chan struct{}                 // there are news

	at   [rateSeconds]int64 // starts by second, as a ring
	last int64              // the newest second in it
}

// tallied are the numbers of a tally at one instant.
type tallied struct {
	starts, refused, retried, running int64
	ended                             [penstock.Cancelled + 1]int64
	failure                           string
}

// rateSeconds is how far back the rate is measured, this second included.
const rateSeconds = 8

func newTally() tally { return tally{signal: make(chan struct{}, 1)} }

func (t *tally) onStart(*penstock.JobInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starts++
	t.running++
	t.forward(time.Now().Unix())
	t.at[t.last%rateSeconds]++
}

func (t *tally) onEnd(e *penstock.End) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !e.Started.IsZero() {
		t.running--
	}
	switch e.Outcome {
	case store.OutcomeThrottled:
		t.refused++
	case store.OutcomeRetry:
		t.retried++
		t.failure = e.Error
	case store.OutcomeDone:
		t.failure = ""
	}
	if e.Recorded && e.State.Ended() {
		t.ended[e.State]++
		t.news = append(t.news, e.Job.ID)
		select {
		case t.signal <- struct{}{}:
		default:
		}
	}
}

// forward moves the ring to a second.
func (t *tally) forward(now int64) {
	if now-t.last >= rateSeconds {
		clear(t.at[:])
		t.last = now
	}
	for t.last < now {
		t.last++
		t.at[t.last%rateSeconds] = 0
	}
}

// rate is the starts per second over the last seconds, or since begun if that
// is shorter.
func (t *tally) rate(begun, now time.Time) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forward(now.Unix())
	sum := int64(0)
	for _, n := range t.at {
		sum += n
	}
	span := float64(rateSeconds-1) + float64(now.Nanosecond())/1e9
	return float64(sum) / max(min(span, now.Sub(begun).Seconds()), 1)
}

// take returns the ids of jobs that have ended since it was last called.
func (t *tally) take() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := t.news
	t.news = nil
	return ids
}

// counts returns the numbers.
func (t *tally) counts() tallied {
	t.mu.Lock()
	defer t.mu.Unlock()
	return tallied{t.starts, t.refused, t.retried, max(t.running, 0), t.ended, t.failure}
}

// deadSaid is how many dead calls are told of one by one.
const deadSaid = 10

// tellsOfDead says whether to tell of one more dead call, and whether it is the
// last one.
func (t *tally) tellsOfDead() (tell, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead++
	return t.dead <= deadSaid, t.dead == deadSaid
}
