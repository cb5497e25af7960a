package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
)

// group puts inserts of one process that wait at the same time into one
// transaction: a commit costs far more than a row.
type group struct {
	store.Store

	mu      sync.Mutex
	waiting []*insert
	leaders int
}

// insert is one call of Insert.
type insert struct {
	jobs []store.NewJob
	out  []store.Inserted
	err  error
	done chan struct{}
}

const (
	groupLeaders = 2           // transactions at once: while one commits, the next one fills
	groupJobs    = 1000        // in one transaction, unless one call has more
	groupGrace   = time.Second // that a call waits for its commit after its caller gave up
)

// Insert writes all jobs of the call or none.
func (g *group) Insert(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error) {
	if len(jobs) >= groupJobs {
		return g.Store.Insert(ctx, jobs)
	}
	for i := range jobs {
		if jobs[i].Replace || jobs[i].Unique != "" || jobs[i].Ref != "" {
			// It may have to wait for another one's transaction, or to change a job that waits.
			return g.Store.Insert(ctx, jobs)
		}
	}
	c := &insert{jobs: jobs, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	lead := g.leaders < groupLeaders
	if lead {
		g.leaders++
	}
	g.mu.Unlock()
	if lead {
		// Not in this goroutine: its caller must not go on for others.
		go g.lead(context.WithoutCancel(ctx))
	}
	select {
	case <-c.done:
		return c.out, c.err
	case <-ctx.Done():
	}
	if g.withdraw(c) {
		return nil, ctx.Err()
	}
	// It is on its way, and what becomes of it is soon known.
	select {
	case <-c.done:
		return c.out, c.err
	case <-time.After(groupGrace):
		return nil, ctx.Err()
	}
}

// withdraw takes a call back that no leader has taken yet.
func (g *group) withdraw(c *insert) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.waiting)
	g.waiting = slices.DeleteFunc(g.waiting, func(w *insert) bool { return w == c })
	return len(g.waiting) < n
}

// lead writes what waits until nothing does.
func (g *group) lead(ctx context.Context) {
	for {
		g.mu.Lock()
		n, jobs := 0, 0
		for n < len(g.waiting) && (n == 0 || jobs+len(g.waiting[n].jobs) <= groupJobs) {
			jobs += len(g.waiting[n].jobs)
			n++
		}
		calls := slices.Clone(g.waiting[:n])
		g.waiting = g.waiting[n:]
		if n == 0 {
			g.leaders--
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.write(ctx, calls)
		for _, c := range calls {
			close(c.done)
		}
	}
}

func (g *group) write(ctx context.Context, calls []*insert) {
	if len(calls) == 1 {
		calls[0].out, calls[0].err = g.Store.Insert(ctx, calls[0].jobs)
		return
	}
	var all []store.NewJob
	for _, c := range calls {
		all = append(all, c.jobs...)
	}
	out, err := g.Store.Insert(ctx, all)
	var refused *store.InsertError
	if errors.As(err, &refused) {
		// One call is at fault, and the others must not suffer for it.
		for _, c := range calls {
			c.out, c.err = g.Store.Insert(ctx, c.jobs)
		}
		return
	}
	for _, c := range calls {
		if c.err = err; err == nil {
			c.out, out = out[:len(c.jobs):len(c.jobs)], out[len(c.jobs):]
		}
	}
}
