package engine

import (
	"context"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
)

// Most starts end well and leave nothing to remember. They are ended without
// reading their jobs, and where transactions overlap, beside others.

// DoneLease is a start that ended well.
type DoneLease struct{ ID, Token int64 }

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
func plain(j *Job) bool {
	return !j.Cancel && j.Attempts == 0 && j.Throttles == 0 && j.Losses == 0 && j.RefusedRun == 0 && j.RefusedAt == 0 &&
		j.ThrottledAt == 0 && j.ThrottleSum == 0 && j.Events == 0 && j.Next == 0
}

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
		return endDone(tx, fs, out, 0, func(DoneJob) error { return nil })
	})
	return true, err
}

// endDone ends those of the starts that ended well and left nothing to remember,
// says so in out, and calls each with them.
func endDone(tx Tx, fs []store.Finish, out []store.Finished, now int64, each func(DoneJob) error) error {
	leases := make([]DoneLease, 0, len(fs))
	where := make(map[int64]int, len(fs))
	worker := ""
	for i := range fs {
		f := &fs[i]
		if _, twice := where[f.ID]; twice || !endsWell(f) || len(leases) > 0 && f.Worker != worker {
			continue
		}
		where[f.ID], worker = i, f.Worker
		leases = append(leases, DoneLease{f.ID, f.Token})
	}
	if len(leases) == 0 {
		return nil
	}
	return tx.EndDone(worker, leases, now, func(jobs []DoneJob) error {
		for _, j := range jobs {
			out[where[j.ID]] = store.Finished{State: store.Done}
			if err := each(j); err != nil {
				return err
			}
		}
		return nil
	})
}
