package memory

import (
	"errors"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

var (
	errReadOnly = errors.New("memory store: a write in a read-only transaction")
	errEnded    = errors.New("memory store: the transaction has ended")
)

// bandKey is what makes a band one band.
type bandKey struct {
	queue, kind, run, load string
	priority               int
	suspect                bool
}

func keyOf(b engine.Band) bandKey {
	return bandKey{b.Queue, b.Kind, b.Run, b.Load, b.Priority, b.Suspect}
}

type gateKey struct {
	band  int64
	limit string
}

type callKey struct{ run, ref string }

type eventKey struct {
	job int64
	n   int
}

// rows are the tables and their indexes. A row in a map is never changed in
// place: it is replaced, so that the undo log may keep the old one.
type rows struct {
	lastBand, lastLane, lastJob, lastNote int64

	bands     map[int64]engine.Band
	bandIDs   map[bandKey]*index    // by (0, ID); several with one key once a load was released
	lanes     map[int64]engine.Lane // Band holds the id alone
	laneIDs   map[string]int64
	ready     map[gateKey]*index  // lanes by (VTime, ID)
	sleeping  *index              // lanes by (NextAt, ID)
	stirs     map[int64]int       // band: how many of its lanes sleep and gates are not empty
	liveBands *index              // bands that have some of those, by (0, ID)
	ofBand    map[int64]*index    // band: its lanes by (0, ID)
	gates     map[int64]*gateList // by band

	hot     map[int64]*engine.Job
	waiting map[int64]*index  // lane: waiting jobs by (At, ID)
	held    map[string]*index // worker: running jobs by (0, ID)
	unique  map[string]int64
	ended   map[int64]*engine.Job
	bodies  map[int64]engine.Body
	events  map[eventKey]store.Event
	eventsN map[int64]*index // job: events by (0, N)
	calls   map[callKey]engine.Call
	callOf  map[int64]callKey

	limits  map[string]engine.LimitRow
	states  map[string][]byte
	workers map[string]engine.WorkerRow
	effects map[string]engine.EffectRow
	queues  map[string]engine.QueueRow

	counters map[string]int64
	notes    map[int64]store.Note
}

func newRows() rows {
	return rows{
		bands:     make(map[int64]engine.Band),
		bandIDs:   make(map[bandKey]*index),
		lanes:     make(map[int64]engine.Lane),
		laneIDs:   make(map[string]int64),
		ready:     make(map[gateKey]*index),
		sleeping:  new(index),
		stirs:     make(map[int64]int),
		liveBands: new(index),
		ofBand:    make(map[int64]*index),
		gates:     make(map[int64]*gateList),
		hot:       make(map[int64]*engine.Job),
		waiting:   make(map[int64]*index),
		held:      make(map[string]*index),
		unique:    make(map[string]int64),
		ended:     make(map[int64]*engine.Job),
		bodies:    make(map[int64]engine.Body),
		events:    make(map[eventKey]store.Event),
		eventsN:   make(map[int64]*index),
		calls:     make(map[callKey]engine.Call),
		callOf:    make(map[int64]callKey),
		limits:    make(map[string]engine.LimitRow),
		states:    make(map[string][]byte),
		workers:   make(map[string]engine.WorkerRow),
		effects:   make(map[string]engine.EffectRow),
		queues:    make(map[string]engine.QueueRow),
		counters:  make(map[string]int64),
		notes:     make(map[int64]store.Note),
	}
}

// tx is one transaction. Everything it changes goes through put, del, add and
// remove, which note how to take the change back.
type tx struct {
	engine.NoWakes
	*rows
	db    *DB
	write bool
	over  bool
	wake  bool // those who watch are to be told
	undo  []func()
}

func (t *tx) rollback() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
	t.undo = nil
}

// mayWrite is asked at the head of every operation that writes.
func (t *tx) mayWrite() error {
	switch {
	case t.over:
		return errEnded
	case !t.write:
		return errReadOnly
	}
	return nil
}

func (t *tx) Now() (int64, error) { return t.db.opt.Now(), nil }

func put[K comparable, V any](t *tx, m map[K]V, k K, v V) {
	old, was := m[k]
	t.undo = append(t.undo, func() {
		if was {
			m[k] = old
		} else {
			delete(m, k)
		}
	})
	m[k] = v
}

func del[K comparable, V any](t *tx, m map[K]V, k K) {
	old, was := m[k]
	if !was {
		return
	}
	t.undo = append(t.undo, func() { m[k] = old })
	delete(m, k)
}

// next takes the next number of a sequence.
func (t *tx) next(seq *int64) int64 {
	old := *seq
	t.undo = append(t.undo, func() { *seq = old })
	*seq++
	return *seq
}

func add[K comparable](t *tx, m map[K]*index, k K, e entry) {
	x := m[k]
	if x == nil {
		x = new(index)
		m[k] = x // an empty index means the same as none: nothing to undo
	}
	t.addTo(x, e)
}

func remove[K comparable](t *tx, m map[K]*index, k K, e entry) {
	if x := m[k]; x != nil {
		t.removeFrom(x, e)
	}
}

func (t *tx) addTo(x *index, e entry) {
	if x.add(e) {
		t.undo = append(t.undo, func() { x.remove(e) })
	}
}

func (t *tx) removeFrom(x *index, e entry) {
	if x.remove(e) {
		t.undo = append(t.undo, func() { x.add(e) })
	}
}

func (t *tx) Notify() error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	t.wake = true
	return nil
}

// BodiesLater reads them at once: they are near.
func (t *tx) BodiesLater(ids []int64, then func([]engine.Body) error) error {
	if len(ids) == 0 {
		return nil
	}
	bodies, err := t.Bodies(ids)
	if err != nil {
		return err
	}
	return then(bodies)
}

// EndDone goes through the rows.
func (t *tx) EndDone(worker string, leases []engine.DoneLease, at int64, then func([]engine.DoneJob) error) error {
	return engine.EndDoneByRows(t, worker, leases, at, then)
}
