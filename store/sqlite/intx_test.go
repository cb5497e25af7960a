package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

func userDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	u, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := u.Exec(`CREATE TABLE IF NOT EXISTS invoice (id INTEGER PRIMARY KEY, job INTEGER)`); err != nil {
		t.Fatal(err)
	}
	return u
}

func begin(t *testing.T, u *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := u.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// Jobs inserted in a caller's transaction are committed or rolled back with its rows.
func TestInTx(t *testing.T) {
	path := tempFile(t)
	s := open(t, path)
	u := userDB(t, path)
	jobs := make([]store.NewJob, 50)
	for i := range jobs {
		jobs[i] = job(fmt.Sprintf("q%d", i%3))
		jobs[i].Payload = fmt.Appendf(nil, "payload %d\x00\xff", i)
		if i%5 == 0 {
			jobs[i].Unique = fmt.Sprint("u", i)
			jobs[i].Options.MaxAttempts = 3
		}
	}

	tx := begin(t, u)
	if _, err := engine.Insert(InTx(t.Context(), tx, nil), jobs); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Jobs(t.Context(), store.Filter{}); err != nil || len(got) != 0 {
		t.Fatalf("after a rollback there are %d jobs, %v", len(got), err)
	}

	watch := s.Watch(t.Context())
	<-watch
	tx = begin(t, u)
	out, err := engine.Insert(InTx(t.Context(), tx, nil), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out {
		if _, err := tx.Exec(`INSERT INTO invoice (job) VALUES (?)`, o.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	<-watch // the store's workers are told
	for i, o := range out {
		j, err := s.Job(t.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		if string(j.Payload) != string(jobs[i].Payload) || j.Queue != jobs[i].Queue || j.Unique != jobs[i].Unique || j.Options != jobs[i].Options {
			t.Errorf("job %d is %+v, inserted %+v", o.ID, j, jobs[i])
		}
	}
	if n := drainOf(t, s); n != len(jobs) {
		t.Errorf("%d of %d jobs were claimed", n, len(jobs))
	}
}

func drainOf(t *testing.T, s store.Store) int {
	t.Helper()
	if err := s.Register(t.Context(), store.Worker{ID: "w", Lease: 60_000_000_000}); err != nil {
		t.Fatal(err)
	}
	return drain(t, s, "w", 20)
}

// The store's own updates and a caller's transactions wait for each other.
func TestInTxBesideUpdates(t *testing.T) {
	path := tempFile(t)
	s := open(t, path)
	u := userDB(t, path)
	const each = 40
	var wg sync.WaitGroup
	wg.Go(func() {
		for range each {
			if _, err := s.Insert(context.Background(), []store.NewJob{job("store")}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		for range each {
			tx, err := u.Begin()
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := engine.Insert(InTx(context.Background(), tx, nil), []store.NewJob{job("user")}); err != nil {
				t.Error(err)
			}
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	jobs, err := s.Jobs(t.Context(), store.Filter{N: 1000})
	if err != nil || len(jobs) != 2*each {
		t.Errorf("%d jobs, %v, expected %d", len(jobs), err, 2*each)
	}
	checkFile(t, path)
}

// A unique key is one for the store and for callers' transactions.
func TestInTxUnique(t *testing.T) {
	path := tempFile(t)
	s := open(t, path)
	u := userDB(t, path)
	j := job("q")
	j.Unique = "one"
	id := insert(t, s, j)[0].ID
	tx := begin(t, u)
	defer tx.Rollback()
	out, err := engine.Insert(InTx(t.Context(), tx, nil), []store.NewJob{j})
	if err != nil || out[0].Verdict != store.Duplicate || out[0].ID != id {
		t.Errorf("inserted %+v, %v", out, err)
	}
}

// A transaction that only began to read cannot write behind a commit: the error
// says that somebody was faster.
func TestInTxDeferredBehindCommit(t *testing.T) {
	path := tempFile(t)
	s := open(t, path)
	u := userDB(t, path)
	deferred, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer deferred.Close()
	tx := begin(t, deferred)
	defer tx.Rollback()
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM invoice`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	insert(t, s, job("q"))
	if _, err := engine.Insert(InTx(t.Context(), tx, nil), []store.NewJob{job("q")}); !errors.Is(err, store.ErrBusy) {
		t.Errorf("insert: %v", err)
	}
	_ = u
}

// The first thing done through InTx takes the write lock, even if it only reads:
// else somebody could commit before the first write, and that would be refused.
func TestInTxTakesTheLockFirst(t *testing.T) {
	path := tempFile(t)
	open(t, path)
	deferred, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer deferred.Close()
	tx := begin(t, deferred)
	defer tx.Rollback()
	if _, _, err := InTx(t.Context(), tx, nil).Job(1); err != nil {
		t.Fatal(err)
	}
	other, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if err := other.exec(`BEGIN IMMEDIATE`); !errors.Is(err, store.ErrBusy) {
		t.Errorf("another writer begins: %v", err)
	}
}

// A caller's transaction on another file, or in memory, is refused: its jobs would
// be another store's, or nobody's.
func TestWithinAnotherFile(t *testing.T) {
	s, other := open(t, tempFile(t)), open(t, tempFile(t))
	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	for name, u := range map[string]*sql.DB{"another store": userDB(t, other.Path()), "a file of the user's": userDB(t, tempFile(t)), "memory": memory} {
		tx := begin(t, u)
		err := s.Within(t.Context(), tx, func(engine.Tx) error { t.Errorf("%s: it ran", name); return nil })
		if !errors.Is(err, store.ErrOtherDatabase) {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
	var none *sql.Tx
	for _, tx := range []any{nil, none} {
		if err := s.Within(t.Context(), tx, func(engine.Tx) error { return nil }); err == nil {
			t.Errorf("%T: no error", tx)
		}
	}
}

// Looking whose file it is does not make a transaction begin to read: a commit of
// others after that would have it refused.
func TestWithinReadsNothingBefore(t *testing.T) {
	s := open(t, tempFile(t))
	u, err := sql.Open("sqlite", "file:"+s.Path()+"?_busy_timeout=10000") // deferred
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	tx := begin(t, u)
	defer tx.Rollback()
	if err := s.atHome(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Insert(t.Context(), []store.NewJob{job("q")}); err != nil {
		t.Fatal(err)
	}
	err = s.Within(t.Context(), tx, func(tx engine.Tx) error { _, err := engine.Insert(tx, []store.NewJob{job("q")}); return err })
	if err != nil {
		t.Error(err)
	}
}
