package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/limit"
)

// The kinds of jobs, by how their handler guards what it does.
const (
	plain  = "plain"  // calls, and does not mind to call again
	pay    = "pay"    // Once, at an API that removes duplicates by key
	charge = "charge" // Once, at one that does not
	sms    = "sms"    // Once with AtMostOnce, at one that does not
	wire   = "wire"   // the whole job AtMostOnce, at one that does not
)

var kinds = []string{plain, pay, charge, sms, wire}

// apis is the other side: it keeps the books of what was called, which decide
// whether a promise was kept.
type apis struct {
	w        *world
	handlers sync.WaitGroup // that have not returned, dead processes' included

	mu       sync.Mutex
	begun    int
	calls    map[string][]arrival // by limit
	starts   map[int64]int        // by job
	effects  map[string]int       // by key: how often it happened
	finished map[string]bool      // Once has returned a result for the key
	refusing bool                 // a spell in which all is refused
	broken   bool                 // a spell in which all fails
}

// arrival is one start, as the API saw it.
type arrival struct {
	at   int64 // µs since the world began
	cost int64
}

func newAPIs(w *world) *apis {
	return &apis{w: w, calls: map[string][]arrival{}, starts: map[int64]int{}, effects: map[string]int{}, finished: map[string]bool{}}
}

// Payload is what all jobs carry.
type Payload struct {
	Order int `json:"order"`
}

// handle registers the handlers of a process.
func (a *apis) handle(in *incarnation) error {
	var faults []error
	for _, kind := range kinds {
		k := penstock.Kind{Timeout: 2 * time.Second, ThrottleBudget: 30 * time.Second}
		k.Retry.Base, k.Retry.Cap, k.Retry.MaxAttempts = 100*time.Millisecond, 2*time.Second, 4
		faults = append(faults, penstock.Handle(in.client, kind, func(ctx context.Context, j *penstock.Job[Payload]) error {
			return a.run(ctx, in, j)
		}, k))
	}
	return errors.Join(faults...)
}

// run is every handler.
func (a *apis) run(ctx context.Context, in *incarnation, j *penstock.Job[Payload]) error {
	a.handlers.Add(1)
	defer a.handlers.Done()
	a.w.apart(in.name, "start", strconv.FormatInt(j.ID, 10)) // those with one slot begin in one instant
	late := false
	if alive, stood := in.pass(); !alive {
		return errDead
	} else if stood {
		late = true
	}
	began := time.Now()
	dice := a.w.dice("call", j.ID, int64(j.Starts))
	a.begins(in, j, late)
	if j.Suspect {
		if n := in.suspects.Add(1); n > 1 {
			a.w.log.fail(Leases, "%s runs suspect %d beside %d others", in.name, j.ID, n-1)
		}
		defer in.suspects.Add(-1)
	}
	key := fmt.Sprintf("%s/%d", j.Kind, j.ID)
	switch j.Kind {
	case pay, charge, sms:
		var opts []penstock.OnceOption
		if j.Kind == sms {
			opts = append(opts, penstock.AtMostOnce())
		}
		ran := false
		_, err := penstock.Once(ctx, key, func(ctx context.Context) (int, error) {
			ran = true
			a.enters(key, in.p.stoodSince(began) || in.rough())
			return 1, a.call(ctx, in, j, key, dice)
		}, opts...)
		if err == nil {
			a.exits(in, key, ran)
		}
		return err
	}
	return a.call(ctx, in, j, key, dice)
}

