package penstock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

const (
	retryFirst = 20 * time.Millisecond // first wait after the store failed
	retryMost  = 2 * time.Second
	// callWithin is how long a worker waits for an answer of the store before it
	// asks again: the connection may be one that a router has forgotten.
	callWithin = 10 * time.Second

	lookLeast = time.Millisecond // shortest wait after a claim that took nothing
	lookMost  = 50 * time.Millisecond
	gather    = 500 * time.Microsecond // what a claim waits for short handlers to free places

	// How often a worker that drains asks whether anything is left: while others
	// run something, and while something waits, whose end a signal tells, too.
	drainLook        = 200 * time.Millisecond
	drainLookWaiting = 5 * time.Second
)

// fetch claims jobs while there are places for them. It never polls: after a
// claim that took all there was, it sleeps until the instant the store named,
// or until something wakes it: the store (new work, also from other
// processes), a place that got free, the end of a trouble.
func (w *worker) fetch(ctx context.Context) {
	defer close(w.fetched)
	watch := w.st.Watch(ctx)
	idle := 0     // claims in a row that took nothing and said to ask again at once
	more := false // the last ones left something
	for ctx.Err() == nil {
		w.answerSignals(watch)
		next := limit.Never
		w.setAsking()
		took, asked := 0, w.toAsk()
		short := len(asked) == 0 || w.o.capped()
		tookAll := len(asked) > 0 && len(asked[0].queues) == len(w.o.Queues)
		for _, a := range asked {
			res, err := w.claim(ctx, a, more)
			if err != nil {
				tookAll = false
				break // ctx ended, or we have a new identity
			}
			w.reach(a, res)
			n := w.admit(res)
			took += n
			short = short || n >= a.places
			tookAll = tookAll && a.leftNothing(res.Jobs)
			next = min(next, res.NextAt)
		}
		idleUntil := int64(0)
		if tookAll {
			idleUntil = next
		}
		w.setShort(short, idleUntil)
		if len(asked) > 0 { // who had no place to ask for learned nothing
			more = took > 0 && (short || w.c.clock.until(next) <= 0)
		}
		if took > 0 {
			idle = 0
			if w.soonMore() {
				_ = sleep(ctx, gather)
			}
			if more {
				continue
			}
		}
		wait := time.Duration(-1)
		if len(asked) > 0 {
			if next != limit.Never {
				wait = max(w.c.clock.until(next), 0)
				if wait == 0 {
					idle++
				}
				wait = max(wait, min(lookLeast<<min(idle, 10), lookMost))
			}
		}
		// Also without a place to ask for: a handler that never returns may have the
		// last one. And the instant may be that of another kind's job.
		if w.o.Drain && took == 0 && (wait < 0 || wait > drainLook) {
			again := w.drained(ctx)
			if again == 0 {
				return
			}
			if wait < 0 || wait > again {
				wait = again
			}
		}
		w.setLooks(wait)
		if w.sleepFetch(ctx, watch, wait) {
			idle = 0
		}
	}
}

// sleepFetch waits for a signal or for d (negative: for a signal only). It
// returns true after a signal.
func (w *worker) sleepFetch(ctx context.Context, watch <-chan struct{}, d time.Duration) bool {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
	case <-w.wake:
		return true
	case <-watch:
		return true
	case <-timer:
	}
	return false
}

// answerSignals takes the signals that are there: the claim that comes next sees
// all that they tell of.
func (w *worker) answerSignals(watch <-chan struct{}) {
	select {
	case <-w.wake:
	default:
	}
	select {
	case <-watch:
	default:
	}
}

func (w *worker) soonMore() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.places.soonMore()
}

// toAsk returns the claims to make now; none without places, or while outcomes
// pile up that could not be stored.
func (w *worker) toAsk() []ask {
	if w.idle != nil && w.idle() || w.fin.congested() {
		return nil
	}
	order := inOrder(w.o.Queues, w.o.Weighted, w.c.cfg.Random)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaseOver() { // what came would not begin: see hold
		return nil
	}
	return w.places.asks(order)
}

// claim makes one claim. When the store fails, it is repeated with its token,
// so that jobs leased by a commit whose reply was lost are found. It returns an
// error only if ctx ended or the worker's identity changed.
func (w *worker) claim(ctx context.Context, a ask, more bool) (store.ClaimResult, error) {
	w.mu.Lock()
	if w.refused {
		w.refused = false
		w.horizon.refused()
	}
	lead, ahead := w.lead.now(), w.horizon.now()
	r := store.ClaimRequest{
		Worker: w.id, Token: rand.Int64N(1<<62) + 1,
		Queues: a.queues, Kinds: w.kinds, Run: w.o.Run,
		Places: a.places, Prefetch: a.prefetch, Lead: lead, Horizon: ahead, Early: farAhead,
		SuspectFree: w.places.suspects < suspectOne, More: more,
	}
	w.claiming = r.Token
	w.mu.Unlock()
	r.Stagger = stagger(r, w.c.cfg.Random())
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		// Not ctx: a claim that was sent is better waited for.
		before := time.Now()
		call, over := context.WithTimeout(w.life, callWithin)
		res, err := w.st.Claim(call, r)
		over()
		if err == nil {
			w.c.clock.sample(before, time.Now(), res.Now) // its slots are of this clock
			w.lead.claimed(-w.c.clock.until(res.Now), len(res.Jobs))
			w.c.trouble.clear(w, "claim jobs")
			w.claimedAs = r.Worker
			return res, nil
		}
		if errors.Is(err, store.ErrUnknownWorker) {
			w.c.trouble.clear(w, "claim jobs") // it answered
			w.reregister(ctx, r.Worker)
			return res, err
		}
		w.c.trouble.set(w, "claim jobs", err)
		r.Repeat = true
		if ctx.Err() != nil || sleep(ctx, wait) != nil {
			// One last try: what the lost reply leased is given back at once.
			last, cancel := context.WithTimeout(w.life, retryMost)
			defer cancel()
			if res, err := w.st.Claim(last, r); err == nil {
				w.claimedAs = r.Worker
				return res, nil
			}
			return res, context.Cause(ctx)
		}
	}
}

