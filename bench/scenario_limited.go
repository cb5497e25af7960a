package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/limit/header"
)

type limitedArgs struct {
	Path, URL string
	PerSecond int
	Jobs      int // to enqueue first; none: work
}

// limitedStep is one of the processes: it makes calls until none is left, and
// returns how many handlers it started.
var limitedStep = newStep("limited", func(ctx context.Context, a limitedArgs) (int64, error) {
	const none = 0
	var starts atomic.Int64
	c, err := penstock.Open(ctx, a.Path, penstock.Config{Logger: quiet, Limits: map[string]string{"api": fmt.Sprintf("%d/s", a.PerSecond)}})
	if err != nil {
		return none, err
	}
	if a.Jobs > 0 {
		jobs := make([]penstock.NewJob, a.Jobs)
		for i := range jobs {
			jobs[i] = penstock.NewJob{Kind: "call", Payload: payload, Limits: penstock.Draws("api")}
		}
		if _, err := c.EnqueueMany(ctx, jobs); err != nil {
			return none, err
		}
		return none, c.Close()
	}
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}
	err = penstock.Handle(c, "call", func(ctx context.Context, job *penstock.Job[[]byte]) error {
		starts.Add(1)
		return call(ctx, hc, fmt.Sprintf("%s/call/%d", a.URL, job.ID))
	}, penstock.Kind{})
	if err != nil {
		return none, err
	}
	if err := c.Work(ctx, penstock.WorkOptions{Concurrency: 20, Drain: true}); err != nil {
		return none, err
	}
	return starts.Load(), c.Close()
})

// call makes one call, and says what a refusal asks for.
func call(ctx context.Context, hc *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := hc.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if said := header.Read(answer.StatusCode, answer.Header, body, time.Now()); said.Limited {
		return penstock.RateLimited(said.RetryAfter)
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("the API answered %s", answer.Status)
	}
	return nil
}

// limitedScenario makes calls at an API that counts strictly, from three
// processes under one limit. The API delays calls at random on their way in.
func limitedScenario(ctx context.Context, l *lab) error {
	cases := []struct {
		name      string
		algorithm apisim.Algorithm
		perSecond int
		jobs, few int
		once      bool // in the first round only: it takes a minute
		river     bool // on River, too, once
		// Goals, 0 for none: %, % at most, calls per job at most.
		share, refused, per float64
	}{
		{name: "sliding 50/s", algorithm: apisim.Sliding, perSecond: 50, jobs: 1500, few: 150, river: true, share: 93, refused: 0.5, per: 1.01},
		{name: "sliding 5/s", algorithm: apisim.Sliding, perSecond: 5, jobs: 300, few: 15, once: true, refused: 1.5},
		{name: "fixed 50/s", algorithm: apisim.Fixed, perSecond: 50, jobs: 1500, few: 150, share: 94, refused: 0.2},
		{name: "bucket 50/s", algorithm: apisim.Bucket, perSecond: 50, jobs: 1500, few: 150, share: 94, refused: 0.2},
		{name: "gcra 50/s", algorithm: apisim.GCRA, perSecond: 50, jobs: 1500, few: 150, share: 94, refused: 0.2},
	}
	for round := range l.rounds {
		for _, c := range cases {
			if c.once && round > 0 {
				continue
			}
			jobs := pick(l, c.jobs, c.few)
			if err := limitedCase(ctx, l, round, limitedStep, c.name, c.algorithm, c.perSecond, jobs); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if c.river && round == 0 {
				if err := limitedCase(ctx, l, round, riverLimitedStep, "river, snooze: "+c.name, c.algorithm, c.perSecond, jobs); err != nil {
					return fmt.Errorf("river: %w", err)
				}
			}
		}
	}
	for _, c := range cases {
		if c.share > 0 {
			l.atLeast(c.name+": share of the limit", c.share)
		}
		l.atMost(c.name+": refused", c.refused)
		if c.per > 0 {
			l.atMost(c.name+": calls per job", c.per)
		}
	}
	return nil
}

func limitedCase(ctx context.Context, l *lab, round int, worker step[limitedArgs, int64], name string, algorithm apisim.Algorithm, perSecond, jobs int) error {
	s, starts, cpu, server, err := limitedOnce(ctx, l, worker, apisim.Config{
		Algorithm: algorithm, Limit: perSecond, RetryAfter: apisim.RetryAfterSeconds,
		Latency: 20 * time.Millisecond, JitterMean: 10 * time.Millisecond, Seed: uint64(round + 1),
	}, jobs)
	if err != nil {
		return err
	}
	share := 100 * s.Rate / float64(perSecond)
	if worker == riverLimitedStep { // a refusal holds up its own job only
		share = 100 * s.Gross / float64(perSecond)
	}
	l.add(name+": share of the limit", "%", share)
	l.add(name+": refused", "%", 100*float64(s.Refused)/float64(s.Calls))
	l.add(name+": calls per job", "", float64(s.Calls)/float64(jobs))
	l.add(name+": handler starts per job", "", float64(starts)/float64(jobs))
	l.add(name+": seconds", "s", s.Seconds)
	l.add(name+": of these paused", "s", s.Paused)
	l.add(name+": CPU of the three", "s", cpu.Seconds())
	if server > 0 {
		l.add(name+": CPU of the server", "s", server.Seconds())
	}
	l.say("round %d: %s: %.1f %% of the limit, %d of %d refused, %.1f s of which %.1f paused, fullest window %d", round+1, name,
		share, s.Refused, s.Calls, s.Seconds, s.Paused, s.Fullest)
	return nil
}

func limitedOnce(ctx context.Context, l *lab, worker step[limitedArgs, int64], c apisim.Config, jobs int) (s showing, starts int64, cpu, server time.Duration, err error) {
	path, err := l.place(ctx)
	if err != nil {
		return s, 0, 0, 0, err
	}
	defer l.forget(path)
	api, err := serve(ctx, c)
	if err != nil {
		return s, 0, 0, 0, err
	}
	defer api.close()
	args := limitedArgs{Path: path, URL: api.url, PerSecond: c.Limit, Jobs: jobs}
	if _, _, err := worker.run(ctx, l, args); err != nil {
		return s, 0, 0, 0, err
	}
	args.Jobs = 0
	var uses []usage
	server, err = l.ofServer(func() (err error) {
		uses, err = together(ctx, l, worker, []limitedArgs{args, args, args}, func(n int64) { starts += n })
		return err
	})
	if err != nil {
		return s, 0, 0, 0, err
	}
	for _, u := range uses {
		cpu += u.CPU
	}
	s, err = api.show()
	return s, starts, cpu, server, err
}

// together runs a step in one process per args, at the same time; each gets the
// results, if it is not nil.
func together[A, R any](ctx context.Context, l *lab, s step[A, R], args []A, each func(R)) ([]usage, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // if one fails, the others are killed
	var all []*pending[R]
	var failed error
	for _, a := range args {
		p, err := s.start(ctx, l, a)
		if err != nil {
			failed = err
			stop()
			break
		}
		all = append(all, p)
	}
	var uses []usage
	for _, p := range all {
		r, u, err := p.wait()
		if err != nil {
			if failed == nil {
				failed = err
			}
			stop()
			continue
		}
		uses = append(uses, u)
		if each != nil {
			each(r)
		}
	}
	return uses, failed
}
