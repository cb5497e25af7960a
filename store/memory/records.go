package memory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func (t *tx) Call(run, ref string) (engine.Call, bool, error) {
	c, ok := t.calls[callKey{run, ref}]
	return c, ok, nil
}

func (t *tx) AddCall(c engine.Call) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	k := callKey{c.Run, c.Ref}
	if old, taken := t.calls[k]; taken {
		return fmt.Errorf("memory store: call %q of run %q is taken by job %d", c.Ref, c.Run, old.Job)
	}
	put(t, t.calls, k, c)
	put(t, t.callOf, c.Job, k)
	return nil
}

func (t *tx) DropCalls(jobs []int64) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for _, id := range jobs {
		t.dropCall(id)
	}
	return nil
}

func (t *tx) AddEvent(e store.Event) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	e.Detail = slices.Clone(e.Detail)
	put(t, t.events, eventKey{e.JobID, e.N}, e)
	add(t, t.eventsN, e.JobID, entry{0, int64(e.N)})
	return nil
}

func (t *tx) DropEvent(job int64, n int) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if _, ok := t.events[eventKey{job, n}]; ok {
		del(t, t.events, eventKey{job, n})
		remove(t, t.eventsN, job, entry{0, int64(n)})
	}
	return nil
}

func (t *tx) Events(job int64) ([]store.Event, error) {
	var out []store.Event
	for _, x := range t.eventsN[job].all() {
		e := t.events[eventKey{job, int(x.id)}]
		e.Detail = slices.Clone(e.Detail)
		out = append(out, e)
	}
	return out, nil
}

// namesAfter returns up to n keys above after, in order.
func namesAfter[V any](m map[string]V, after string, n int) []string {
	var names []string
	for name := range m {
		if name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(n, len(names))]
}

func (t *tx) LimitRow(name string) (engine.LimitRow, bool, error) {
	r, ok := t.limits[name]
	return r, ok, nil
}

func (t *tx) SaveLimitRow(r engine.LimitRow) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	put(t, t.limits, r.Name, r)
	return nil
}

func (t *tx) LimitRows(after string, n int) ([]engine.LimitRow, error) {
	var out []engine.LimitRow
	for _, name := range namesAfter(t.limits, after, n) {
		out = append(out, t.limits[name])
	}
	return out, nil
}

func (t *tx) LimitState(name string) ([]byte, error) { return slices.Clone(t.states[name]), nil }

func (t *tx) SaveLimitState(name string, state []byte) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if state == nil {
		del(t, t.states, name)
	} else {
		put(t, t.states, name, slices.Clone(state))
	}
	return nil
}

func (t *tx) LimitStates(after string, n int) ([]string, error) {
	return namesAfter(t.states, after, n), nil
}

func cloneWorker(w engine.WorkerRow) engine.WorkerRow {
	w.Kinds = slices.Clone(w.Kinds)
	return w
}

func (t *tx) Workers() ([]engine.WorkerRow, error) {
	out := make([]engine.WorkerRow, 0, len(t.workers))
	for _, w := range t.workers {
		out = append(out, cloneWorker(w))
	}
	slices.SortFunc(out, func(a, b engine.WorkerRow) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

func (t *tx) Worker(id string) (engine.WorkerRow, bool, error) {
	w, ok := t.workers[id]
	return cloneWorker(w), ok, nil
}

// SaveWorker wakes nobody: heartbeats make no work available.
func (t *tx) SaveWorker(w engine.WorkerRow) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	put(t, t.workers, w.ID, cloneWorker(w))
	return nil
}

func (t *tx) DropWorker(id string) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	del(t, t.workers, id)
	return nil
}

func cloneEffect(e engine.EffectRow) engine.EffectRow {
	e.Result = slices.Clone(e.Result)
	return e
}

func (t *tx) Effect(key string) (engine.EffectRow, bool, error) {
	e, ok := t.effects[key]
	return cloneEffect(e), ok, nil
}

func (t *tx) SaveEffect(e engine.EffectRow) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	put(t, t.effects, e.Key, cloneEffect(e))
	return nil
}

func (t *tx) DropEffect(key string) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	del(t, t.effects, key)
	return nil
}

func (t *tx) DropBegun(job int64) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	for key, e := range t.effects {
		if e.Job == job && !e.Done {
			del(t, t.effects, key)
		}
	}
	return nil
}