// reach lets the horizon follow what a claim brought.
func (w *worker) reach(a ask, res store.ClaimResult) {
	slots, inFlight := 0, false
	for i := range res.Jobs {
		if charges := res.Jobs[i].Charges; len(charges) > 0 {
			slots++
			inFlight = inFlight || w.freesInFlight(charges)
		}
	}
	w.mu.Lock()
	w.places.fetched(a.prefetch, len(res.Jobs)-slots)
	w.mu.Unlock()
	next := forever
	if res.NextAt < limit.Never {
		next = w.c.clock.until(res.NextAt)
	}
	w.horizon.claimed(slots, a.places, inFlight, next)
}

// admit takes in what a claim brought and returns how many jobs that were.
func (w *worker) admit(res store.ClaimResult) int {
	for _, j := range res.ExpiredJobs {
		w.ended(&End{Job: j, Outcome: store.OutcomeDead, State: store.Dead, Reason: store.Expired, Error: j.Error, Ended: time.Now(), Recorded: true})
	}
	var run, lost []*start
	w.mu.Lock()
	w.claiming = 0
	for i := range res.Jobs {
		s, old := w.hold(res.Jobs[i], w.claimedAs)
		if old != nil {
			lost = append(lost, old)
		}
		if w.places.admit(s) {
			run = append(run, s)
		}
	}
	w.mu.Unlock()
	for _, s := range lost {
		s.lose()
	}
	for _, s := range run {
		w.running.Add(1)
		go w.runFrom(s)
	}
	return len(res.Jobs)
}

// hold notes that a job is leased to this worker under the identity, and returns its start,
// and an earlier one: the job was taken from us, and we did not hear of it. If the answer
// came when the lease was nearly over, the start does not begin: perhaps the worker was
// declared dead, and has not heard of that. w.mu is held.
func (w *worker) hold(j store.Claimed, as string) (s, old *start) {
	s, old = w.newStart(j, as), w.held[j.ID]
	if w.leaseOver() {
		s.stopWaiting(errNotBegun)
	}
	if w.recordAll {
		s.recorded = make(chan struct{})
	}
	w.held[j.ID] = s
	return s, old
}

// leave frees the place of a start whose handler is over, and returns the start
// that gets it, if any.
func (w *worker) leave(s *start) *start {
	took := time.Duration(0)
	if !s.beganAt.IsZero() {
		took = max(time.Since(s.beganAt), 1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.places.leave(s, took)
	if next == nil || w.places.halfRun() {
		w.freed = true
	}
	if w.worthAClaim() || s.job.Suspect {
		w.signal()
	}
	return next
}

// worthAClaim says whether a place that got free is worth another claim. w.mu is held.
func (w *worker) worthAClaim() bool { return w.short && w.freed && !w.asking }

// setAsking notes that claims are under way: only their answers tell what a place is
// worth that gets free meanwhile.
func (w *worker) setAsking() {
	w.mu.Lock()
	w.asking, w.freed, w.looksAt = true, false, time.Time{}
	w.mu.Unlock()
}

// setShort notes whether places are short: the last claims took as many jobs as
// they could, so one more place is worth another claim. Where they took fewer, a
// place that gets free changes nothing. Until the instant, the store's, nothing that the
// claims saw is there to be started; 0: they left something, or did not see all.
func (w *worker) setShort(short bool, idleUntil int64) {
	w.mu.Lock()
	w.asking, w.short, w.idleUntil = false, short, idleUntil
	if w.worthAClaim() {
		w.signal()
	}
	w.mu.Unlock()
}

// setLooks notes when fetch looks again by itself; never, if in is negative.
func (w *worker) setLooks(in time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looksAt = time.Time{}
	if in >= 0 {
		w.looksAt = time.Now().Add(in)
	}
}

// mayBeDrained is called when a job is held no more. A worker that drains then looks whether
// anything is left, unless it does so soon by itself.
func (w *worker) mayBeDrained() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.o.Drain && len(w.held)+len(w.wishes) == 0 && (w.looksAt.IsZero() || time.Until(w.looksAt) > drainLook) {
		w.signal()
	}
}

// signal wakes fetch.
func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// drained returns 0 if nothing is left, here or with other workers, else how
// long to wait before asking again.
func (w *worker) drained(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, 2*callWithin)
	defer cancel()
	if w.busy() > 0 {
		return drainLookWaiting // its end is told of
	}
	f := store.Filter{States: []store.State{store.Waiting, store.Running}, Run: w.o.Run, N: 1}
	filters := []store.Filter{f}
	if w.o.Run == "" {
		filters = nil
		for _, k := range w.kinds {
			f.Kind = k
			filters = append(filters, f)
		}
	}
	if len(w.o.Queues) > 0 {
		all := filters
		filters = nil
		for _, f := range all {
			for _, q := range w.o.Queues {
				f.Queue = q.Name
				filters = append(filters, f)
			}
		}
	}
	for _, f := range filters {
		jobs, err := w.st.Jobs(ctx, f)
		switch {
		case err != nil, len(jobs) > 0 && jobs[0].State == store.Running:
			return drainLook
		case len(jobs) > 0:
			return drainLookWaiting
		}
	}
	return 0
}
