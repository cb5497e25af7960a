package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func storeOn(d *db) store.Store { return engine.New(d) }

// holdWriter blocks the writer inside a transaction until the returned function is called.
func holdWriter(t *testing.T, d *db) (release func()) {
	t.Helper()
	inside, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- d.Update(context.Background(), func(engine.Tx) error {
			once.Do(func() { close(inside) })
			<-free
			return nil
		})
	}()
	<-inside
	return func() {
		close(free)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// waiting waits until n requests stand in line.
func waiting(d *db, n int) {
	for {
		d.writer.mu.Lock()
		got := len(d.writer.queue)
		d.writer.mu.Unlock()
		if got >= n {
			return
		}
	}
}

// Of many updates that share a commit, some fail and one panics: each caller gets
// its own answer, and what succeeded is there.
func TestGroupCommitKeepsErrorsApart(t *testing.T) {
	d := openDBAt(t, tempFile(t))
	release := holdWriter(t, d)
	const n = 20
	errs := make([]error, n)
	own := errors.New("my own error")
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			errs[i] = d.Update(context.Background(), func(tx engine.Tx) error {
				if _, err := engine.Insert(tx, []store.NewJob{job(fmt.Sprint("q", i))}); err != nil {
					return err
				}
				switch i {
				case 3, 11:
					return fmt.Errorf("update %d: %w", i, own)
				case 7:
					panic("a bug")
				}
				return nil
			})
		})
	}
	waiting(d, n-1) // the writer may have taken none: it is held
	release()
	wg.Wait()

	jobs, err := storeOn(d).Jobs(t.Context(), store.Filter{N: 100})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, j := range jobs {
		if there[j.Queue] {
			t.Errorf("%s is there twice", j.Queue)
		}
		there[j.Queue] = true
	}
	for i, err := range errs {
		wrong := i == 3 || i == 11 || i == 7
		switch {
		case i == 7 && (err == nil || !strings.Contains(err.Error(), "panic in a transaction: a bug")):
			t.Errorf("update %d: %v", i, err)
		case wrong && i != 7 && (!errors.Is(err, own) || !strings.Contains(err.Error(), fmt.Sprintf("update %d:", i))):
			t.Errorf("update %d: %v", i, err)
		case !wrong && err != nil:
			t.Errorf("update %d: %v", i, err)
		}
		if there[fmt.Sprint("q", i)] == wrong {
			t.Errorf("update %d: its job is there: %v", i, !wrong)
		}
	}
}

// Updates that wait at the same time share one commit.
func TestGroupCommitShares(t *testing.T) {
	d := openDBAt(t, tempFile(t))
	release := holdWriter(t, d)
	before := dataVersion(t, d)
	const n = 5
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := d.Update(context.Background(), func(tx engine.Tx) error { return tx.SaveQueue(engine.QueueRow{Name: "q"}) }); err != nil {
				t.Error(err)
			}
		})
	}
	waiting(d, n)
	release()
	wg.Wait()
	if commits := dataVersion(t, d) - before; commits > 2 {
		t.Errorf("%d updates in %d commits", n, commits)
	}
}

// dataVersion counts commits as another connection sees them, looking at each turn.
func dataVersion(t *testing.T, d *db) (v int64) {
	t.Helper()
	v, err := d.watcher.version()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A caller that gives up before its update began gets its context's error, and
// the update never runs. One that gives up later gets the commit's answer.
func TestUpdateGivenUp(t *testing.T) {
	d := openDBAt(t, tempFile(t))
	release := holdWriter(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		answer <- d.Update(ctx, func(engine.Tx) error {
			t.Error("an update that was given up ran")
			return nil
		})
	}()
	waiting(d, 1)
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	release()

	for range 20 {
		if err := d.Update(ctx, func(engine.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("given up before it was asked for: %v", err)
		}
	}

	ctx, cancel = context.WithCancel(t.Context())
	err := d.Update(ctx, func(tx engine.Tx) error {
		cancel()
		return tx.SaveQueue(engine.QueueRow{Name: "begun"})
	})
	if err != nil {
		t.Errorf("given up while it ran: %v", err)
	}
}

// A view sees one snapshot, whatever is committed meanwhile, and cannot write.
func TestViewIsOneSnapshot(t *testing.T) {
	d := openDBAt(t, tempFile(t))
	s := storeOn(d)
	err := d.View(t.Context(), func(tx engine.Tx) error {
		id := insert(t, s, job("q"))[0].ID
		if _, found, err := tx.Job(id); found || err != nil {
			t.Errorf("a job of after the view began is seen: %v, %v", found, err)
		}
		if err := tx.SaveQueue(engine.QueueRow{Name: "q"}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("writing in a view: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A view ends with its caller's context.
func TestViewGivenUp(t *testing.T) {
	d := openDBAt(t, tempFile(t))
	ctx, cancel := context.WithCancel(t.Context())
	err := d.View(ctx, func(tx engine.Tx) error {
		cancel()
		_, err := tx.Workers()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("view: %v", err)
	}
	if err := d.View(t.Context(), func(tx engine.Tx) error { _, err := tx.Workers(); return err }); err != nil {
		t.Errorf("the next view: %v", err)
	}
}

// A panic in a view is an error, and the next view works.
func TestViewPanics(t *testing.T) {
	d := openDBAt(t, tempFile(t))
	if err := d.View(t.Context(), func(engine.Tx) error { panic("a bug") }); err == nil || !strings.Contains(err.Error(), "a bug") {
		t.Errorf("view: %v", err)
	}
	if err := d.View(t.Context(), func(tx engine.Tx) error { _, err := tx.Workers(); return err }); err != nil {
		t.Errorf("the next view: %v", err)
	}
}

// Those who watch are told of this process's commits that made something
// startable, and of no others: workers that look in vain would wake each other
// for ever.
func TestTellsOfWhatMadeSomethingStartable(t *testing.T) {
	d := openDBAt(t, tempFile(t))
	told := 0
	d.writer.tell = func() { told++ }
	err := d.Update(t.Context(), func(tx engine.Tx) error {
		return tx.SaveWorker(engine.WorkerRow{Worker: store.Worker{ID: "w", Lease: time.Second}})
	})
	if err != nil || told != 0 {
		t.Errorf("told %d times of a worker's heartbeat, %v", told, err)
	}
	insert(t, storeOn(d), job("q"))
	if told != 1 {
		t.Errorf("told %d times of a commit", told)
	}
}

// An update that was withdrawn while somebody else held the lock is not waited
// for: the store can be closed at once.
func TestCloseAfterWithdrawal(t *testing.T) {
	path := tempFile(t)
	d := openDBAt(t, path)
	holder, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.close()
	if err := holder.exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Update(ctx, func(engine.Tx) error { return nil }) }()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a withdrawn update: %v", err)
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(busyFor / 2):
		t.Error("closing waits for a lock that nobody needs")
	}
}
