package penstock

import (
	"context"
	"fmt"
	"slices"
)

// A Load stages many jobs of a run in chunks and makes them all visible in one
// commit: either every job of the load is there, or none. It is for one
// goroutine at a time.
type Load struct {
	c     *Client
	run   string
	name  string
	ended bool
}

// NewLoad begins a load for a run of calls. What an earlier load of the run
// staged and never committed stays out of sight; Abort of any load of the run
// removes it.
func (c *Client) NewLoad(run string) *Load {
	return &Load{c: c, run: run, name: NewIdempotencyKey()}
}

// Add stages jobs, all or none, in one commit; chunks of about 1,000 are best.
// A Ref that was committed before, or staged earlier in this load, is not
// written again: see Enqueued.
func (l *Load) Add(ctx context.Context, jobs []NewJob) ([]Enqueued, error) {
	if l.ended {
		return nil, fmt.Errorf("load of run %q: already committed or aborted", l.run)
	}
	jobs = slices.Clone(jobs)
	for i := range jobs {
		if jobs[i].Run != "" && jobs[i].Run != l.run {
			return nil, &EnqueueError{Index: i, Kind: jobs[i].Kind, Err: fmt.Errorf("belongs to run %q, the load to %q", jobs[i].Run, l.run)}
		}
		jobs[i].Run = l.run
	}
	return l.c.insert(ctx, jobs, l.name, l.c.st.Insert)
}

// Commit makes all staged jobs visible at once.
func (l *Load) Commit(ctx context.Context) error {
	if l.ended {
		return fmt.Errorf("load of run %q: already committed or aborted", l.run)
	}
	if err := l.c.st.Release(ctx, l.name); err != nil {
		return fmt.Errorf("load of run %q: %w", l.run, err)
	}
	l.ended = true
	return nil
}

// Abort removes what is staged and not committed for the run, by this load and
// by ones whose process died. After Commit it does nothing.
func (l *Load) Abort(ctx context.Context) error {
	if l.ended {
		return nil
	}
	l.ended = true
	return l.c.DropLoads(ctx, l.run)
}

// DropLoads removes jobs that were staged for the run and never committed.
func (c *Client) DropLoads(ctx context.Context, run string) error {
	for {
		n, err := c.st.DropLoads(ctx, run)
		if err != nil {
			return fmt.Errorf("staged jobs of run %q: %w", run, err)
		}
		if n == 0 {
			return nil
		}
	}
}
