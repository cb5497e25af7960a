package sim

import (
	"context"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Plant is a bug that is put in to see whether the simulation finds it. They all
// lie between the engine and the rows, so that nothing in the product knows of them.
type Plant string

// The planted bugs.
const (
	NoPlant Plant = ""
	// WakeLost: what ends does not wake those that wait for its permit.
	WakeLost Plant = "a wake lost"
	// InsertAsleep: what is enqueued does not wake its lane.
	InsertAsleep Plant = "an insert that does not wake"
	// ReleaseTwice: an outcome that is refused as late gives its permits back all the same.
	ReleaseTwice Plant = "a release twice"
	// SlotBackwards: a grant is started at once, whatever slot it was planned for.
	SlotBackwards Plant = "a slot backwards"
	// RescueBlind: a rescue takes back what a dead process held when it was
	// looked at, without a look at the token, or at who holds it by now.
	RescueBlind Plant = "a rescue without token check"
	// FinishBlind: an outcome is taken from whoever brings it.
	FinishBlind Plant = "an outcome without token check"
)

// planted returns tx with the bug in it.
func (w *world) planted(tx *witnessTx) engine.Tx {
	switch w.opt.Plant {
	case WakeLost:
		if v := tx.how.verb; v == "Finish" || v == "Rescue" {
			return &wakeLost{tx}
		}
	case InsertAsleep:
		if tx.how.verb == "" {
			return &insertAsleep{witnessTx: tx}
		}
	case SlotBackwards:
		if tx.how.verb == "Claim" {
			return &slotBackwards{tx}
		}
	case RescueBlind:
		if tx.how.verb == "Rescue" {
			return &rescueBlind{tx}
		}
	case FinishBlind:
		if tx.how.verb == "Finish" {
			return &finishBlind{tx}
		}
	}
	return tx
}

type wakeLost struct{ *witnessTx }

func (t *wakeLost) WakeGates(string, int64) error { return nil }

// insertAsleep loses the opening of a gate after new jobs were written.
type insertAsleep struct {
	*witnessTx
	inserting bool
}

func (t *insertAsleep) AddJobs(jobs []*engine.Job, bodies []engine.Body) error {
	t.inserting = true
	return t.witnessTx.AddJobs(jobs, bodies)
}

func (t *insertAsleep) SaveGate(g engine.Gate) error {
	if t.inserting {
		return nil
	}
	return t.witnessTx.SaveGate(g)
}

// releaseAgain gives back the permits of a start whose outcome was refused.
func (w *world) releaseAgain(ctx context.Context, f store.Finish) {
	if w.opt.Plant != ReleaseTwice {
		return
	}
	job, err := w.st.Job(ctx, f.ID)
	if err != nil {
		return
	}
	_ = w.db.Update(ctx, func(tx engine.Tx) error {
		for _, d := range job.Draws {
			data, err := tx.LimitState(d.Limit)
			if err != nil || len(data) == 0 {
				return err
			}
			var s limit.State
			if err := s.UnmarshalBinary(data); err != nil {
				return err
			}
			now, err := tx.Now()
			if err != nil {
				return err
			}
			s.Release(w.db.specOf(d.Limit), d.Cost, job.Slot, now, false)
			if data, err = s.MarshalBinary(); err != nil {
				return err
			}
			if err := tx.SaveLimitState(d.Limit, data); err != nil {
				return err
			}
		}
		return nil
	})
}

type slotBackwards struct{ *witnessTx }

func (t *slotBackwards) Lease(jobs []*engine.Job) error {
	for _, j := range jobs {
		if len(j.Charges) == 0 {
			continue
		}
		j.Slot = j.LeaseAt
		for i := range j.Charges {
			j.Charges[i].Slot = j.LeaseAt
		}
	}
	return t.witnessTx.Lease(jobs)
}

type finishBlind struct{ *witnessTx }

func (t *finishBlind) Jobs(ids []int64) ([]*engine.Job, error) {
	jobs, err := t.witnessTx.Jobs(ids)
	for _, j := range jobs {
		for _, f := range t.how.finishes {
			if j != nil && f.ID == j.ID && j.State == store.Running {
				j.Worker, j.Token = f.Worker, f.Token
			}
		}
	}
	return jobs, err
}

// rescueBlind remembers what the workers held when the rescue looked at them.
type rescueBlind struct{ *witnessTx }

func (t *rescueBlind) Workers() ([]engine.WorkerRow, error) {
	rows, err := t.witnessTx.Workers()
	t.how.rows, t.how.held = map[string]engine.WorkerRow{}, map[string][]int64{}
	for _, r := range rows {
		t.how.rows[r.ID] = r
		held, err := t.Tx.HeldBy(r.ID, 0, 100)
		if err != nil {
			return nil, err
		}
		for _, j := range held {
			t.how.held[r.ID] = append(t.how.held[r.ID], j.ID)
		}
	}
	return rows, err
}

func (t *rescueBlind) Worker(id string) (engine.WorkerRow, bool, error) {
	row, ok := t.how.rows[id]
	return row, ok, nil
}

func (t *rescueBlind) HeldBy(worker string, after int64, n int) ([]*engine.Job, error) {
	if after > 0 {
		return nil, nil
	}
	var jobs []*engine.Job
	for _, id := range t.how.held[worker] {
		if j, ok, err := t.Tx.Job(id); err != nil {
			return nil, err
		} else if ok && j.State == store.Running {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// linger has the planted rescue take its time between look and write, as a
// store under load does.
func (w *world) linger(how *doing) {
	if w.opt.Plant == RescueBlind && how.verb == "Rescue" {
		pause(between(w.dice("linger", time.Now().UnixNano()), 0, 2*time.Second))
	}
}
