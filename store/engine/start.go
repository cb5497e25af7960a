package engine

import (
	"bytes"

	"github.com/penstockhq/penstock/store"
)

// A process that enqueues a job and has an idle worker for it would claim it in the next
// moment. So the insert writes the job as claimed, and one commit is left out. It is a
// claim all the same, and is alone as a claim is: a pause or the verdict that the worker is
// dead comes before it or after it, never in between. It moves no lane and no gate,
// since the job waits for nothing; a lane that is served by claims meanwhile keeps its
// turn, because a job that is due there stands in the way.

// Startable reports whether the only job of a call may be written as started, as far as
// the job itself tells: whether it is due, and what else the store knows, is looked at then.
func Startable(jobs []store.NewJob) bool {
	if len(jobs) != 1 {
		return false
	}
	n := &jobs[0]
	return n.Start != nil && n.Start.Worker != "" && n.Start.Token != 0 && len(n.Draws) == 0 && Plain(n)
}

// start makes a job that is about to be written a started one, and reports whether it
// could.
func (in *inserter) start(n *store.NewJob, j *Job) (bool, error) {
	if j.At > in.now || j.ExpiresAt != 0 && j.ExpiresAt <= in.now {
		return false, nil
	}
	if w, ok, err := in.tx.Worker(n.Start.Worker); err != nil || !ok || w.SeenAt == declaredDead {
		return false, err
	}
	if _, paused, err := in.tx.Queue(n.Queue); err != nil || paused {
		return false, err
	}
	if at, waits, err := in.tx.FirstDue(j.Lane); err != nil || waits && at <= in.now {
		return false, err
	}
	lease(j, n.Start, in.now)
	in.startedAs = n
	return true, nil
}

// lease gives a job what a claim at the instant would give it.
func lease(j *Job, by *store.Starter, now int64) {
	j.State, j.Worker, j.Token, j.Slot, j.LeaseAt, j.Starts = store.Running, by.Worker, by.Token, now, now, 1
}

// started returns what the caller is told of a job that was started, nil for another one.
func (in *inserter) started(j *Job) *store.Claimed {
	if in.startedAs == nil {
		return nil
	}
	return Started(in.startedAs, j.ID, in.now)
}

// Started is what a claim would have returned of a new job that was started at once, at
// the instant.
func Started(n *store.NewJob, id, now int64) *store.Claimed {
	j := Job{ID: id, At: now, EnqueuedAt: now, ExpiresAt: n.ExpiresAt}
	lease(&j, n.Start, now)
	c := &store.Claimed{Job: view(&j, Lane{Group: n.Group, Band: Band{Queue: n.Queue, Kind: n.Kind, Priority: n.Priority}})}
	c.Payload, c.Options = bytes.Clone(n.Payload), n.Options // the caller goes on with its own
	return c
}
