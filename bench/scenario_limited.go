package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
	"github.com/penstockhq/penstock/limit/header"
)

type limitedArgs struct {
	Path, URL, Limit string
	Jobs             int // to enqueue first; none: work
}

// limitedStep is one of the processes: it makes calls until none is left.
var limitedStep = newStep("limited", func(ctx context.Context, a limitedArgs) (struct{}, error) {
	none := struct{}{}
	c, err := penstock.Open(ctx, a.Path, penstock.Config{Logger: quiet, Limits: map[string]string{"api": a.Limit}})
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
		return call(ctx, hc, fmt.Sprintf("%s/call/%d", a.URL, job.ID))
	}, penstock.Kind{})
	if err != nil {
		return none, err
	}
	if err := c.Work(ctx, penstock.WorkOptions{Concurrency: 20, Drain: true}); err != nil {
		return none, err
	}
	return none, c.Close()
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
		name         string
		algorithm    apisim.Algorithm
		perSecond    int
		jobs, few    int
		once         bool // in the first round only: it takes a minute
		share        float64
		refused, per float64
	}{
		{"sliding 50/s", apisim.Sliding, 50, 1500, 150, false, 93, 0.5, 1.01},
		{"sliding 5/s", apisim.Sliding, 5, 300, 15, true, 0, 1.5, 0},
		{"fixed 50/s", apisim.Fixed, 50, 1500, 150, false, 94, 0.2, 0},
		{"bucket 50/s", apisim.Bucket, 50, 1500, 150, false, 94, 0.2, 0},
		{"gcra 50/s", apisim.GCRA, 50, 1500, 150, false, 94, 0.2, 0},
	}
	for round := range l.rounds {
		for _, c := range cases {
			if c.once && round > 0 {
				continue
			}
			api := apisim.Config{
				Algorithm: c.algorithm, Limit: c.perSecond, RetryAfter: apisim.RetryAfterSeconds,
				Latency: 20 * time.Millisecond, JitterMean: 10 * time.Millisecond, Seed: uint64(round + 1),
			}
			jobs := pick(l, c.jobs, c.few)
			s, cpu, err := limitedOnce(ctx, l, api, jobs)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			l.add(c.name+": share of the limit", "%", 100*s.Rate/float64(c.perSecond))
			l.add(c.name+": refused", "%", 100*float64(s.Refused)/float64(s.Calls))
			l.add(c.name+": calls per job", "", float64(s.Calls)/float64(jobs))
			l.add(c.name+": seconds", "s", s.Seconds)
			l.add(c.name+": of these paused", "s", s.Paused)
			l.add(c.name+": CPU of the three", "s", cpu.Seconds())
			l.say("round %d: %s: %.1f %% of the limit, %d of %d refused, %.1f s, fullest window %d", round+1, c.name,
				100*s.Rate/float64(c.perSecond), s.Refused, s.Calls, s.Seconds, s.Fullest)
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

func limitedOnce(ctx context.Context, l *lab, c apisim.Config, jobs int) (s showing, cpu time.Duration, err error) {
	path, err := l.path("jobs.db")
	if err != nil {
		return s, 0, err
	}
	defer l.forget(path)
	api, err := serve(ctx, c)
	if err != nil {
		return s, 0, err
	}
	defer api.close()
	args := limitedArgs{Path: path, URL: api.url, Limit: fmt.Sprintf("%d/s", c.Limit), Jobs: jobs}
	if _, _, err := limitedStep.run(ctx, l, args); err != nil {
		return s, 0, err
	}
	args.Jobs = 0
	uses, err := together(ctx, l, limitedStep, []limitedArgs{args, args, args}, nil)
	if err != nil {
		return s, 0, err
	}
	for _, u := range uses {
		cpu += u.CPU
	}
	s, err = api.show()
	return s, cpu, err
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
