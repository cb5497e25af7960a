package memory

import (
	"fmt"
	"slices"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) EndJobs(jobs []*engine.Job) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, j := range jobs {
		if !j.State.Ended() {
			return fmt.Errorf("memory store: job %d: an ended row cannot be %v", j.ID, j.State)
		}
		if _, ok := t.hot[j.ID]; !ok {
			return fmt.Errorf("memory store: job %d is not waiting or running and cannot end", j.ID)
		}
		t.unsetHot(j.ID)
		put(t, t.ended, j.ID, cloneJob(j))
	}
	return nil
}

func (t *tx) EndedJobs(ids []int64) ([]*engine.Job, error) {
	jobs := pick(t.ended, ids)
	for _, j := range jobs {
		if j != nil {
			j.Result = nil
		}
	}
	return jobs, nil
}

func (t *tx) UnendJobs(jobs []*engine.Job) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, j := range jobs {
		if _, ok := t.ended[j.ID]; !ok {
			return fmt.Errorf("memory store: job %d has not ended and cannot be put back", j.ID)
		}
		del(t, t.ended, j.ID)
		if err := t.setHot(j); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) DropEnded(ids []int64) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, id := range ids {
		if _, ok := t.ended[id]; !ok {
			continue
		}
		del(t, t.ended, id)
		t.dropBody(id)
	}
	return nil
}

func (t *tx) EndedBefore(states []store.State, before int64, n int) ([]int64, error) {
	var x index
	for id, j := range t.ended {
		if j.FinishedAt < before && slices.Contains(states, j.State) {
			x.entries = append(x.entries, entry{j.FinishedAt, id})
		}
	}
	slices.SortFunc(x.entries, entry.compare)
	return idsOf(x.entries[:min(n, len(x.entries))]), nil
}

func cloneBody(b engine.Body) engine.Body {
	b.Payload = slices.Clone(b.Payload)
	return b
}

func (t *tx) Bodies(ids []int64) ([]engine.Body, error) {
	out := make([]engine.Body, len(ids))
	for i, id := range ids {
		out[i] = cloneBody(t.bodies[id])
	}
	return out, nil
}

func (t *tx) SaveBody(id int64, b engine.Body) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if _, ok := t.bodies[id]; !ok {
		return fmt.Errorf("memory store: job %d has no body to replace", id)
	}
	put(t, t.bodies, id, cloneBody(b))
	return nil
}

func (t *tx) DropBodies(ids []int64) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, id := range ids {
		t.dropBody(id)
	}
	return nil
}

// dropBody removes a job's body and events.
func (t *tx) dropBody(id int64) {
	del(t, t.bodies, id)
	for _, e := range slices.Clone(t.eventsN[id].all()) {
		del(t, t.events, eventKey{id, int(e.id)})
		remove(t, t.eventsN, id, e)
	}
}

func (t *tx) dropCall(job int64) {
	if k, ok := t.callOf[job]; ok {
		del(t, t.calls, k)
		del(t, t.callOf, job)
	}
}
