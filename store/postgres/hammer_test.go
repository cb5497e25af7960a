package postgres

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/store"
)

// TestH2_WakesHammered: callers' transactions that stay open, commit and roll back,
// under two isolation levels, beside inserts, claims, finishes and sweeps of two
// processes. Nothing is stranded, nobody is refused, and nobody ever waits for a lock
// that a caller's transaction holds, nor a caller's for one of the store's.
func TestH2_WakesHammered(t *testing.T) {
	r := newRig(t)
	r.declare("api", "100000/s, 3 in flight")
	r.declare("key/*", "100000/s")
	job := func() store.NewJob {
		j := newJob([][]string{nil, {"api"}, {fmt.Sprint("key/", rand.IntN(5))}, {"api", "key/1"}}[rand.IntN(4)]...)
		j.Group = []string{"", "a", "b"}[rand.IntN(3)]
		if rand.IntN(5) == 0 {
			now, err := r.st.Now(r.ctx())
			r.must(err)
			j.At = now + rand.Int64N(300_000)
		}
		return j
	}
	length := 4 * time.Second
	if testing.Short() {
		length = time.Second
	}
	over := make(chan struct{})
	time.AfterFunc(length, func() { close(over) })
	var wg sync.WaitGroup
	var committed, ended atomic.Int64
	run := func(fn func() error) {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := fn(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 4 {
		isolation := isolations[i%2]
		run(func() error {
			tx, err := r.pool.BeginTx(r.ctx(), pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(isolation)})
			if err != nil {
				return err
			}
			n := int64(1 + rand.IntN(4))
			for range n {
				if _, err := r.within(tx, job()); err != nil {
					return err
				}
				<-time.After(rand.N(5 * time.Millisecond)) // it does other things
			}
			if rand.IntN(4) == 0 {
				return tx.Rollback(r.ctx())
			}
			committed.Add(n)
			return tx.Commit(r.ctx())
		})
	}
	for p := range 2 {
		st := r.open(r.dsn)
		worker := fmt.Sprint("w", p)
		r.register(worker)
		run(func() error {
			committed.Add(1)
			_, err := st.Insert(r.ctx(), []store.NewJob{job()})
			return err
		})
		run(func() error {
			res, err := st.Claim(r.ctx(), r.request(worker, 20))
			if err != nil || len(res.Jobs) == 0 {
				return err
			}
			fs := finishesOf(worker, res.Jobs)
			for i := range fs {
				fs[i].Scarce = rand.IntN(2) == 0
				if rand.IntN(10) == 0 {
					fs[i].Outcome = store.OutcomeRetry
					fs[i].At = res.Now + rand.Int64N(100_000)
				}
			}
			out, err := st.Finish(r.ctx(), fs)
			for _, f := range out {
				if f.Err != nil {
					return f.Err
				}
				if f.State == store.Done {
					ended.Add(1)
				}
			}
			return err
		})
		run(func() error {
			finds, err := st.Sweep(r.ctx())
			if finds > 0 {
				err = fmt.Errorf("the sweep found %d lanes that should have been awake", finds)
			}
			<-time.After(20 * time.Millisecond)
			return err
		})
	}
	looks := 0
	run(func() error {
		rows, err := r.pool.Query(r.ctx(), `SELECT a.application_name || ': ' || left(a.query, 200) || ' waits for ' || g.application_name || ': ' || left(g.query, 200)
			FROM pg_stat_activity a CROSS JOIN unnest(pg_blocking_pids(a.pid)) b (pid) JOIN pg_stat_activity g ON g.pid = b.pid
			WHERE (a.application_name <> 'penstock' OR g.application_name <> 'penstock') AND a.wait_event <> 'extend'`)
		if err != nil {
			return err
		}
		waits, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, w := range waits {
			t.Error(w)
		}
		looks++
		<-time.After(2 * time.Millisecond)
		return err
	})
	wg.Wait()
	r.register("last")
	ended.Add(int64(r.drain("last")))
	if committed.Load() != ended.Load() {
		t.Errorf("%d jobs were committed, and %d ended", committed.Load(), ended.Load())
	}
	r.nothingStranded()
	if n := value[int](r, `SELECT count(*) FROM penstock.job`) + value[int](r, `SELECT count(*) FROM penstock.wake`); n > 0 {
		t.Errorf("%d jobs and wakes are left", n)
	}
	if l, err := r.st.Limit(r.ctx(), "api"); err != nil || l.State.InFlight() != 0 {
		t.Errorf("%d calls are in flight (%v), want 0", l.State.InFlight(), err)
	}
	t.Logf("%d jobs, %d looks at the locks", ended.Load(), looks)
}
