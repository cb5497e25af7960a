package memory

import (
	"fmt"
	"slices"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func cloneJob(j *engine.Job) *engine.Job {
	c := *j
	c.Charges = slices.Clone(j.Charges)
	c.Result = slices.Clone(j.Result)
	return &c
}

// setHot writes a hot row and its places in the indexes.
func (t *tx) setHot(j *engine.Job) error {
	if j.State != store.Waiting && j.State != store.Running {
		return fmt.Errorf("memory store: job %d: a hot row cannot be %v", j.ID, j.State)
	}
	if _, ok := t.lanes[j.Lane]; !ok {
		return fmt.Errorf("memory store: job %d: lane %d does not exist", j.ID, j.Lane)
	}
	t.unsetHot(j.ID)
	if j.Unique != "" {
		if holder, taken := t.unique[j.Unique]; taken {
			return fmt.Errorf("memory store: job %d: %w by job %d", j.ID, store.ErrUniqueTaken, holder)
		}
		put(t, t.unique, j.Unique, j.ID)
	}
	put(t, t.hot, j.ID, cloneJob(j))
	if j.State == store.Waiting {
		add(t, t.waiting, j.Lane, entry{j.At, j.ID})
	} else {
		add(t, t.held, j.Worker, entry{0, j.ID})
	}
	return nil
}

// unsetHot removes a hot row, if it is there, with its places in the indexes.
func (t *tx) unsetHot(id int64) {
	old, ok := t.hot[id]
	if !ok {
		return
	}
	del(t, t.hot, id)
	if old.Unique != "" {
		del(t, t.unique, old.Unique)
	}
	if old.State == store.Waiting {
		remove(t, t.waiting, old.Lane, entry{old.At, id})
	} else {
		remove(t, t.held, old.Worker, entry{0, id})
	}
}

func (t *tx) AddJobs(jobs []*engine.Job, bodies []engine.Body) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if len(jobs) != len(bodies) {
		return fmt.Errorf("memory store: %d jobs with %d bodies", len(jobs), len(bodies))
	}
	for i, j := range jobs {
		j.ID = t.next(&t.lastJob)
		if err := t.setHot(j); err != nil {
			return err
		}
		put(t, t.bodies, j.ID, cloneBody(bodies[i]))
	}
	return nil
}

func (t *tx) Job(id int64) (*engine.Job, bool, error) {
	j, ok := t.hot[id]
	if !ok {
		return nil, false, nil
	}
	return cloneJob(j), true, nil
}

// pick returns copies of the rows, nil for missing ones.
func pick(m map[int64]*engine.Job, ids []int64) []*engine.Job {
	out := make([]*engine.Job, len(ids))
	for i, id := range ids {
		if j, ok := m[id]; ok {
			out[i] = cloneJob(j)
		}
	}
	return out
}

func (t *tx) Jobs(ids []int64) ([]*engine.Job, error) { return pick(t.hot, ids), nil }

func (t *tx) SaveJobs(jobs []*engine.Job) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, j := range jobs {
		if _, ok := t.hot[j.ID]; !ok {
			continue
		}
		if err := t.setHot(j); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) Lease(jobs []*engine.Job) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, j := range jobs {
		old, ok := t.hot[j.ID]
		if !ok || old.State != store.Waiting {
			return fmt.Errorf("memory store: job %d is not waiting and cannot be leased", j.ID)
		}
		row := *old
		row.State, row.Worker, row.Token = j.State, j.Worker, j.Token
		row.Slot, row.LeaseAt, row.Charges, row.Starts = j.Slot, j.LeaseAt, j.Charges, j.Starts
		if err := t.setHot(&row); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) Heads(lane, at int64, n int) ([]*engine.Job, error) {
	return pick(t.hot, idsOf(t.waiting[lane].first(start, at, n))), nil
}

func idsOf(es []entry) []int64 {
	ids := make([]int64, len(es))
	for i, e := range es {
		ids[i] = e.id
	}
	return ids
}

func (t *tx) DropJobs(ids []int64) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, id := range ids {
		t.unsetHot(id)
	}
	return nil
}

func (t *tx) HeldBy(worker string, after int64, n int) ([]*engine.Job, error) {
	return pick(t.hot, idsOf(t.held[worker].first(entry{0, after + 1}, 0, n))), nil
}

func (t *tx) CancelsOf(worker string) ([]int64, error) {
	var ids []int64
	for _, e := range t.held[worker].all() {
		if t.hot[e.id].Cancel {
			ids = append(ids, e.id)
		}
	}
	return ids, nil
}

func (t *tx) UniqueHolder(key string) (*engine.Job, bool, error) {
	id, ok := t.unique[key]
	if !ok || key == "" {
		return nil, false, nil
	}
	return t.Job(id)
}
