package penstock_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/retry"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// charge is a handler that runs one guarded effect and then does as told.
func charge(seen *calls, effect func(ctx context.Context, n int) (int, error), after func(n int) error, opts ...penstock.OnceOption) func(context.Context, *penstock.Job[string]) error {
	return func(ctx context.Context, j *penstock.Job[string]) error {
		got, err := penstock.Once(ctx, "charge/"+j.Args, func(ctx context.Context) (int, error) {
			return effect(ctx, seen.note("effect"))
		}, opts...)
		if err != nil {
			return err
		}
		if err := j.SetResult(got); err != nil {
			return err
		}
		return after(seen.note("handler"))
	}
}

func TestOnceKeepsTheResult(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var seen calls
		handle(t, c, "charge", penstock.Kind{}, charge(&seen,
			func(context.Context, int) (int, error) { return 42, nil },
			func(n int) error {
				if n < 3 {
					return errors.New("the step behind the effect fails")
				}
				return nil
			}))
		id := enqueue(t, c, "charge", "order-17")
		drain(t, c, penstock.WorkOptions{})
		if j := wantState(t, c, id, store.Done, ""); string(j.Result) != "42" || j.Starts != 3 {
			t.Errorf("result %s after %d starts", j.Result, j.Starts)
		}
		if n := seen.count("effect"); n != 1 {
			t.Errorf("the effect ran %d times", n)
		}
	})
}

func TestOnceAfterFailure(t *testing.T) {
	boom := errors.New("connection reset")
	for _, tt := range []struct {
		name    string
		first   error
		opts    []penstock.OnceOption
		effects int
		state   store.State
		reason  store.Reason
	}{
		{"in doubt runs again", boom, nil, 2, store.Done, ""},
		{"at most once does not", boom, []penstock.OnceOption{penstock.AtMostOnce()}, 1, store.Dead, store.InDoubt},
		{"not sent clears", penstock.NotSent(boom), []penstock.OnceOption{penstock.AtMostOnce()}, 2, store.Done, ""},
		{"a refusal clears", penstock.RateLimited(time.Second), []penstock.OnceOption{penstock.AtMostOnce()}, 2, store.Done, ""},
		{"permanent says it never will", penstock.Permanent(boom), []penstock.OnceOption{penstock.AtMostOnce()}, 1, store.Dead, store.Rejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				c := newClient(t, penstock.Config{})
				var seen calls
				handle(t, c, "charge", penstock.Kind{}, charge(&seen,
					func(_ context.Context, n int) (int, error) {
						if n == 1 {
							return 0, tt.first
						}
						return n, nil
					}, func(int) error { return nil }, tt.opts...))
				id := enqueue(t, c, "charge", "order-17")
				drain(t, c, penstock.WorkOptions{})
				wantState(t, c, id, tt.state, tt.reason)
				if n := seen.count("effect"); n != tt.effects {
					t.Errorf("the effect ran %d times, want %d", n, tt.effects)
				}
			})
		})
	}
}

// A panic within an effect that may happen at most once leaves it in doubt.
func TestOncePanic(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var seen calls
		handle(t, c, "charge", penstock.Kind{}, charge(&seen, func(context.Context, int) (int, error) { panic("half done") },
			func(int) error { return nil }, penstock.AtMostOnce()))
		id := enqueue(t, c, "charge", "order-17")
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, store.Dead, store.InDoubt)
		if n := seen.count("effect"); n != 1 {
			t.Errorf("the effect ran %d times", n)
		}
	})
}

