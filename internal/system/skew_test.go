package system

import (
	"context"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// skewed is a store as a process sees it whose clock is ahead of the store's
// (below 0: behind). In a test of virtual time all processes share one clock, so
// the instants that pass between process and store are moved instead.
type skewed struct {
	store.Store
	ahead time.Duration
}

// seen moves an instant of the store into the process's view; 0 and "never" stay.
func (s skewed) seen(at *int64) { s.move(at, -s.ahead) }

// meant moves an instant that the process names back.
func (s skewed) meant(at *int64) { s.move(at, s.ahead) }

func (s skewed) move(at *int64, by time.Duration) {
	if *at != 0 && *at < limit.Never/2 {
		*at += by.Microseconds()
	}
}

func (s skewed) seenJob(j *store.Job) {
	for _, at := range []*int64{&j.At, &j.EnqueuedAt, &j.ExpiresAt, &j.RefusedAt, &j.ThrottledAt, &j.Slot, &j.LeasedAt, &j.FinishedAt} {
		s.seen(at)
	}
}

func (s skewed) Now(ctx context.Context) (int64, error) {
	now, err := s.Store.Now(ctx)
	s.seen(&now)
	return now, err
}

func (s skewed) Insert(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error) {
	jobs = append([]store.NewJob(nil), jobs...)
	for i := range jobs {
		s.meant(&jobs[i].At)
		s.meant(&jobs[i].ExpiresAt)
	}
	got, err := s.Store.Insert(ctx, jobs)
	for i := range got {
		if c := got[i].Started; c != nil {
			s.seenJob(&c.Job)
		}
	}
	return got, err
}

func (s skewed) Heartbeat(ctx context.Context, worker string) ([]store.Lease, error) {
	leases, err := s.Store.Heartbeat(ctx, worker)
	for i := range leases {
		s.seen(&leases[i].Since)
	}
	return leases, err
}

func (s skewed) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	res, err := s.Store.Claim(ctx, r)
	s.seen(&res.NextAt)
	s.seen(&res.Now)
	for i := range res.Jobs {
		j := &res.Jobs[i]
		s.seenJob(&j.Job)
		j.Charges = append(j.Charges[:0:0], j.Charges...)
		for k := range j.Charges {
			s.seen(&j.Charges[k].Slot)
		}
	}
	return res, err
}

func (s skewed) Finish(ctx context.Context, fs []store.Finish) ([]store.Finished, error) {
	fs = append([]store.Finish(nil), fs...)
	for i := range fs {
		s.meant(&fs[i].At)
		s.meant(&fs[i].Started)
	}
	done, err := s.Store.Finish(ctx, fs)
	for i := range done {
		s.seen(&done[i].At)
	}
	return done, err
}

func (s skewed) Rescue(ctx context.Context, lostMax int) ([]store.Job, error) {
	jobs, err := s.Store.Rescue(ctx, lostMax)
	for i := range jobs {
		s.seenJob(&jobs[i])
	}
	return jobs, err
}
