package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/penstockhq/penstock/store/engine"
)

// mode says what a transaction may do, and beside whom.
type mode uint8

const (
	view   mode = iota // reads, on one snapshot
	peek               // reads, outside a transaction
	adding             // writes, while others write
	alone              // writes, and no other transaction of this mode runs meanwhile
)

// tx is a transaction: engine.Tx over a link.
//
// Writes wait here until something must be read, or the commit: then they travel
// together with it. What was read once of lanes, gates and limits is kept, for in
// a transaction that is alone nobody else can change it.
type tx struct {
	link
	ctx     context.Context
	mode    mode
	clock   func() int64 // nil: the server's
	lanesOf *laneBook
	guess   *guess

	now   int64   // of a transaction that is alone also the server's setting penstock_claim.now
	soon  *sight  // nil: nothing is known of the picture
	ids   []int64 // taken from the sequence and not used yet
	ready []statement
	dirty dirty
	kept  kept
	told  bool   // those who watch are to be told of the commit
	ended bool   // it announced that starts ended, and told nobody
	took  *wakes // announcements that it took; nil: none

	looked time.Time // when it asked for announcements and found none; zero: never

	newLanes map[string]int64 // ids of lanes that new jobs go to, by key
	calls    []engine.Call    // new ones
	effects  map[string]bool  // which were looked for, and whether they are there

	last  []statement // what is read before the commit, in its trip
	after []statement // what is read behind it
	then  []func() error
}

var _ engine.Tx = (*tx)(nil)

// nowOnServer is the server's clock in microseconds since the epoch.
const nowOnServer = `floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// Now is the server's clock, read once, after the transaction's only lock was
// taken. Nothing that it depends on can change until the commit.
func (t *tx) Now() (int64, error) {
	if t.clock != nil {
		return t.clock(), nil
	}
	if t.now != 0 {
		return t.now, nil
	}
	return t.now, t.read(`SELECT `+nowOnServer, func(s scan) error { return s(&t.now) })
}

// Notify is kept until the commit.
func (t *tx) Notify() error {
	t.told = true
	return nil
}

// Overlaps reports whether others write at the same time.
func (t *tx) Overlaps() bool { return t.mode == adding }

// write puts a statement in line for the next trip to the server.
func (t *tx) write(sql string, args ...any) error {
	t.ready = append(t.ready, statement{sql: sql, args: args})
	return nil
}

// read runs a query, after all writes in line.
func (t *tx) read(sql string, each func(scan) error, args ...any) error {
	return t.ask([]statement{{sql: sql, args: args, each: each}})
}

// ask runs queries in one trip.
func (t *tx) ask(queries []statement) error {
	return t.send(t.ctx, append(t.waiting(), queries...))
}

// waiting returns the writes in line, and takes them off it.
func (t *tx) waiting() []statement {
	t.flush()
	list := t.ready
	t.ready = nil
	return list
}

// one runs a query for at most one row, and reports whether there was one.
func (t *tx) one(sql string, each func(scan) error, args ...any) (found bool, err error) {
	err = t.read(sql, func(s scan) error {
		found = true
		return each(s)
	}, args...)
	return found, err
}

func (t *tx) listIDs(sql string, args ...any) (ids []int64, err error) {
	err = t.read(sql, collect(&ids), args...)
	return ids, err
}

// collect reads rows of one column.
func collect[T any](into *[]T) func(scan) error {
	return func(s scan) error {
		var v T
		err := s(&v)
		*into = append(*into, v)
		return err
	}
}

// dirty are rows that changed and were not written yet.
type dirty struct {
	lanes  map[int64]engine.Lane
	gates  map[engine.GateKey]engine.Gate
	limits map[string][]byte // nil: removed
}

// flush puts the changed rows in line, each kind as one statement, ordered so that
// they do not depend on how Go walks a map.
func (t *tx) flush() {
	if len(t.calls) > 0 {
		t.flushCalls()
	}
	if len(t.dirty.lanes)+len(t.dirty.gates) > 0 {
		t.soon = nil // it goes by what was not written yet
	}
	if len(t.dirty.lanes) > 0 {
		t.flushLanes(sortedValues(t.dirty.lanes))
		clear(t.dirty.lanes)
	}
	if len(t.dirty.gates) > 0 {
		t.flushGates(t.dirty.gates)
		clear(t.dirty.gates)
	}
	if len(t.dirty.limits) > 0 {
		t.flushLimits(t.dirty.limits)
		clear(t.dirty.limits)
	}
}

func sortedValues(m map[int64]engine.Lane) []engine.Lane {
	list := make([]engine.Lane, 0, len(m))
	for _, l := range m {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b engine.Lane) int { return int(min(1, max(-1, a.ID-b.ID))) })
	return list
}