// The process dies within the effect: by default it runs again, at most once it
// is a dead letter.
func TestOnceAfterCrash(t *testing.T) {
	for name, opts := range map[string][]penstock.OnceOption{"again": nil, "at most once": {penstock.AtMostOnce()}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				st := memory.New(memory.Options{})
				f := &faulty{Store: st}
				a, b := clientOver(t, f, penstock.Config{}), clientOver(t, st, penstock.Config{})
				var seen calls
				hang := make(chan struct{})
				handle(t, a, "charge", penstock.Kind{}, charge(&seen, func(context.Context, int) (int, error) { <-hang; return 1, nil },
					func(int) error { return nil }, opts...))
				handle(t, b, "charge", penstock.Kind{}, charge(&seen, func(context.Context, int) (int, error) { return 2, nil },
					func(int) error { return nil }, opts...))
				id := enqueue(t, a, "charge", "order-17")
				ctx, kill := context.WithCancel(context.Background())
				ended := make(chan struct{})
				go func() { defer close(ended); _ = a.Work(ctx, penstock.WorkOptions{Grace: time.Second}) }()
				pass(time.Second)
				f.set(func(f *faulty) { f.cut = true })
				drain(t, b, penstock.WorkOptions{})
				if opts == nil {
					if j := wantState(t, b, id, store.Done, ""); string(j.Result) != "2" {
						t.Errorf("result %s", j.Result)
					}
				} else {
					wantState(t, b, id, store.Dead, store.InDoubt)
				}
				kill()
				close(hang)
				<-ended
			})
		})
	}
}

// A second live start waits for the first one's effect.
func TestOnceWaits(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var seen calls
		handle(t, c, "charge", penstock.Kind{}, charge(&seen, func(context.Context, int) (int, error) {
			<-time.After(10 * time.Second)
			return 7, nil
		}, func(int) error { return nil }))
		one, two := enqueue(t, c, "charge", "order-17"), enqueue(t, c, "charge", "order-17")
		drain(t, c, penstock.WorkOptions{})
		for _, id := range []int64{one, two} {
			if j := wantState(t, c, id, store.Done, ""); string(j.Result) != "7" {
				t.Errorf("result %s", j.Result)
			}
		}
		if n := seen.count("effect"); n != 1 {
			t.Errorf("the effect ran %d times", n)
		}
	})
}

// A whole job that may run at most once.
func TestAtMostOnceJob(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		var seen calls
		handle(t, c, "call", penstock.Kind{Retry: retry.Policy{MaxAttempts: 9}}, func(_ context.Context, j *penstock.Job[string]) error {
			n := seen.note(j.Args)
			switch {
			case j.Args == "ambiguous":
				return errors.New("status 500")
			case j.Args == "refused" && n == 1:
				return penstock.RateLimited(time.Second)
			case j.Args == "unsent" && n == 1:
				return penstock.NotSent(errors.New("dial"))
			}
			return nil
		})
		ids := map[string]int64{}
		for _, what := range []string{"ambiguous", "refused", "unsent", "fine"} {
			ids[what] = enqueue(t, c, "call", what, penstock.AtMostOnce())
		}
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, ids["ambiguous"], store.Dead, store.InDoubt)
		for what, n := range map[string]int{"ambiguous": 1, "refused": 2, "unsent": 2, "fine": 1} {
			if got := seen.count(what); got != n {
				t.Errorf("%s was called %d times, want %d", what, got, n)
			}
			if what != "ambiguous" {
				wantState(t, c, ids[what], store.Done, "")
			}
		}
	})
}

// unanswered is a store that does what it is told about effects, and whose first
// answer of each kind is lost.
type unanswered struct {
	store.Store
	mu   sync.Mutex
	lost map[string]bool
}

func (u *unanswered) lose(what string, err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil || u.lost[what] {
		return err
	}
	u.lost[what] = true
	return errStore
}

func (u *unanswered) BeginEffect(ctx context.Context, key string, job, token int64, takeOver bool) (store.Effect, error) {
	e, err := u.Store.BeginEffect(ctx, key, job, token, takeOver)
	return e, u.lose("begin", err)
}

func (u *unanswered) FinishEffect(ctx context.Context, key string, job, token int64, result []byte) error {
	return u.lose("finish", u.Store.FinishEffect(ctx, key, job, token, result))
}

