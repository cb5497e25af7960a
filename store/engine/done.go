package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// Most starts end well and leave nothing to remember. They are ended without
// reading their jobs, and where transactions overlap, beside others.

// DoneLease is a start that ended well, and when its call was seen to be let
// through, if it was.
type DoneLease struct{ ID, Token, PassedAt int64 }

// DoneJob is a job that EndDone ended.
type DoneJob struct {
	ID      int64
	Charges []dispatch.Charge // what its start was charged
}

// EndDoneByRows is EndDone by the other row operations, for stores that have none
// of their own.
func EndDoneByRows(tx Tx, worker string, leases []DoneLease, at int64, then func([]DoneJob) error) error {
	ids := make([]int64, len(leases))
	for i, l := range leases {
		ids[i] = l.ID
	}
	jobs, err := tx.Jobs(ids)
	if err != nil {
		return err
	}
	var done []DoneJob
	var ended []*Job
	for i, j := range jobs {
		if j == nil || j.State != store.Running || j.Worker != worker || j.Token != leases[i].Token || !plain(j) {
			continue
		}
		done = append(done, DoneJob{j.ID, j.Charges})
		j.State, j.FinishedAt = store.Done, at
		j.Worker, j.Token, j.Slot, j.LeaseAt, j.Charges = "", 0, 0, 0, nil
		ended = append(ended, j)
	}
	if err := tx.EndJobs(ended); err != nil {
		return err
	}
	return then(done)
}

// plain says that the job never ended a start before, and is not to be cancelled.
func plain(j *Job) bool { return !j.Cancel && NoPast(j) }

// endsWell reports whether EndDone may end the start.
func endsWell(f *store.Finish) bool {
	return f.Outcome == store.OutcomeDone && len(f.Result) == 0 && len(f.Detail) == 0 && len(f.Observations) == 0
}

// finishBeside ends starts beside other transactions, if all of them ended well,
// nobody waits for what they give back, and transactions overlap. What it ended is in out; handled is false if nothing was
// tried.
func (s *Store) finishBeside(ctx context.Context, fs []store.Finish, out []store.Finished) (handled bool, err error) {
	if !s.db.Overlaps() {
		return false, nil
	}
	for i := range fs {
		if !endsWell(&fs[i]) || fs[i].Scarce || fs[i].Worker != fs[0].Worker {
			return false, nil
		}
	}
	err = s.db.Append(ctx, func(tx Tx) error {
		clear(out)
		return endDone(tx, fs, out, 0, nil)
	})
	return true, err
}

// endDone ends those of the starts that ended well and left nothing to remember,
// says so in out, and calls each (if it is not nil) with what they were charged.
func endDone(tx Tx, fs []store.Finish, out []store.Finished, now int64, each func(charges []dispatch.Charge, passedAt int64)) error {
	leases := make([]DoneLease, 0, len(fs))
	where := make(map[int64]int, len(fs))
	worker := ""
	for i := range fs {
		f := &fs[i]
		if _, twice := where[f.ID]; twice || !endsWell(f) || len(leases) > 0 && f.Worker != worker {
			continue
		}
		where[f.ID], worker = i, f.Worker
		leases = append(leases, DoneLease{f.ID, f.Token, f.Passed})
	}
	if len(leases) == 0 {
		return nil
	}
	return tx.EndDone(worker, leases, now, func(jobs []DoneJob) error {
		for _, j := range jobs {
			i := where[j.ID]
			out[i] = store.Finished{State: store.Done}
			if each != nil {
				each(j.Charges, fs[i].Passed)
			}
		}
		return nil
	})
}

// tally adds up what ended starts mean for their limits.
type tally map[string]Wake

func (t tally) add(charges []dispatch.Charge, passedAt int64) {
	for _, ch := range charges {
		w := t[ch.Limit]
		w.Limit = ch.Limit
		w.Ended++
		if passedAt != 0 {
			w.PassedAt, w.Slot = max(w.PassedAt, passedAt), max(w.Slot, ch.Slot)
		}
		t[ch.Limit] = w
	}
}

// names are the limits', in a fixed order.
func (t tally) names() []string { return slices.Sorted(maps.Keys(t)) }

// releaseAll gives back the calls in flight of the starts, and lets the limit learn
// that calls were let through: the last of them tells what all of them do.
func (e *ender) releaseAll(w Wake) error {
	for range w.Ended {
		if err := e.release([]dispatch.Charge{{Limit: w.Limit}}, false); err != nil {
			return err
		}
	}
	return e.passed(w.Limit, w.PassedAt, w.Slot)
}

// passed lets a limit learn that a call was let through. One that only caps calls
// in flight has nothing to learn from it.
func (e *ender) passed(name string, at, slot int64) error {
	l, err := e.limits.get(name)
	if err != nil || at == 0 || !l.Known || !l.Spec.HasRate() && l.Spec.InFlight > 0 {
		return err
	}
	l.State.Observe(l.Spec, limit.Observation{At: at, Slot: slot}, 0)
	l.changed = true
	return nil
}
