package engine

import (
	"context"
	"fmt"

	"github.com/penstockhq/penstock/store"
)

// dropChunk is how many staged jobs go in one commit.
const dropChunk = 1000

// Release makes the jobs staged under load visible. It touches their bands and
// nothing else, so that a million jobs appear at once.
func (s *Store) Release(ctx context.Context, load string) error {
	if load == "" {
		return fmt.Errorf("load is empty: expected the name the jobs were staged under")
	}
	return s.db.Update(ctx, func(tx Tx) error {
		bands, err := tx.LoadBands(load, "")
		if err != nil {
			return err
		}
		ids := make([]int64, len(bands))
		for i, b := range bands {
			ids[i] = b.ID
		}
		if err := tx.ReleaseBands(ids); err != nil {
			return err
		}
		return tx.Notify()
	})
}

// DropLoads removes what was staged for the run and never released.
func (s *Store) DropLoads(ctx context.Context, run string) (int, error) {
	if err := s.catchUp(ctx); err != nil {
		return 0, err
	}
	total := 0
	for {
		n := 0
		err := s.db.Update(ctx, func(tx Tx) error {
			n = 0
			bands, err := tx.LoadBands("", run)
			if err != nil {
				return err
			}
			for _, b := range bands {
				k, err := dropBand(tx, b.ID, dropChunk-n)
				if n += k; err != nil || n >= dropChunk {
					return err
				}
			}
			return nil
		})
		total += n
		if err != nil || n < dropChunk {
			return total, err
		}
	}
}

// dropBand removes up to n staged jobs of a band, lane by lane.
func dropBand(tx Tx, band int64, n int) (dropped int, err error) {
	for after := int64(0); dropped < n; {
		lanes, err := tx.BandLanes(band, after, 100)
		if err != nil || len(lanes) == 0 {
			return dropped, err
		}
		for i := range lanes {
			after = lanes[i].ID
			k, err := dropLane(tx, &lanes[i], n-dropped)
			if dropped += k; err != nil || dropped >= n {
				return dropped, err
			}
		}
	}
	return dropped, nil
}

// dropLane removes up to n staged jobs of a lane; a lane that is empty then
// leaves its gate.
func dropLane(tx Tx, l *Lane, n int) (int, error) {
	if l.State == LaneEmpty {
		return 0, nil
	}
	jobs, err := tx.Heads(l.ID, Empty, n)
	if err != nil {
		return 0, err
	}
	ids := make([]int64, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	if err := removeJobs(tx, ids); err != nil {
		return 0, err
	}
	if len(jobs) == n { // perhaps there is more
		return n, nil
	}
	l.State, l.NextAt = LaneEmpty, 0
	return len(jobs), tx.SaveLane(*l)
}

// removeJobs removes hot jobs with all that belongs to them.
func removeJobs(tx Tx, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	if err := tx.DropJobs(ids); err != nil {
		return err
	}
	if err := tx.DropCalls(ids); err != nil {
		return err
	}
	return tx.DropBodies(ids)
}

// stateOf returns the state of a job, hot or ended.
func stateOf(tx Tx, id int64) (store.State, error) {
	j, ok, err := tx.Job(id)
	if err != nil {
		return 0, err
	}
	if ok {
		return j.State, nil
	}
	ended, err := tx.EndedJobs([]int64{id})
	if err != nil {
		return 0, err
	}
	if ended[0] == nil {
		return 0, store.ErrNotFound
	}
	return ended[0].State, nil
}
