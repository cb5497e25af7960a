package penstock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Job returns a job with its payload and result, or ErrNotFound.
func (c *Client) Job(ctx context.Context, id int64) (JobInfo, error) { return c.st.Job(ctx, id) }

// Jobs lists jobs in the order of their ids, with f.Newest from the largest down, at
// most f.N (0: 100). For the next page set f.AfterID, or f.BeforeID, to the last id.
func (c *Client) Jobs(ctx context.Context, f Filter) ([]JobInfo, error) { return c.st.Jobs(ctx, f) }

// Events returns a job's history, oldest first.
func (c *Client) Events(ctx context.Context, id int64) ([]Event, error) { return c.st.Events(ctx, id) }

// Cancel ends a waiting job and asks a running one to stop. It returns the
// state after the call: Cancelled, Running (asked), or the end it had before.
// A running handler hears of it within about half a second, as its context's
// cause ErrCancelled; if it then succeeds all the same, the job is done.
func (c *Client) Cancel(ctx context.Context, id int64) (State, error) { return c.st.Cancel(ctx, id) }

// ReplayOptions is how dead letters are put back in line.
type ReplayOptions struct {
	// At is when they are due; zero: now.
	At time.Time
	// Spread draws the due time of each at random within so much time after At.
	Spread time.Duration
	// NewKeys makes new idempotency keys, for an API that must take the call for
	// a new one.
	NewKeys bool
}

// Replay puts dead and cancelled jobs back in line: same id, fresh attempts,
// still under their limits. The error joins one error per job that was not
// replayed, each naming the job.
func (c *Client) Replay(ctx context.Context, ids []int64, o ReplayOptions) error {
	if o.Spread < 0 {
		return fmt.Errorf("replay: spread must not be negative, got %v", o.Spread)
	}
	var key func() string
	if o.NewKeys {
		key = NewIdempotencyKey
	}
	var due []int64
	if !o.At.IsZero() || o.Spread > 0 {
		begin := c.clock.now()
		if !o.At.IsZero() {
			begin = max(begin, c.clock.toStore(o.At))
		}
		due = make([]int64, len(ids))
		for i := range due {
			due[i] = later(begin, time.Duration(c.cfg.Random()*float64(o.Spread)))
		}
	}
	errs, err := c.st.Replay(ctx, ids, due, key)
	return c.perJob("replay", ids, errs, err)
}

// Discard removes ended jobs for good. The error joins one error per job that
// was not removed.
func (c *Client) Discard(ctx context.Context, ids []int64) error {
	errs, err := c.st.Discard(ctx, ids)
	return c.perJob("discard", ids, errs, err)
}

func (c *Client) perJob(what string, ids []int64, errs []error, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	var all []error
	for i, e := range errs {
		if e != nil {
			all = append(all, fmt.Errorf("%s job %d: %w", what, ids[i], e))
		}
	}
	return errors.Join(all...)
}
