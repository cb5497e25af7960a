package postgres

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
)

// group puts inserts of one process that wait at the same time into one
// transaction: a commit costs far more than a row.
type group struct {
	store.Store
	db *db // which writes plain jobs the short way; nil: all go the engine's

	mu      sync.Mutex
	waiting []*insert
	leaders int
	begun   time.Time // the latest transaction
}

// insert is one call of Insert.
type insert struct {
	jobs  []store.NewJob
	short bool // all of them can go the short way, as it seems
	out   []store.Inserted
	err   error
	done  chan struct{}
}

const (
	groupLeaders = 2                     // transactions at once: while one commits, the next one fills
	groupWaiting = 8                     // calls that are worth a second one; fewer go together with those that come
	groupLong    = 10 * time.Millisecond // after which a second one begins whatever waits: the first one may take long
	groupJobs    = 1000                  // in one transaction, unless one call has more
	groupGrace   = time.Second           // that a call waits for its commit after its caller gave up
)

// Insert writes all jobs of the call or none.
func (g *group) Insert(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error) {
	if err := ctx.Err(); err != nil { // no leader asks for one caller
		return nil, err
	}
	if g.db != nil {
		var err error
		if jobs, err = g.db.heedStart(ctx, jobs); err != nil {
			return nil, err
		}
	}
	if len(jobs) >= groupJobs {
		return g.insert(ctx, jobs)
	}
	for i := range jobs {
		if jobs[i].Replace || jobs[i].Unique != "" || jobs[i].Ref != "" {
			// It may have to wait for another one's transaction, or to change a job that waits.
			return g.Store.Insert(ctx, jobs)
		}
	}
	c := &insert{jobs: jobs, short: g.db != nil && g.db.knows(jobs), done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	lead := g.needsLeader()
	if lead {
		g.leaders, g.begun = g.leaders+1, time.Now()
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

// needsLeader reports whether a transaction more is to begin for what waits.
func (g *group) needsLeader() bool {
	switch g.leaders {
	case 0:
		return true
	case groupLeaders:
		return false
	}
	return len(g.waiting) >= groupWaiting || time.Since(g.begun) > groupLong
}

// withdraw takes a call back that no leader has taken yet.
func (g *group) withdraw(c *insert) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.waiting)
	g.waiting = slices.DeleteFunc(g.waiting, func(w *insert) bool { return w == c })
	return len(g.waiting) < n
}

// take takes off those that wait the first one, and those that can go its way with it.
func (g *group) take() (calls []*insert) {
	jobs := 0
	g.waiting = slices.DeleteFunc(g.waiting, func(c *insert) bool {
		if len(calls) > 0 && (c.short != calls[0].short || jobs+len(c.jobs) > groupJobs) {
			return false
		}
		calls, jobs = append(calls, c), jobs+len(c.jobs)
		return true
	})
	return calls
}

// lead writes what waits until nothing does.
func (g *group) lead(ctx context.Context) {
	for {
		g.mu.Lock()
		calls := g.take()
		if len(calls) == 0 {
			g.leaders--
			g.mu.Unlock()
			return
		}
		g.begun = time.Now()
		g.mu.Unlock()
		g.write(ctx, calls)
		for _, c := range calls {
			close(c.done)
		}
		// Who enqueues in a loop comes again at once: then all of them go together.
		runtime.Gosched()
	}
}

func (g *group) write(ctx context.Context, calls []*insert) {
	if len(calls) == 1 {
		calls[0].out, calls[0].err = g.insert(ctx, calls[0].jobs)
		return
	}
	var all []store.NewJob
	for _, c := range calls {
		all = append(all, c.jobs...)
	}
	out, err := g.insert(ctx, all)
	var refused *store.InsertError
	if errors.As(err, &refused) {
		// One call is at fault, and the others must not suffer for it.
		for _, c := range calls {
			c.out, c.err = g.insert(ctx, c.jobs)
		}
		return
	}
	for _, c := range calls {
		if c.err = err; err == nil {
			c.out, out = out[:len(c.jobs):len(c.jobs)], out[len(c.jobs):]
		}
	}
}

// insert goes the short way where it can.
func (g *group) insert(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error) {
	if g.db != nil {
		if out, done, err := g.db.insertPlain(ctx, jobs); done {
			return out, err
		}
	}
	return g.Store.Insert(ctx, jobs)
}
