package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/penstockhq/penstock/store"
)

// rescueChunk is how many jobs are taken back in one commit.
const rescueChunk = 256

// Register makes a worker known.
func (s *Store) Register(ctx context.Context, w store.Worker) error {
	if w.ID == "" || w.Lease <= 0 {
		return fmt.Errorf("worker %+v: expected an id and a lease", w)
	}
	return s.db.Append(ctx, func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		return tx.SaveWorker(WorkerRow{Worker: w, SeenAt: now})
	})
}

// Heartbeat says that the worker lives.
func (s *Store) Heartbeat(ctx context.Context, worker string) (held []store.Lease, err error) {
	err = s.db.Append(ctx, func(tx Tx) error {
		held = nil
		w, ok, err := tx.Worker(worker)
		if err != nil {
			return err
		}
		if !ok || w.SeenAt == declaredDead {
			return store.ErrUnknownWorker
		}
		if w.SeenAt, err = tx.Now(); err != nil {
			return err
		}
		if err := tx.SaveWorker(w); err != nil {
			return err
		}
		for after := int64(0); ; {
			jobs, err := tx.HeldBy(worker, after, rescueChunk)
			if err != nil {
				return err
			}
			for _, j := range jobs {
				after = j.ID
				held = append(held, store.Lease{ID: j.ID, Token: j.Token, Since: j.LeaseAt})
			}
			if len(jobs) < rescueChunk {
				return nil
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// Deregister forgets a worker, rescuing what it still holds.
func (s *Store) Deregister(ctx context.Context, worker string) error {
	_, err := s.takeBack(ctx, worker, 0, func(WorkerRow, int64) bool { return true })
	return err
}

// margin is how much longer than its lease a worker may be silent before it is
// declared dead: by then it has cancelled its handlers itself.
func margin(lease time.Duration) int64 { return (lease / 3).Microseconds() }

// Rescue takes back the jobs of dead workers.
func (s *Store) Rescue(ctx context.Context, lostMax int) ([]store.Job, error) {
	var suspects []WorkerRow
	err := s.db.Peek(ctx, func(tx Tx) error {
		rows, err := tx.Workers()
		if err != nil {
			return err
		}
		now, err := tx.Now()
		if err != nil {
			return err
		}
		suspects = suspects[:0]
		for _, w := range rows {
			if s.dead(w, now) {
				suspects = append(suspects, w)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []store.Job
	for _, w := range suspects {
		jobs, err := s.takeBack(ctx, w.ID, lostMax, s.dead)
		all = append(all, jobs...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// SeesDeaths asks the DB.
func (s *Store) SeesDeaths() bool { return s.db.SeesDeaths() }

func (s *Store) dead(w WorkerRow, now int64) bool {
	if s.db.Alive(w.Worker) == Gone {
		return true
	}
	return now-w.SeenAt > w.Lease.Microseconds()+margin(w.Lease)
}

// declaredDead is when a worker was seen from which jobs are being taken back. If it
// lives after all, it must not claim what was taken from it while it still runs it: it
// has to take on a new identity first.
const declaredDead = 0

// takeBack takes back what a worker holds, chunk by chunk, and then forgets the
// worker. Each commit judges anew that the worker is dead.
func (s *Store) takeBack(ctx context.Context, worker string, lostMax int, dead func(WorkerRow, int64) bool) ([]store.Job, error) {
	var all []store.Job
	for {
		var chunk []store.Job
		more := false
		err := s.db.Update(ctx, func(tx Tx) error {
			chunk, more = nil, false
			now, err := tx.Now()
			if err != nil {
				return err
			}
			w, ok, err := tx.Worker(worker)
			if err != nil || !ok || !dead(w, now) {
				return err
			}
			held, err := tx.HeldBy(worker, 0, rescueChunk)
			if err != nil {
				return err
			}
			if err := tx.Ahead(lostAhead(held)); err != nil {
				return err
			}
			e := ender{tx: tx, now: now, limits: newLimits(tx)}
			for _, j := range held {
				if err := e.lose(j, lostMax); err != nil {
					return err
				}
			}
			if err := e.write(); err != nil {
				return err
			}
			// A job may have ended while this transaction waited for its row, so that
			// fewer came than there are.
			if more = len(held) > 0; !more {
				err = tx.DropWorker(worker)
			} else if w.SeenAt != declaredDead {
				w.SeenAt = declaredDead
				err = tx.SaveWorker(w)
			}
			if err != nil {
				return err
			}
			kept := append(append([]*Job(nil), e.kept...), e.ended...)
			chunk, err = views(tx, kept, false)
			return err
		})
		if err != nil {
			return all, err
		}
		all = append(all, chunk...)
		if !more {
			return all, nil
		}
	}
}

// lostAhead lists what taking the jobs back reads.
func lostAhead(held []*Job) (a Ahead) {
	for _, j := range held {
		a.Lanes = append(a.Lanes, j.Lane)
		for _, ch := range j.Charges {
			a.Limits = append(a.Limits, ch.Limit)
		}
	}
	return a
}

// lose takes a job back whose worker is gone. Its calls in flight are given
// back, its rate permits are not: nobody knows whether the call was made. The
// job becomes a suspect; one that was lost lostMax times as a suspect is dead.
func (e *ender) lose(j *Job, lostMax int) error {
	lanes, err := e.tx.Lanes([]int64{j.Lane})
	if err != nil {
		return err
	}
	l := lanes[0]
	if err := e.release(j.Charges, false); err != nil {
		return err
	}
	j.Charges = nil
	if strings.HasPrefix(l.Band.Kind, store.PrivateKind) {
		e.dropped = append(e.dropped, j.ID)
		return nil
	}
	const text = "its process vanished while it ran"
	if l.Band.Suspect {
		j.Losses++
	}
	if err := e.event(j, store.Event{Started: j.LeaseAt, Outcome: store.OutcomeLost, Error: text, NextAt: j.At}); err != nil {
		return err
	}
	switch {
	case j.Cancel:
		e.end(j, store.Cancelled, "", text)
		return nil
	case lostMax > 0 && j.Losses >= lostMax:
		e.end(j, store.Dead, store.Lost, fmt.Sprintf("%s, %d times with no other suspect beside it", text, j.Losses))
		return nil
	}
	if superseded, err := e.superseded(j); err != nil {
		return err
	} else if superseded {
		e.end(j, store.Cancelled, "", supersededText)
		return nil
	}
	key := laneKey(l)
	key.Suspect = true
	if l, err = findLane(e.tx, key); err != nil {
		return err
	}
	j.Lane, j.State = l.ID, store.Waiting
	j.Worker, j.Token, j.Slot, j.LeaseAt = "", 0, 0, 0
	e.kept = append(e.kept, j)
	return enter(e.tx, &l, j.At, e.now)
}

// Cancels returns the running jobs of the worker that somebody cancelled.
func (s *Store) Cancels(ctx context.Context, worker string) (ids []int64, err error) {
	err = s.db.Peek(ctx, func(tx Tx) error {
		ids, err = tx.CancelsOf(worker)
		return err
	})
	return ids, err
}

// Workers lists registered workers.
func (s *Store) Workers(ctx context.Context) (out []store.WorkerInfo, err error) {
	err = s.db.View(ctx, func(tx Tx) error {
		out = nil
		now, err := tx.Now()
		if err != nil {
			return err
		}
		rows, err := tx.Workers()
		if err != nil {
			return err
		}
		for _, w := range rows {
			info := store.WorkerInfo{Worker: w.Worker, SeenAt: w.SeenAt, Dead: s.dead(w, now)}
			for after := int64(0); ; {
				held, err := tx.HeldBy(w.ID, after, rescueChunk)
				if err != nil {
					return err
				}
				info.Holds += int64(len(held))
				if len(held) < rescueChunk {
					break
				}
				after = held[len(held)-1].ID
			}
			out = append(out, info)
		}
		return nil
	})
	return out, err
}
