package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func TestRowsAreNotShared(t *testing.T) {
	db := NewDB(Options{})
	payload, charges := []byte("abc"), []dispatch.Charge{{Limit: "a", Cost: 1}}
	var id int64
	err := db.Update(t.Context(), func(tx engine.Tx) error {
		lane, err := tx.FindLane(store.LaneKey{Queue: "q", Draws: []dispatch.Draw{{Limit: "a", Cost: 1}}})
		if err != nil {
			return err
		}
		lane.Draws[0].Limit = "changed"
		j := &engine.Job{Lane: lane.ID, State: store.Waiting, Charges: charges}
		err = tx.AddJobs([]*engine.Job{j}, []engine.Body{{Payload: payload}})
		id = j.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	payload[0], charges[0].Cost = 'x', 99
	read := func(tx engine.Tx) (*engine.Job, engine.Body, engine.Lane) {
		j, _, _ := tx.Job(id)
		b, _ := tx.Bodies([]int64{id})
		l, _ := tx.Lanes([]int64{j.Lane})
		return j, b[0], l[0]
	}
	for range 2 {
		_ = db.View(t.Context(), func(tx engine.Tx) error {
			j, b, l := read(tx)
			if string(b.Payload) != "abc" || j.Charges[0].Cost != 1 || l.Draws[0].Limit != "a" {
				t.Errorf("a row was changed from outside: %s %v %v", b.Payload, j.Charges, l.Draws)
			}
			b.Payload[0], j.Charges[0].Cost, l.Draws[0].Limit = 'y', 7, "y"
			return nil
		})
	}
}

func TestViewRefusesWrites(t *testing.T) {
	db := NewDB(Options{})
	var kept engine.Tx
	err := db.View(t.Context(), func(tx engine.Tx) error {
		kept = tx
		return tx.SaveQueue(engine.QueueRow{Name: "q"})
	})
	if !errors.Is(err, errReadOnly) {
		t.Errorf("a write in a view: got %v", err)
	}
	if err := kept.SaveQueue(engine.QueueRow{Name: "q"}); !errors.Is(err, errEnded) {
		t.Errorf("a write after the view: got %v", err)
	}
}

func TestLostReplyKeepsTheCommit(t *testing.T) {
	lost := errors.New("reply lost")
	db := NewDB(Options{AfterCommit: func() error { return lost }})
	err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.SaveQueue(engine.QueueRow{Name: "q"}) })
	if !errors.Is(err, lost) || len(db.rows.queues) != 1 {
		t.Errorf("got %v and %d queues, expected the lost reply and the row", err, len(db.rows.queues))
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := NewDB(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ch := db.Watch(ctx)
		update := func(fn func(engine.Tx) error) {
			t.Helper()
			if err := db.Update(t.Context(), fn); err != nil {
				t.Fatal(err)
			}
		}
		signalled := func() bool {
			select {
			case <-ch:
				return true
			default:
				return false
			}
		}
		gate := func(tx engine.Tx) error { return tx.SaveGate(engine.Gate{Band: 1, OpensAt: 5}) }
		update(engine.Tx.Notify)
		update(engine.Tx.Notify)
		if !signalled() || signalled() {
			t.Error("expected one pending value after two updates")
		}
		update(gate)
		update(func(tx engine.Tx) error { return tx.SaveWorker(engine.WorkerRow{}) })
		if signalled() {
			t.Error("an update that makes no work available must not wake a worker")
		}
		cancel()
		synctest.Wait()
		update(func(tx engine.Tx) error { return tx.SaveQueue(engine.QueueRow{Name: "r"}) })
		if signalled() || len(db.watchers) != 0 {
			t.Error("the watch went on after its context ended")
		}
	})
}

func TestWaitingForTheLockCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		db := NewDB(Options{Pause: func(p string) {
			if p == PointCommit {
				<-hold
			}
		}})
		go func() { _ = db.Update(context.Background(), func(engine.Tx) error { return nil }) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { got <- db.View(ctx, func(engine.Tx) error { return nil }) }()
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(hold)
		synctest.Wait()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.View(t.Context(), func(engine.Tx) error { return nil }); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: got %v", err)
		}
	})
}