// TestOnceAnswersLost: the record that an effect begins, or ended, was written and
// the answer lost. The job was put to a person as in doubt, or failed, though its
// process knew all there was to know.
func TestOnceAnswersLost(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := clientOver(t, &unanswered{Store: memory.New(memory.Options{}), lost: map[string]bool{}}, penstock.Config{})
		var seen calls
		handle(t, c, "charge", penstock.Kind{Retry: retry.Policy{MaxAttempts: 2}}, func(ctx context.Context, j *penstock.Job[int]) error {
			seen.note("start")
			_, err := penstock.Once(ctx, "charge/1", func(context.Context) (int, error) {
				return seen.note("effect"), nil
			}, penstock.AtMostOnce())
			return err
		})
		id := enqueue(t, c, "charge", 1)
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, store.Done, "")
		if effects, starts := seen.count("effect"), seen.count("start"); effects != 1 || starts != 2 {
			t.Errorf("%d effects in %d starts, expected 1 in 2: only the beginning that went unanswered is a failure", effects, starts)
		}
	})
}

// TestOnceAgainWithoutAnswer: within one start, an effect that may have happened
// stays in doubt, whatever becomes of another try to begin it.
func TestOnceAgainWithoutAnswer(t *testing.T) {
	virtual(t, func(t *testing.T) {
		u := &unanswered{Store: memory.New(memory.Options{}), lost: map[string]bool{"begin": true}}
		c := clientOver(t, u, penstock.Config{})
		var seen calls
		handle(t, c, "charge", penstock.Kind{Retry: retry.Policy{MaxAttempts: 5}}, func(ctx context.Context, j *penstock.Job[int]) error {
			try := func() error {
				_, err := penstock.Once(ctx, "charge/1", func(context.Context) (int, error) {
					seen.note("effect")
					return 0, errors.New("status 500")
				}, penstock.AtMostOnce())
				return err
			}
			if err := try(); seen.note("start") > 1 {
				return err
			}
			u.mu.Lock()
			u.lost["begin"] = false
			u.mu.Unlock()
			return try()
		})
		id := enqueue(t, c, "charge", 1)
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, store.Dead, store.InDoubt)
		if n := seen.count("effect"); n != 1 {
			t.Errorf("the effect ran %d times", n)
		}
	})
}

func TestOnceNeedsAJob(t *testing.T) {
	_, err := penstock.Once(t.Context(), "k", func(context.Context) (int, error) { return 1, nil })
	if !errors.Is(err, penstock.ErrNoJob) {
		t.Errorf("error %v", err)
	}
}

// Jobs and effects inside the caller's own transaction.
func TestTransactions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_txlock=immediate&_pragma=journal_mode(wal)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE orders (id INTEGER PRIMARY KEY, charged INTEGER NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	c, err := penstock.Open(t.Context(), path, penstock.Config{Logger: quiet(), Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := 0
	handle(t, c, "charge", penstock.Kind{Retry: retry.Policy{Base: time.Millisecond}}, func(ctx context.Context, j *penstock.Job[int]) error {
		n++
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := penstock.OnceTx(ctx, tx, "charge", func(ctx context.Context) (int, error) {
			_, err := tx.ExecContext(ctx, `UPDATE orders SET charged = charged + 1 WHERE id = ?`, j.Args)
			return 0, err
		}); err != nil {
			return err
		}
		if n == 1 {
			return errors.New("before the commit") // rolled back: not charged
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		if n == 2 {
			return errors.New("after the commit") // charged: not again
		}
		return nil
	})
	var ids []int64
	for i, commit := range []bool{true, false} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(`INSERT INTO orders VALUES (?, 0)`, i); err != nil {
			t.Fatal(err)
		}
		e, err := c.EnqueueTx(t.Context(), tx, "charge", i)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
		if commit {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	drain(t, c, penstock.WorkOptions{})
	wantState(t, c, ids[0], store.Done, "")
	var charged int
	if err := db.QueryRow(`SELECT charged FROM orders WHERE id = 0`).Scan(&charged); err != nil || charged != 1 || n != 3 {
		t.Errorf("charged %d times in %d starts, error %v", charged, n, err)
	}
	if jobs, err := c.Jobs(t.Context(), penstock.Filter{}); err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs, the other was rolled back; error %v", len(jobs), err)
	}
}
