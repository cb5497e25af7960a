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

type keysArgs struct {
	Path   string
	Keys   int
	Claims int // of each size
	// Settled claims again when the store has taken note of all that was inserted:
	// on a server the first claims do that on the way.
	Settled bool
}

type keysResult struct {
	Insert       float64 // jobs per second
	One, Hundred percentiles
	Later        [2]percentiles // the same, settled
	Taken        float64        // jobs by a claim of 100, on average
	Finish       float64        // ms, p50 of ending what such a claim took
}

// keysStep claims from very many keyed limits, through the store.
var keysStep = newStep("keys", func(ctx context.Context, a keysArgs) (r keysResult, err error) {
	s, err := openStore(ctx, a.Path)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	spec, err := limit.Parse("1/m")
	if err != nil {
		return r, err
	}
	if err := s.DeclareLimit(ctx, "k/*", spec); err != nil {
		return r, err
	}
	before := time.Now()
	for first := 0; first < a.Keys; first += 1000 {
		jobs := make([]store.NewJob, min(1000, a.Keys-first))
		for i := range jobs {
			jobs[i] = store.NewJob{Payload: payload, LaneKey: store.LaneKey{
				Queue: "default", Kind: "noop", Priority: 5,
				Draws: []dispatch.Draw{{Limit: fmt.Sprintf("k/%06d", first+i), Cost: 1}},
			}}
		}
		if _, err := s.Insert(ctx, jobs); err != nil {
			return r, err
		}
	}
	r.Insert = float64(a.Keys) / time.Since(before).Seconds()
	if err := s.Register(ctx, store.Worker{ID: "w", Lease: time.Minute}); err != nil {
		return r, err
	}
	token := int64(0)
	claims := func(places int) (percentiles, error) {
		var took, finishes []time.Duration
		taken := 0
		for range a.Claims {
			token++
			before := time.Now()
			got, err := s.Claim(ctx, store.ClaimRequest{Worker: "w", Token: token, Kinds: []string{"noop"}, Places: places})
			took = append(took, time.Since(before))
			if err != nil {
				return percentiles{}, err
			}
			if len(got.Jobs) == 0 {
				return percentiles{}, fmt.Errorf("a claim of %d took nothing", places)
			}
			taken += len(got.Jobs)
			ends := make([]store.Finish, len(got.Jobs))
			for i, j := range got.Jobs {
				ends[i] = store.Finish{ID: j.ID, Worker: "w", Token: j.Token, Outcome: store.OutcomeDone}
			}
			before = time.Now()
			if _, err := s.Finish(ctx, ends); err != nil {
				return percentiles{}, err
			}
			finishes = append(finishes, time.Since(before))
		}
		r.Finish, r.Taken = percentile(finishes, 50), float64(taken)/float64(a.Claims)
		return percentilesOf(took), nil
	}
	if r.One, err = claims(1); err != nil {
		return r, err
	}
	if r.Hundred, err = claims(100); err != nil || !a.Settled {
		return r, err
	}
	if _, err := s.Lines(ctx); err != nil { // who looks at lanes has them brought up to date
		return r, err
	}
	if r.Later[0], err = claims(1); err == nil {
		r.Later[1], err = claims(100)
	}
	return r, err
})

// keysScenario measures claims where each of very many jobs has a limit of its own.
func keysScenario(ctx context.Context, l *lab) error {
	for round := range l.rounds {
		path, err := l.place(ctx)
		if err != nil {
			return err
		}
		r, _, err := keysStep.run(ctx, l, keysArgs{path, pick(l, 100_000, 20_000), pick(l, 500, 100), l.on == onPostgres})
		l.forget(path)
		if err != nil {
			return err
		}
		l.add("insert", "jobs/s", r.Insert)
		l.add("claim of 1: p50", "ms", r.One.P50)
		l.add("claim of 1: p99", "ms", r.One.P99)
		l.add("claim of 100: p50", "ms", r.Hundred.P50)
		l.add("claim of 100: p99", "ms", r.Hundred.P99)
		l.add("claim of 100: jobs it takes", "jobs", r.Taken)
		l.add("finish of these: p50", "ms", r.Finish)
		if l.on == onPostgres {
			for i, name := range []string{"claim of 1, settled", "claim of 100, settled"} {
				l.add(name+": p50", "ms", r.Later[i].P50)
				l.add(name+": p99", "ms", r.Later[i].P99)
				l.atMost(name+": p99", 10)
			}
		}
		l.say("round %d: insert %.0f jobs/s, claim of 1 p50 %.2f p99 %.2f, of 100 p50 %.2f p99 %.2f ms; later %.2f, %.2f", round+1, r.Insert,
			r.One.P50, r.One.P99, r.Hundred.P50, r.Hundred.P99, r.Later[0].P99, r.Later[1].P99)
	}
	l.atMost("claim of 1: p99", 10)
	l.atMost("claim of 100: p99", 10)
	return nil
}
