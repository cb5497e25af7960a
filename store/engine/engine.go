package engine

import (
	"context"
	"sync"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// Store keeps the store contract over a DB. It is safe for concurrent use.
type Store struct {
	db DB

	sweepMu   sync.Mutex
	sweepLane int64  // the sweep goes on behind this lane
	sweepName string // and behind this limit
}

var _ store.Store = (*Store)(nil)

// New returns a store over db.
func New(db DB) *Store { return &Store{db: db} }

// Now is the store's clock.
func (s *Store) Now(ctx context.Context) (now int64, err error) {
	err = s.db.Peek(ctx, func(tx Tx) error {
		now, err = tx.Now()
		return err
	})
	return now, err
}

// Watch tells when it is worth looking for work again.
func (s *Store) Watch(ctx context.Context) <-chan struct{} { return s.db.Watch(ctx) }

// Ping reads and writes nothing, in a write transaction.
func (s *Store) Ping(ctx context.Context) error {
	return s.db.Append(ctx, func(tx Tx) error {
		_, err := tx.Now()
		return err
	})
}

// Close closes the DB.
func (s *Store) Close() error { return s.db.Close() }

// DB returns what the store stands on.
func (s *Store) DB() DB { return s.db }

// view puts a job and its lane together for a caller.
func view(j *Job, l Lane) store.Job {
	return store.Job{
		ID: j.ID, LaneKey: laneKey(l), State: j.State, At: j.At, EnqueuedAt: j.EnqueuedAt, ExpiresAt: j.ExpiresAt,
		Unique: j.Unique, Ref: j.Ref,
		Attempts: j.Attempts, Starts: j.Starts, Throttles: j.Throttles, Losses: j.Losses,
		RefusedRun: j.RefusedRun, RefusedAt: j.RefusedAt, ThrottledAt: j.ThrottledAt, ThrottleSum: j.ThrottleSum,
		Cancel: j.Cancel, Worker: j.Worker, Token: j.Token, Slot: j.Slot, LeasedAt: j.LeaseAt,
		FinishedAt: j.FinishedAt, Reason: j.Reason, Error: j.Error, Result: j.Result,
	}
}

// setBody adds what was written once with the job.
func setBody(j *store.Job, b Body) (err error) {
	j.Payload = b.Payload
	j.Options, err = store.DecodeOptions(b.Options)
	return err
}

// views does it for many jobs, reading lanes and, if asked, bodies.
func views(tx Tx, jobs []*Job, bodies bool) ([]store.Job, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(jobs))
	lanes := make([]int64, len(jobs))
	for i, j := range jobs {
		ids[i], lanes[i] = j.ID, j.Lane
	}
	rows, err := lanesOf(tx, lanes)
	if err != nil {
		return nil, err
	}
	bs := make([]Body, len(jobs))
	if bodies {
		if bs, err = tx.Bodies(ids); err != nil {
			return nil, err
		}
	}
	out := make([]store.Job, len(jobs))
	for i, j := range jobs {
		out[i] = view(j, rows[j.Lane])
		if err := setBody(&out[i], bs[i]); err != nil {
			return nil, err
		}
		if !bodies {
			out[i].Result = nil
		}
	}
	return out, nil
}

func laneKey(l Lane) store.LaneKey {
	return store.LaneKey{Queue: l.Band.Queue, Kind: l.Band.Kind, Priority: l.Band.Priority, Run: l.Band.Run,
		Load: l.Band.Load, Suspect: l.Band.Suspect, Group: l.Group, Draws: append([]dispatch.Draw(nil), l.Draws...)}
}

// lanesOf reads each lane once.
func lanesOf(tx Tx, ids []int64) (map[int64]Lane, error) {
	rows := make(map[int64]Lane)
	var want []int64
	for _, id := range ids {
		if _, ok := rows[id]; !ok {
			rows[id] = Lane{}
			want = append(want, id)
		}
	}
	lanes, err := tx.Lanes(want)
	if err != nil {
		return nil, err
	}
	for _, l := range lanes {
		rows[l.ID] = l
	}
	return rows, nil
}
