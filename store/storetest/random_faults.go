package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/penstockhq/penstock/store"
)

// testRandomFaults plays a worker against a store that fails before and after
// commits, and repeats what it must: nothing is lost, nothing ends twice.
func testRandomFaults(e *env) {
	s := seed(e.T)
	rnd := rand.New(rand.NewPCG(s, 99))
	f := Faulty(e.Store, FailSometimes(s, 0.3))
	e.limit("api", "4 in flight")
	again := func(fn func() error) {
		e.Helper()
		for range 1000 {
			if err := fn(); !errors.Is(err, ErrFault) {
				e.must(err)
				return
			}
		}
		e.Fatal("a thousand faults in a row")
	}
	const jobs = 120
	for i := range jobs {
		n := job(ref("r", fmt.Sprint(i), "h", int64(i)), group(fmt.Sprint(i%3)), draw("api", 1))
		again(func() error { return second(f.Insert(e.ctx, []store.NewJob{n})) })
	}
	w := "w"
	again(func() error { return f.Register(e.ctx, store.Worker{ID: w, Lease: lease}) })
	ends := map[int64]int{}
	for range 2000 {
		r := e.request(w, places(1+rnd.IntN(4)))
		var res store.ClaimResult
		again(func() (err error) {
			res, err = f.Claim(e.ctx, r)
			r.Repeat = true
			return err
		})
		if len(res.Jobs) == 0 {
			break
		}
		for _, j := range res.Jobs {
			lost := false
			again(func() error {
				got, err := f.Finish(e.ctx, []store.Finish{ending(j, store.OutcomeDone)})
				if err != nil {
					lost = true
					return err
				}
				if got[0].Err != nil && !lost {
					return fmt.Errorf("job %d: %w", j.ID, got[0].Err)
				}
				return nil
			})
			ends[j.ID]++
		}
	}
	for id, n := range ends {
		if n != 1 {
			e.Errorf("job %d ended %d times", id, n)
		}
	}
	if n, err := e.CountRun(e.ctx, "r"); err != nil || n[store.Done] != jobs || len(ends) != jobs {
		e.Errorf("%d of %d jobs are done, %d ends were seen (%v)", n[store.Done], jobs, len(ends), err)
	}
}
