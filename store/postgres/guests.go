package postgres

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	askFirst = 5 * time.Millisecond   // how soon the server is asked what became of a caller's transaction
	askApart = 20 * time.Millisecond  // at least, between two questions, where one transaction comes after the other
	askMost  = 100 * time.Millisecond // at most, while transactions stay open
	askLater = time.Second            // at most, while the server does not answer
	askFor   = time.Hour              // how long a transaction is asked about

	// guestsMost is how many transactions are asked about at a time.
	guestsMost = 10_000
)

// guests are the callers' transactions in which this process enqueued and whose end is
// not known yet. Nobody else tells of their commit: a NOTIFY in a caller's transaction
// would hold a lock of the whole server. What is not asked about any more, or not yet
// when this process dies, is found by those who look anyway. Its methods may be called
// by any goroutine.
type guests struct {
	h *hub

	mu     sync.Mutex
	open   map[string]time.Time // by the transaction's id: how long to ask
	asking bool                 // follow runs
	came   chan struct{}        // one more is open
}

// add asks about the transaction with this id until its end is known.
func (g *guests) add(xid string) {
	if g.h.silent() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.open[xid]; !known && len(g.open) >= guestsMost {
		return
	}
	g.open[xid] = time.Now().Add(askFor)
	if g.asking {
		select {
		case g.came <- struct{}{}:
		default:
		}
		return
	}
	g.h.mu.Lock()
	g.asking = g.h.start(g.follow)
	g.h.mu.Unlock()
}

// silent reports whether telling would reach nobody: behind a transaction pooler where
// this process does not watch, and once the hub is being closed.
func (h *hub) silent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx.Err() != nil || h.listen == nil && len(h.watchers) == 0
}

// follow asks until there is nothing to ask about: soon after a transaction came, and
// then less and less often.
func (g *guests) follow() {
	var asked time.Time
	gap := askFirst
	for next := time.Now().Add(gap); ; {
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
			asked = time.Now()
			if g.ask(g.h.ctx) != nil { // it is asked again, whatever went wrong
				gap = min(2*max(gap, askMost), askLater)
			} else {
				gap = min(2*gap, askMost)
			}
			if g.none() {
				return
			}
			next = time.Now().Add(gap)
		case <-g.came:
			timer.Stop()
			gap = askFirst
			soon := time.Now().Add(gap)
			if apart := asked.Add(askApart); apart.After(soon) {
				soon = apart
			}
			if soon.Before(next) {
				next = soon
			}
		case <-g.h.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// none reports whether nothing is left to ask about. Then the next one starts follow anew.
func (g *guests) none() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asking = len(g.open) > 0
	return !g.asking
}

// sqlStatus is one statement, so that it works behind a transaction pooler. An id is
// known for as long as the server keeps what became of it; later it is NULL.
const sqlStatus = `SELECT x, pg_xact_status(x::xid8) FROM unnest($1::text[]) u (x)`

// noSuchID is the SQLSTATE of a question about a transaction that never began: after a
// failover the server may have given out fewer ids than the one before it.
const noSuchID = "22023"

// ask asks once what became of all transactions, tells if one has committed, and forgets
// those that have ended.
func (g *guests) ask(ctx context.Context) error {
	g.mu.Lock()
	ids := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	rows, err := g.h.d.others.Query(ctx, sqlStatus, ids)
	var ended []string
	committed := false
	if err == nil {
		var id string
		var status *string
		_, err = pgx.ForEachRow(rows, []any{&id, &status}, func() error {
			switch {
			case status == nil || *status == "committed": // one that is too long ago may have
				ended, committed = append(ended, id), true
			case *status == "aborted":
				ended = append(ended, id)
			}
			return nil
		})
	}
	if stateOf(err) == noSuchID {
		// One of them would keep all others from being answered.
		ended, committed, err = ids, true, nil
	}
	if committed {
		g.h.tell()
	}
	g.forget(ended)
	return err
}

// forget removes transactions that have ended, and those that were asked about for long.
func (g *guests) forget(ended []string) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ended {
		delete(g.open, id)
	}
	maps.DeleteFunc(g.open, func(_ string, until time.Time) bool { return now.After(until) })
}
