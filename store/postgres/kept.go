package postgres

import (
	"time"

	"github.com/penstockhq/penstock/store/engine"
)

// kept is what a transaction has read. Lanes, gates and limits are kept to its
// end; the rest was read ahead, and is given out once.
type kept struct {
	lanes  map[int64]engine.Lane
	gates  map[engine.GateKey]maybe[engine.Gate]
	specs  map[string]maybe[engine.LimitRow]
	states map[string][]byte

	worker    map[string]maybe[engine.WorkerRow]
	wakes     *wakes
	announced *bool
	visible   *[]engine.Band
	sleepers  *[]engine.Lane
	open      map[int64]part[engine.Gate]
	lined     map[engine.GateKey]part[engine.Lane]
	heads     map[int64]part[*engine.Job]
	firstDue  map[int64]maybe[int64]
	later     map[int64]maybe[int64]
	awaited   map[string]maybe[int64] // NextGates
	firsts    map[int64]firsts        // of bands
	unpaused  map[string]bool         // queues
	jobs      map[int64]*engine.Job
	holders   map[string]*engine.Job
	calls     map[string]maybe[engine.Call]
}

// maybe is a row or its absence.
type maybe[T any] struct {
	row   T
	found bool
}

// maybeOf is what a column that may be NULL says.
func maybeOf[T any](p *T) (m maybe[T]) {
	if p != nil {
		m = maybe[T]{*p, true}
	}
	return m
}

// part is the beginning of a list, or all of it.
type part[T any] struct {
	list []T
	all  bool
}

// first returns the first n, if they are here.
func (p part[T]) first(n int) ([]T, bool) {
	if !p.all && len(p.list) < n {
		return nil, false
	}
	return p.list[:min(n, len(p.list))], true
}

type wakes struct {
	list    []engine.Wake
	more    bool
	repeats bool      // all that were looked at were of few lanes and limits
	asked   time.Time // by this process's clock
}

// take gives out what was read ahead, once.
func take[T any](p **T) (v T, ok bool) {
	if *p == nil {
		return v, false
	}
	v = **p
	*p = nil
	return v, true
}

// pick gives out one entry of a map, once.
func pick[K comparable, V any](m map[K]V, k K) (V, bool) {
	v, ok := m[k]
	delete(m, k)
	return v, ok
}

// put writes into a map that may not be there yet.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}

// firsts are the first instants of a band: of its sleeping lanes, and of its gates.
type firsts struct{ sleeper, gate int64 }

// moved forgets lists that a change of a lane or gate makes stale.
func (k *kept) moved() {
	k.visible, k.sleepers, k.open, k.lined, k.awaited, k.firsts = nil, nil, nil, nil, nil, nil
}

// jobsMoved forgets lists that a change of a job makes stale; jobsLeft those that
// the lease of due jobs makes stale.
func (k *kept) jobsMoved() {
	k.jobsLeft()
	k.later = nil
}

func (k *kept) jobsLeft() {
	k.heads, k.firstDue, k.jobs, k.holders = nil, nil, nil, nil
}
