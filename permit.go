package penstock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
)

// A Permit is the right to have one call under way. It is safe for concurrent use.
type Permit struct {
	s    *start
	ctx  context.Context
	once sync.Once
	done chan struct{}
}

// Context ends when the permit is no longer ours: it was released, the client
// was closed, or the store gave it to others because this process seemed dead.
func (p *Permit) Context() context.Context { return p.ctx }

// Observe notes what the call's response said about one of its limits; Release
// stores it. Instants of o that are zero are filled in.
func (p *Permit) Observe(limitName string, o Observation) {
	if _, ok := p.s.w.c.specs.get(p.ctx, limitName); !ok {
		p.s.w.log.Warn("an observation is dropped: its limit is not declared", "limit", limitName)
		return
	}
	p.s.observe(p.s.observed1(limitName, o))
}

// RateLimited notes that the API refused the call and asked to wait (0: it did
// not say how long): Release pauses the limit for everybody.
func (p *Permit) RateLimited(limitName string, wait time.Duration) {
	o := Observation{Refused: true}
	if wait > 0 {
		o.RetryAt = later(p.s.w.c.clock.now(), min(wait, maxPause))
	}
	p.Observe(limitName, o)
}

// Release ends the call and returns when that is stored, or with ctx's cause.
// Even then the call ends as soon as the store can be reached. Further calls of
// Release only wait.
func (p *Permit) Release(ctx context.Context) error {
	p.once.Do(func() { close(p.done) })
	select {
	case <-p.s.recorded:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Acquire waits until the draws are granted and returns the permit to start one
// call, for code that has no job. All draws are granted, or none is charged. It
// returns early with ctx's cause; an unknown limit or an impossible cost is an
// error at once. Release the permit when the call is over.
func (c *Client) Acquire(ctx context.Context, draws ...Draw) (*Permit, error) {
	if len(draws) == 0 {
		return nil, errors.New("acquire: expected at least one draw")
	}
	desk, err := c.desk(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	key := NewIdempotencyKey()
	grant := desk.expect(key)
	done, err := c.EnqueueMany(ctx, []NewJob{{Kind: desk.kind.name, Queue: permitQueue, Payload: []byte(key), Limits: draws, own: true}})
	if err != nil {
		desk.forget(key)
		return nil, fmt.Errorf("acquire: %w", bare(err))
	}
	// The desk slept while nobody wished for anything, whatever the store told it
	// meanwhile; so it is woken by the wish itself.
	desk.w.signal()
	select {
	case p := <-grant:
		return p, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-desk.ended:
		err = store.ErrClosed
	}
	if !desk.forget(key) {
		p := <-grant // it was granted in the same moment
		p.once.Do(func() { close(p.done) })
		return nil, err
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastGrace)
	defer cancel()
	desk.withdraw(after, done[0].ID)
	return nil, err
}

const (
	permitQueue = store.PrivateKind + "permits"
	permitMost  = 10_000 // permits that one process holds at a time
)

// permitDesk turns calls of Acquire into jobs of a kind that only this process
// knows, and runs them: the handler hands the permit over and waits for its
// release. So permits follow the same rules as jobs, in line and after a crash.
type permitDesk struct {
	w     *worker
	kind  *kindEntry
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	waiting map[string]chan *Permit
}

// desk returns the client's permit desk, opening it at the first call.
func (c *Client) desk(ctx context.Context) (*permitDesk, error) {
	select {
	case c.deskTurn <- struct{}{}:
		defer func() { <-c.deskTurn }()
	case <-ctx.Done(): // another one opens it over a store that is slow
		return nil, context.Cause(ctx)
	}
	if c.permits != nil {
		return c.permits, nil
	}
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &permitDesk{stop: stop, ended: make(chan struct{}), waiting: map[string]chan *Permit{}}
	d.kind = &kindEntry{name: store.PrivateKind + "permit:" + newWorkerID(), Kind: Kind{Timeout: -1}, run: d.hand}
	d.w = c.newWorker(base, WorkOptions{Concurrency: permitMost, Grace: time.Millisecond}, []string{d.kind.name})
	d.w.private, d.w.recordAll, d.w.idle = true, true, d.idle
	d.w.kindOf = func(string) *kindEntry { return d.kind }
	if err := d.w.begin(ctx); err != nil {
		stop()
		return nil, err
	}
	go func() {
		defer close(d.ended)
		if err := d.w.work(base); err != nil {
			c.log.Error("permits could not be given back at the end", "error", err)
		}
	}()
	c.permits = d
	return d, nil
}

// close ends the desk: permits that are out are given back.
func (d *permitDesk) close() {
	if d == nil {
		return
	}
	d.stop()
	<-d.ended
}

func (d *permitDesk) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting) == 0
}

func (d *permitDesk) expect(key string) <-chan *Permit {
	grant := make(chan *Permit, 1)
	d.mu.Lock()
	d.waiting[key] = grant
	d.mu.Unlock()
	return grant
}

// forget returns false if the permit was handed over before.
func (d *permitDesk) forget(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.waiting[key]
	delete(d.waiting, key)
	return ok
}

// withdraw takes a wish back that was stored. One that was granted meanwhile
// finds nobody waiting, and ends by itself.
func (d *permitDesk) withdraw(ctx context.Context, id int64) {
	state, err := d.w.st.Cancel(ctx, id)
	if err == nil && state == store.Cancelled {
		_, err = d.w.st.Discard(ctx, []int64{id})
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		d.w.log.Warn("a withdrawn wish for a permit could not be removed; it ends with this process", "job", id, "error", err)
	}
}

// hand is the handler of the desk's jobs.
func (d *permitDesk) hand(ctx context.Context, job *RawJob) error {
	key := string(job.Payload)
	d.mu.Lock()
	grant, ok := d.waiting[key]
	delete(d.waiting, key)
	d.mu.Unlock()
	if !ok {
		return nil // withdrawn
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &Permit{s: job.start, ctx: ctx, done: make(chan struct{})}
	grant <- p
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	return nil
}
