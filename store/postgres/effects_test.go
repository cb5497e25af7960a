package postgres

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// takeOver rescues the only job and starts it again.
func (r *rig) takeOver() store.Claimed {
	r.t.Helper()
	r.soon("rescued", func() bool {
		jobs, err := r.st.Rescue(r.ctx(), 10)
		r.must(err)
		return len(jobs) == 1
	})
	r.register("w")
	jobs := r.claim("w", 1)
	if len(jobs) != 1 {
		r.t.Fatalf("%d jobs, want the rescued one", len(jobs))
	}
	return jobs[0]
}

func (r *rig) begin(key string, j store.Claimed) store.Effect {
	r.t.Helper()
	e, err := r.st.BeginEffect(r.ctx(), key, j.ID, j.Token, true)
	r.must(err)
	return e
}

// TestH11_EffectOfALostLease: a start whose lease is lost begins nothing. What it
// had begun is in doubt for the next one, which takes it over; then the first one
// can neither finish nor clear it.
func TestH11_EffectOfALostLease(t *testing.T) {
	r := newRig(t)
	r.insert(newJob())
	r.must(r.st.Register(r.ctx(), store.Worker{ID: "gone", Kinds: []string{"k"}, Lease: time.Millisecond}))
	first := r.claim("gone", 1)[0]
	if e := r.begin("e", first); e.State != store.EffectNew {
		t.Fatalf("%v, want new", e.State)
	}
	second := r.takeOver()
	if _, err := r.st.BeginEffect(r.ctx(), "other", first.ID, first.Token, true); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the lost start began an effect: %v", err)
	}
	if e := r.begin("e", second); e.State != store.EffectInDoubt {
		t.Errorf("%v, want in doubt", e.State)
	}
	if err := r.st.FinishEffect(r.ctx(), "e", first.ID, first.Token, nil); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the lost start finished what was taken over: %v", err)
	}
	if err := r.st.ClearEffect(r.ctx(), "e", first.ID, first.Token); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the lost start cleared what was taken over: %v", err)
	}
	r.must(r.st.FinishEffect(r.ctx(), "e", second.ID, second.Token, []byte("kept")))
	if e := r.begin("e", second); e.State != store.EffectDone || string(e.Result) != "kept" {
		t.Errorf("%v %q, want done with its result", e.State, e.Result)
	}
}

// TestH11_EffectRaced: many starts of different jobs come to one effect at the same
// time. One of them begins it.
func TestH11_EffectRaced(t *testing.T) {
	r := newRig(t)
	r.register("w")
	const many = 12
	for range many {
		r.insert(newJob())
	}
	jobs := r.claim("w", many)
	other := r.open(r.dsn)
	for round := range 5 {
		key := string(rune('a' + round))
		var begun atomic.Int32
		errs := make(chan error, many)
		for i, j := range jobs {
			st := []*Store{r.st, other}[i%2]
			go func() {
				e, err := st.BeginEffect(r.ctx(), key, j.ID, j.Token, true)
				if e.State != store.EffectRunning && err == nil {
					begun.Add(1)
				}
				errs <- err
			}()
		}
		for range many {
			r.must(<-errs)
		}
		if n := begun.Load(); n != 1 {
			t.Errorf("%d starts began the effect, want 1", n)
		}
	}
}

// TestH11_EffectInsideATransaction: a start does an effect inside a transaction of its
// own, is stopped there for longer than its lease, and another start takes the job
// over. The other one waits for the transaction, and nobody else does; the effect
// happens once, whichever way the transaction ends.
func TestH11_EffectInsideATransaction(t *testing.T) {
	eachGuest(t, func(t *testing.T, r *rig, begin func() *guest, isolation string) {
		for _, commits := range []bool{true, false} {
			r.exec(`CREATE TABLE IF NOT EXISTS penstock.users_own (n int)`)
			r.exec(`DELETE FROM penstock.users_own`)
			key := map[bool]string{true: "committed", false: "rolled back"}[commits]
			r.insert(newJob())
			r.must(r.st.Register(r.ctx(), store.Worker{ID: "gone", Kinds: []string{"k"}, Lease: time.Millisecond}))
			first := r.claim("gone", 1)[0]
			g := begin()
			do := func(g *guest, j store.Claimed) (store.Effect, error) {
				var e store.Effect
				err := r.st.Within(r.ctx(), g.tx, func(tx engine.Tx) (err error) {
					e, err = engine.BeginEffect(tx, key, j.ID, j.Token, true)
					return err
				})
				if err != nil || e.State == store.EffectDone || e.State == store.EffectRunning {
					return e, err
				}
				r.must(g.exec(r.text(`INSERT INTO penstock.users_own VALUES (1)`)))
				return e, r.st.Within(r.ctx(), g.tx, func(tx engine.Tx) error {
					return engine.FinishEffect(tx, key, j.ID, j.Token, []byte("kept"))
				})
			}
			_, err := do(g, first)
			r.must(err)
			second := r.takeOver() // and here nobody waits for the transaction
			done := make(chan error, 1)
			go func() {
				g := begin()
				e, err := do(g, second)
				if sqlState(err) == "40001" { // as its program would
					r.must(g.rollback())
					g = begin()
					e, err = do(g, second)
				}
				if err == nil && (e.State == store.EffectDone) != commits {
					err = errors.New("the second start found the wrong state")
				}
				done <- errors.Join(err, g.commit())
			}()
			r.waitsOn(g.pid)
			r.insert(newJob())
			r.finish("w", r.claim("w", 10))
			if commits {
				r.must(g.commit())
			} else {
				r.must(g.rollback())
			}
			r.must(<-done)
			if n := value[int](r, `SELECT count(*) FROM penstock.users_own`); n != 1 {
				t.Errorf("the effect happened %d times", n)
			}
			r.finish("w", []store.Claimed{second})
		}
	})
}
