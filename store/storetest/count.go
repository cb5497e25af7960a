package storetest

import (
	"sync"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Counter counts the rows that transactions read and write, to show that work
// does not grow with what is blocked. It is safe for concurrent use.
type Counter struct {
	mu            sync.Mutex
	Reads, Writes int
}

// Total is the number of rows touched since the last call of Reset.
func (c *Counter) Total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Reads + c.Writes
}

// Reset starts counting anew.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Reads, c.Writes = 0, 0
}

// Tx returns tx, counted. A query that finds nothing counts as one row.
func (c *Counter) Tx(tx engine.Tx) engine.Tx { return &counted{tx, c} }

type counted struct {
	engine.Tx
	c *Counter
}

func (t *counted) add(reads, writes int) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.c.Reads += reads
	t.c.Writes += writes
}

// rows counts what a query returned.
func rows[T any](t *counted, got []T, err error) ([]T, error) {
	t.add(max(1, len(got)), 0)
	return got, err
}

func (t *counted) FindLane(k store.LaneKey) (engine.Lane, error) {
	t.add(1, 1)
	return t.Tx.FindLane(k)
}
func (t *counted) Lanes(ids []int64) ([]engine.Lane, error) {
	got, err := t.Tx.Lanes(ids)
	return rows(t, got, err)
}
func (t *counted) SaveLane(l engine.Lane) error { t.add(0, 1); return t.Tx.SaveLane(l) }
func (t *counted) SleepingLanes(at int64, n int) ([]engine.Lane, error) {
	got, err := t.Tx.SleepingLanes(at, n)
	return rows(t, got, err)
}
func (t *counted) NextSleeper(bands []int64) (int64, error) {
	t.add(1, 0)
	return t.Tx.NextSleeper(bands)
}
func (t *counted) ReadyLanes(band int64, limit string, n int) ([]engine.Lane, error) {
	got, err := t.Tx.ReadyLanes(band, limit, n)
	return rows(t, got, err)
}
func (t *counted) FirstDue(lane int64) (int64, bool, error) { t.add(1, 0); return t.Tx.FirstDue(lane) }
func (t *counted) FirstAfter(lane, at int64) (int64, bool, error) {
	t.add(1, 0)
	return t.Tx.FirstAfter(lane, at)
}
func (t *counted) Bands(kinds []string, run string, queues []string) ([]engine.Band, error) {
	got, err := t.Tx.Bands(kinds, run, queues)
	return rows(t, got, err)
}
func (t *counted) BandLanes(band, after int64, n int) ([]engine.Lane, error) {
	got, err := t.Tx.BandLanes(band, after, n)
	return rows(t, got, err)
}
func (t *counted) Gate(band int64, limit string) (engine.Gate, bool, error) {
	t.add(1, 0)
	return t.Tx.Gate(band, limit)
}
func (t *counted) SaveGate(g engine.Gate) error { t.add(0, 1); return t.Tx.SaveGate(g) }
func (t *counted) OpenGates(band, at int64, n int) ([]engine.Gate, error) {
	got, err := t.Tx.OpenGates(band, at, n)
	return rows(t, got, err)
}
func (t *counted) NextGate(bands []int64, at int64) (int64, error) {
	t.add(1, 0)
	return t.Tx.NextGate(bands, at)
}
func (t *counted) NextGates(limits []string, bands []int64, at, until int64) (map[string]int64, error) {
	got, err := t.Tx.NextGates(limits, bands, at, until)
	t.add(max(1, len(got)), 0)
	return got, err
}
func (t *counted) NextLater(bands []int64, at int64, then func(sleeper, gate int64)) error {
	t.add(2, 0)
	return t.Tx.NextLater(bands, at, then)
}
func (t *counted) AddJobs(jobs []*engine.Job, bodies []engine.Body) error {
	t.add(0, len(jobs))
	return t.Tx.AddJobs(jobs, bodies)
}
func (t *counted) Job(id int64) (*engine.Job, bool, error) { t.add(1, 0); return t.Tx.Job(id) }
func (t *counted) Jobs(ids []int64) ([]*engine.Job, error) {
	got, err := t.Tx.Jobs(ids)
	return rows(t, got, err)
}
func (t *counted) SaveJobs(jobs []*engine.Job) error { t.add(0, len(jobs)); return t.Tx.SaveJobs(jobs) }
func (t *counted) Lease(jobs []*engine.Job) error    { t.add(0, len(jobs)); return t.Tx.Lease(jobs) }
func (t *counted) Heads(lane, at int64, n int) ([]*engine.Job, error) {
	got, err := t.Tx.Heads(lane, at, n)
	return rows(t, got, err)
}
func (t *counted) EndJobs(jobs []*engine.Job) error { t.add(0, len(jobs)); return t.Tx.EndJobs(jobs) }
func (t *counted) HeldBy(worker string, after int64, n int) ([]*engine.Job, error) {
	got, err := t.Tx.HeldBy(worker, after, n)
	return rows(t, got, err)
}
func (t *counted) Bodies(ids []int64) ([]engine.Body, error) {
	got, err := t.Tx.Bodies(ids)
	return rows(t, got, err)
}
func (t *counted) LimitRow(name string) (engine.LimitRow, bool, error) {
	t.add(1, 0)
	return t.Tx.LimitRow(name)
}
func (t *counted) LimitRows(after string, n int) ([]engine.LimitRow, error) {
	got, err := t.Tx.LimitRows(after, n)
	return rows(t, got, err)
}
func (t *counted) LimitState(name string) ([]byte, error) { t.add(1, 0); return t.Tx.LimitState(name) }
func (t *counted) SaveLimitState(name string, state []byte) error {
	t.add(0, 1)
	return t.Tx.SaveLimitState(name, state)
}
func (t *counted) Find(f store.Filter) ([]*engine.Job, error) {
	got, err := t.Tx.Find(f)
	return rows(t, got, err)
}
