package penstock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DefaultGrace is how long Work waits for handlers when it is told to stop.
const DefaultGrace = 25 * time.Second

// WorkQueue is one queue a worker serves.
type WorkQueue struct {
	Name string
	// Weight is how often the queue is looked at first, relative to the others;
	// used with WorkOptions.Weighted; 0 means 1.
	Weight int
	// Max is how many of its jobs run at a time; 0: as many as there are places.
	Max int
	// Reserve is how many places only this queue may use.
	Reserve int
}

// WorkOptions is how Work runs jobs. The zero value works.
type WorkOptions struct {
	// Queues are served in this order, the first as long as it has work that may
	// start. None: every queue, all alike.
	Queues []WorkQueue
	// Weighted draws the order by weight, anew for every claim, so that no queue
	// starves.
	Weighted bool
	// Concurrency is how many handlers run at a time. 0 is automatic: 100, and
	// while those are all waiting for something, more, up to 1,000.
	Concurrency int
	// Grace is how long handlers get to end when ctx ends; 0 means 25 s. One that
	// does not return even when its context is cancelled then gets 5 s more.
	Grace time.Duration
	// StopNow, when closed, cancels the handlers at once, as the end of Grace does.
	StopNow <-chan struct{}
	// Run has only jobs of this run started.
	Run string
	// Drain has Work return when no job is left, waiting or running anywhere, of
	// the run, or, without one, of the kinds that have handlers, in the queues
	// that are served.
	Drain bool
	// OnStart and OnEnd are told of each start, from many goroutines at a time;
	// they must be quick. OnEnd comes when the outcome is stored, or refused since
	// the lease was lost.
	OnStart func(job *JobInfo)
	OnEnd   func(end *End)
}

// End is what became of one start.
type End struct {
	Job     JobInfo // as it was when it was claimed
	Outcome Outcome
	State   State     // of the job now
	Reason  Reason    // for a dead one
	Error   string    // shortened
	Started time.Time // when the handler began; zero if it did not
	Ended   time.Time
	NextAt  time.Time // when it is due again, if it is
	Result  []byte
	Detail  []byte
	Refused string        // the limit that was paused because of this start, if any
	Pause   time.Duration // what the API asked to wait
	// Swallowed is how the last call failed of a start whose handler returned nil
	// all the same, if its calls are watched; see [Transport].
	Swallowed string
	Recorded  bool // false: the store refused the outcome, since the lease was lost
}

// Validate reports every fault at once, as one joined error, or nil.
func (o WorkOptions) Validate() error {
	var faults []error
	seen := map[string]bool{}
	reserved := 0
	for i, q := range o.Queues {
		switch {
		case q.Name == "":
			faults = append(faults, fmt.Errorf("queue %d needs a name", i))
		case seen[q.Name]:
			faults = append(faults, fmt.Errorf("queue %q is listed twice", q.Name))
		}
		seen[q.Name] = true
		if q.Weight < 0 || q.Max < 0 || q.Reserve < 0 {
			faults = append(faults, fmt.Errorf("queue %q: weight, max and reserve must not be negative, got %d, %d, %d", q.Name, q.Weight, q.Max, q.Reserve))
		}
		if q.Max > 0 && q.Reserve > q.Max {
			faults = append(faults, fmt.Errorf("queue %q reserves %d places and may use only %d", q.Name, q.Reserve, q.Max))
		}
		reserved += q.Reserve
	}
	if o.Concurrency < 0 {
		faults = append(faults, fmt.Errorf("concurrency must be at least 1 (or 0 for automatic), got %d", o.Concurrency))
	}
	if most := firstOf(o.Concurrency, autoFirst); reserved > 0 && reserved > most {
		faults = append(faults, fmt.Errorf("queues reserve %d places, there are %d", reserved, most))
	}
	if o.Grace < 0 {
		faults = append(faults, fmt.Errorf("grace must be above 0 (or 0 for the default, %v), got %v", DefaultGrace, o.Grace))
	}
	return errors.Join(faults...)
}

// Work runs jobs until ctx ends, or the client is closed, and then returns nil: it
// starts nothing new, gives back what has not begun, waits for the handlers for up
// to Grace, and stores their outcomes. Handlers that take longer are cancelled (ErrStopped),
// and their jobs run again without an attempt spent.
//
// Work stands outages of the store and goes on when it is back. It returns an
// error for faulty options, if no kind has a handler, if the store cannot be
// reached at the start, and if outcomes could not be stored at the end: their
// jobs then run again when their lease is over.
func (c *Client) Work(ctx context.Context, o WorkOptions) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("penstock: work: %w", err)
	}
	kinds := c.handled()
	if len(kinds) == 0 {
		return errors.New("penstock: work: no kind has a handler; call Handle first")
	}
	return c.newWorker(ctx, o, kinds).run(ctx)
}

// capped says whether queues have places of their own, so that a place that gets
// free may be worth a claim though others were free.
func (o WorkOptions) capped() bool {
	for _, q := range o.Queues {
		if q.Max > 0 || q.Reserve > 0 {
			return true
		}
	}
	return false
}