// begins notes a start at all the limits it draws on.
func (a *apis) begins(in *incarnation, j *penstock.Job[Payload], late bool) {
	w := a.w
	now := w.clock.Now()
	lag := now + in.p.shift() - j.Slot
	late = late || in.p.stoodSince(time.Now().Add(-time.Duration(lag)*time.Microsecond))
	misled := late || in.misled() || in.rough()
	w.log.note("%s starts job %d (%s, start %d)", in.name, j.ID, j.Kind, j.Starts)
	w.log.count("started " + j.Kind)
	if len(j.Draws) > 0 && !misled && (lag < -slack.Microseconds() || lag > (limit.Delta+slack).Microseconds()) {
		w.log.fail(Window, "%s started job %d %dµs after its slot", in.name, j.ID, lag)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun++
	a.starts[j.ID]++
	if misled {
		return
	}
	for _, d := range j.Draws {
		a.calls[d.Limit] = append(a.calls[d.Limit], arrival{w.log.now(), d.Cost})
	}
}

// enters and exits note the run of a guarded effect. A start that stood still
// just before, or waited for the store, may have lost its lease unawares: of such
// ones AtMostOnce alone promises something, and the judge looks at that.
func (a *apis) enters(key string, late bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.finished[key] && !late {
		a.w.log.fail(Effect, "effect %s is run again although its result was kept", key)
	}
}

func (a *apis) exits(in *incarnation, key string, ran bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-in.dead: // it only thinks so
		return
	default:
	}
	if !ran && a.effects[key] == 0 {
		a.w.log.fail(Effect, "effect %s has a kept result and never happened", key)
	}
	a.finished[key] = true
}

// happens has the effect of a call happen at the API.
func (a *apis) happens(j *penstock.Job[Payload], key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j.Kind == pay && a.effects[key] > 0 {
		a.w.log.count("duplicate removed")
		return
	}
	a.effects[key]++
}

// errAPI is a 5xx.
var errAPI = errors.New("503 the API is broken")

// call is one call of the API.
func (a *apis) call(ctx context.Context, in *incarnation, j *penstock.Job[Payload], key string, dice *rand.Rand) error {
	lag := between(dice, time.Millisecond, 60*time.Millisecond)
	if dice.IntN(10) == 0 {
		lag += between(dice, 0, 1500*time.Millisecond)
	}
	share := dice.Float64()
	a.mu.Lock()
	refusing, broken := a.refusing, a.broken
	a.mu.Unlock()
	if a.w.calm.Load() {
		share /= 3 // nearly always well
	}
	refused := func(wait time.Duration) error {
		if err := a.wait(ctx, in, key, lag); err != nil {
			return penstock.NotSent(err)
		}
		return penstock.RateLimited(wait)
	}
	switch {
	case refusing || share > 0.93:
		return refused(between(dice, 50*time.Millisecond, 1500*time.Millisecond))
	case share > 0.90:
		return refused(0)
	case broken || share > 0.84: // it never got there
		if err := a.wait(ctx, in, key, lag); err != nil {
			return err
		}
		return errAPI
	case share > 0.80: // it was done, and the answer was lost
		a.happens(j, key)
		_ = a.wait(ctx, in, key, lag)
		return errAPI
	case share > 0.77: // it never answers, done or not
		if dice.IntN(2) == 0 {
			a.happens(j, key)
		}
		return a.wait(ctx, in, key, time.Hour)
	case share > 0.75:
		return penstock.Permanent(errors.New("400 this will never do"))
	case share > 0.74 && j.Kind == plain:
		panic("the handler has a bug")
	case share > 0.73:
		return penstock.Snooze(between(dice, 0, 2*time.Second))
	case share > 0.72: // a handler that does not listen
		a.happens(j, key)
		pause(between(dice, 0, 5*time.Second))
		return nil
	}
	a.happens(j, key)
	return a.wait(ctx, in, key, lag)
}

// wait is the time an answer takes. A process that stands still gets it later,
// a dead one never.
func (a *apis) wait(ctx context.Context, in *incarnation, key string, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	var err error
	select {
	case <-t.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
		a.w.apart(in.name, "cut off", key) // many may be in one instant
	case <-in.dead:
		return errDead
	}
	if alive, _ := in.pass(); !alive {
		return errDead
	}
	return err
}
