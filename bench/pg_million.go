package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

type millionArgs struct {
	Empty, Full string // two databases
	Backlog     int
	Groups      int // of the backlog
	Claims      int
}

type millionResult struct {
	Insert        float64 // jobs per second, of the backlog
	Without, With percentiles
}

// millionStep claims other jobs than those of a backlog which waits for a paused
// limit, of the same queue, kind and priority; and in turn as many from a database
// without a backlog.
var millionStep = newStep("million", func(ctx context.Context, a millionArgs) (r millionResult, err error) {
	var stores [2]store.Store
	for i, place := range []string{a.Empty, a.Full} {
		s, err := openStore(ctx, place)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		spec, err := limit.Parse("paused")
		if err != nil {
			return r, err
		}
		if err := errors.Join(s.DeclareLimit(ctx, "slow", spec), s.Register(ctx, store.Worker{ID: "w", Lease: 10 * time.Minute})); err != nil {
			return r, err
		}
		stores[i] = s
	}
	before := time.Now()
	if err := putBacklog(ctx, stores[1], "slow", a.Backlog, a.Groups); err != nil {
		return r, err
	}
	r.Insert = float64(a.Backlog) / time.Since(before).Seconds()
	took := [2][]time.Duration{}
	c := claimer{}
	if err := c.catchUp(ctx, stores[1]); err != nil {
		return r, err
	}
	for _, place := range []string{a.Empty, a.Full} {
		if err := settle(ctx, place); err != nil {
			return r, err
		}
	}
	for i := range a.Claims + 20 {
		for n, s := range stores {
			d, err := c.one(ctx, s, 10)
			if err != nil {
				return r, err
			}
			if i >= 20 { // the first ones find things cold
				took[n] = append(took[n], d)
			}
		}
	}
	r.Without, r.With = percentilesOf(took[0]), percentilesOf(took[1])
	return r, nil
})

// putBacklog inserts jobs that draw on a limit, in so many groups.
func putBacklog(ctx context.Context, s store.Store, limit string, n, groups int) error {
	for first := 0; first < n; first += 1000 {
		jobs := make([]store.NewJob, min(1000, n-first))
		for i := range jobs {
			jobs[i] = store.NewJob{Payload: payload, LaneKey: store.LaneKey{
				Queue: "default", Kind: "noop", Priority: 5, Group: fmt.Sprintf("g%05d", (first+i)%groups),
				Draws: []dispatch.Draw{{Limit: limit, Cost: 1}},
			}}
		}
		if _, err := s.Insert(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// claimer is worker w. It makes the tokens of its claims.
type claimer struct{ token int64 }

func (c *claimer) claim(ctx context.Context, s store.Store, places int) (store.ClaimResult, error) {
	c.token++
	return s.Claim(ctx, store.ClaimRequest{Worker: "w", Token: c.token, Kinds: []string{"noop"}, Places: places})
}

// catchUp claims until the store has taken note of everything that was inserted.
// Nothing of it may be startable.
func (c *claimer) catchUp(ctx context.Context, s store.Store) error {
	for {
		got, err := c.claim(ctx, s, 10)
		if err != nil {
			return err
		}
		if len(got.Jobs) > 0 {
			return fmt.Errorf("%d jobs of the backlog were claimed", len(got.Jobs))
		}
		if got.NextAt > got.Now+time.Second.Microseconds() {
			return nil
		}
	}
}

// one inserts n jobs without limits, measures the claim that takes them, and ends them.
func (c *claimer) one(ctx context.Context, s store.Store, n int) (time.Duration, error) {
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = store.NewJob{Payload: payload, LaneKey: store.LaneKey{Queue: "default", Kind: "noop", Priority: 5}}
	}
	if _, err := s.Insert(ctx, jobs); err != nil {
		return 0, err
	}
	before := time.Now()
	got, err := c.claim(ctx, s, n)
	took := time.Since(before)
	if err != nil {
		return 0, err
	}
	if len(got.Jobs) != n {
		return 0, fmt.Errorf("a claim took %d jobs, want %d", len(got.Jobs), n)
	}
	_, err = s.Finish(ctx, endsOf(got.Jobs))
	return took, err
}

func endsOf(jobs []store.Claimed) []store.Finish {
	ends := make([]store.Finish, len(jobs))
	for i, j := range jobs {
		ends[i] = store.Finish{ID: j.ID, Worker: "w", Token: j.Token, Outcome: store.OutcomeDone}
	}
	return ends
}

const (
	claimWithout = "claim of 10, no backlog"
	claimWith    = "claim of 10, backlog"
)

// pgMillionScenario measures claims beside a backlog of a million jobs.
func pgMillionScenario(ctx context.Context, l *lab) error {
	for round := range min(l.rounds, 2) {
		if err := millionOnce(ctx, l, round); err != nil {
			return err
		}
	}
	for _, p := range []string{"p50", "p99"} {
		l.ratio(p+": with ÷ without backlog", claimWith+": "+p, claimWithout+": "+p)
	}
	l.atMost("p99: with ÷ without backlog", 1.2)
	return nil
}

func millionOnce(ctx context.Context, l *lab, round int) error {
	a := millionArgs{Backlog: pick(l, 1_000_000, 20_000), Groups: 100, Claims: pick(l, 1000, 100)}
	for _, place := range []*string{&a.Empty, &a.Full} {
		var err error
		if *place, err = l.place(ctx); err != nil {
			return err
		}
		defer l.forget(*place)
	}
	r, _, err := millionStep.run(ctx, l, a)
	if err != nil {
		return err
	}
	l.add("insert of the backlog", "jobs/s", r.Insert)
	for _, f := range []struct {
		name string
		p    percentiles
	}{{claimWithout, r.Without}, {claimWith, r.With}} {
		l.add(f.name+": p50", "ms", f.p.P50)
		l.add(f.name+": p99", "ms", f.p.P99)
	}
	l.say("round %d: backlog of %d at %.0f jobs/s; claims p50 %.2f p99 %.2f ms without, p50 %.2f p99 %.2f with", round+1, a.Backlog, r.Insert,
		r.Without.P50, r.Without.P99, r.With.P50, r.With.P99)
	return nil
}
