package sqlite

import (
	"github.com/penstockhq/penstock/store/engine"
)

// tx is a transaction: engine.Tx over a link.
type tx struct {
	engine.NoWakes
	link
	clock func() int64
	live  *live // nil in a transaction of the caller's

	// bands are those read in this transaction; nothing but ReleaseBands changes one.
	bands map[int64]engine.Band
	// read has the lane and times of the jobs that Jobs read, as they are stored.
	read map[int64]place
	// notified says that those who watch will be told of the commit.
	notified bool
	// registered and dropped are the workers to lock and unlock for; see live.go.
	registered, dropped []string
}

var _ engine.Tx = (*tx)(nil)

// Now is the clock of this machine: whoever uses the file runs on it.
func (t *tx) Now() (int64, error) { return t.clock(), nil }

// Notify counts, so that other processes can tell a commit that concerns them
// from the many that do not.
func (t *tx) Notify() error {
	if t.notified {
		return nil
	}
	t.notified = true
	return t.exec(`UPDATE penstock_counter SET value = value + 1 WHERE name = 'notify'`)
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
