package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
)

type fairArgs struct {
	Path     string
	Limited  bool
	Jobs     int       // to enqueue first; none: work
	From, To time.Time // when to work
}

type fairResult struct {
	Ran    int64 // handlers that began between From and To
	Claim  time.Duration
	Finish time.Duration // the longest waits
	Late   time.Duration // how much after From the process was there
}

// timedStore measures how long the store keeps its caller waiting.
type timedStore struct {
	store.Store
	claim, finish atomic.Int64
}

func (s *timedStore) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	defer longest(&s.claim, time.Now())
	return s.Store.Claim(ctx, r)
}

func (s *timedStore) Finish(ctx context.Context, f []store.Finish) ([]store.Finished, error) {
	defer longest(&s.finish, time.Now())
	return s.Store.Finish(ctx, f)
}

func longest(max *atomic.Int64, since time.Time) {
	took := int64(time.Since(since))
	for {
		old := max.Load()
		if took <= old || max.CompareAndSwap(old, took) {
			return
		}
	}
}

// fairStep is one of the processes that work one backlog for a while.
var fairStep = newStep("fair", func(ctx context.Context, a fairArgs) (r fairResult, err error) {
	st, err := openStore(ctx, a.Path)
	if err != nil {
		return r, err
	}
	defer st.Close()
	timed := &timedStore{Store: st}
	c, err := penstock.New(timed, penstock.Config{Logger: quiet})
	if err != nil {
		return r, err
	}
	if a.Jobs > 0 {
		return r, fairFill(ctx, c, a)
	}
	var ran atomic.Int64
	err = penstock.Handle(c, "noop", func(context.Context, *penstock.Job[[]byte]) error {
		if now := time.Now(); now.After(a.From) && now.Before(a.To) {
			ran.Add(1)
		}
		time.Sleep(time.Millisecond)
		return nil
	}, penstock.Kind{})
	if err != nil {
		return r, err
	}
	ctx, stop := context.WithDeadline(ctx, a.To)
	defer stop()
	r.Late = time.Since(a.From)
	err = c.Work(ctx, penstock.WorkOptions{Concurrency: 20})
	r.Ran, r.Claim, r.Finish = ran.Load(), time.Duration(timed.claim.Load()), time.Duration(timed.finish.Load())
	return r, err
})

func fairFill(ctx context.Context, c *penstock.Client, a fairArgs) error {
	var draws []penstock.Draw
	if a.Limited {
		if err := c.DeclareLimit(ctx, "api", "1000/s"); err != nil {
			return err
		}
		draws = penstock.Draws("api")
	}
	for left := a.Jobs; left > 0; left -= 1000 {
		jobs := make([]penstock.NewJob, min(left, 1000))
		for i := range jobs {
			jobs[i] = penstock.NewJob{Kind: "noop", Payload: payload, Limits: draws}
		}
		if _, err := c.EnqueueMany(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// fairScenario has eight processes work one backlog of jobs of a millisecond.
func fairScenario(ctx context.Context, l *lab) error {
	const processes = 8
	span := pick(l, 10*time.Second, 2*time.Second)
	for round := range l.rounds {
		for _, limited := range []bool{false, true} {
			name := "no limit"
			if limited {
				name = "1,000/s"
			}
			if err := fairOnce(ctx, l, round, name, limited, processes, span); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for _, name := range []string{"no limit", "1,000/s"} {
		l.atLeast(name+": smallest share ÷ fair share", 0.5)
		l.atMost(name+": longest claim", 100)
	}
	return nil
}

func fairOnce(ctx context.Context, l *lab, round int, name string, limited bool, processes int, span time.Duration) error {
	path, err := l.place(ctx)
	if err != nil {
		return err
	}
	defer l.forget(path)
	jobs := int(span.Seconds()) * pick(l, 60_000, 30_000) // more than they can do
	if limited {
		jobs = int(span.Seconds()) * 1_500
	}
	if _, _, err := fairStep.run(ctx, l, fairArgs{Path: path, Limited: limited, Jobs: jobs}); err != nil {
		return err
	}
	from := time.Now().Add(2 * time.Second) // all are there by then
	args := make([]fairArgs, processes)
	for i := range args {
		args[i] = fairArgs{Path: path, Limited: limited, From: from, To: from.Add(span)}
	}
	var least, sum int64 = -1, 0
	var claim, finish, late time.Duration = 0, 0, -time.Hour
	_, err = together(ctx, l, fairStep, args, func(r fairResult) {
		if least < 0 || r.Ran < least {
			least = r.Ran
		}
		sum += r.Ran
		claim, finish, late = max(claim, r.Claim), max(finish, r.Finish), max(late, r.Late)
	})
	if err != nil {
		return err
	}
	if late > 0 {
		return fmt.Errorf("a process was there only %v after the start", late)
	}
	share := float64(least) * float64(processes) / float64(sum)
	rate := float64(sum) / span.Seconds()
	l.add(name+": all together", "jobs/s", rate)
	l.add(name+": smallest share ÷ fair share", "×", share)
	l.add(name+": longest claim", "ms", milliseconds(claim))
	l.add(name+": longest finish", "ms", milliseconds(finish))
	l.say("round %d: %s: %.0f jobs/s, smallest share %.2f of fair, longest claim %.0f ms, finish %.0f ms", round+1, name,
		rate, share, milliseconds(claim), milliseconds(finish))
	return nil
}
