package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/progress"
	"github.com/penstockhq/penstock/store"
)

// retryDead puts the dead calls of the run back in line, if that was asked for.
// Those in doubt stay: whether to risk a second effect is for a person to say of
// each one.
func (r *runner) retryDead() error {
	if !r.plan.retryDead {
		return nil
	}
	ctx := r.signal.stop
	replayed, doubt := int64(0), int64(0)
	for after := int64(0); ; {
		const page = 500
		jobs, err := r.client.Jobs(ctx, penstock.Filter{Run: r.plan.run, States: []penstock.State{penstock.Dead}, AfterID: after, N: page})
		if err != nil {
			return err
		}
		var ids []int64
		for _, j := range jobs {
			after = j.ID
			if j.Reason == store.InDoubt {
				doubt++
				continue
			}
			ids = append(ids, j.ID)
		}
		if err := r.client.Replay(ctx, ids, penstock.ReplayOptions{}); err != nil {
			return err
		}
		replayed += int64(len(ids))
		if len(jobs) < page {
			break
		}
	}
	if replayed > 0 {
		r.screen.say("%s back in line", count(replayed, "dead call"))
	}
	if doubt > 0 {
		r.screen.say("%s left as they are: they may have happened", count(doubt, "call in doubt"))
	}
	if r.out != nil && replayed > 0 {
		if err := r.out.Reconcile(ctx); err != nil {
			return r.outFailure(err)
		}
	}
	return nil
}

// work makes the calls, until all have ended or a signal stops it.
func (r *runner) work(ctx context.Context) error {
	queues, err := r.queues(ctx)
	if err != nil {
		return err
	}
	options, stopMetrics, err := serveMetrics(r.client, r.plan.metrics, penstock.WorkOptions{
		Run: r.plan.run, Drain: true, Queues: queues, Concurrency: r.plan.concurrency, Grace: r.plan.grace,
		OnStart: r.tally.onStart, OnEnd: r.onEnd,
	}, r.screen)
	if err != nil {
		return err
	}
	defer stopMetrics()
	stop, cancel := context.WithCancelCause(r.signal.stop)
	defer cancel(nil)
	stopNow := make(chan struct{})
	var once sync.Once
	halt := func() { once.Do(func() { close(stopNow) }) }
	var failed error
	var wg sync.WaitGroup
	over, end := context.WithCancel(ctx)

	w := &watcher{r: r}
	w.count(ctx)
	wg.Go(func() { w.watch(over) })
	wg.Go(func() {
		select {
		case <-r.health.gone:
			// Calls under way may finish; what becomes of them may reach the store yet.
			failed = r.health.lost()
			cancel(failed)
		case <-over.Done():
		}
	})
	wg.Go(func() {
		select {
		case <-r.signal.now:
			halt()
		case <-over.Done():
		}
	})
	wg.Go(func() {
		select {
		case <-r.signal.stop.Done():
			r.screen.say("ending: running calls may finish, for up to %v; a second signal stops at once", r.plan.grace)
		case <-over.Done():
		}
	})
	wg.Go(func() { r.writeResults(over) })

	options.StopNow = stopNow
	err = r.client.Work(stop, options)
	end()
	wg.Wait()
	r.screen.clear()
	if failed != nil {
		return failed
	}
	return err
}

// onEnd counts an end, and tells of the first dead calls.
func (r *runner) onEnd(e *penstock.End) {
	r.tally.onEnd(e)
	if !e.Recorded || e.State != penstock.Dead {
		return
	}
	tell, last := r.tally.tellsOfDead()
	if !tell {
		return
	}
	r.screen.say("%s", progress.Cut(fmt.Sprintf("%s is dead (%s): %s", e.Job.Ref, e.Reason, e.Error), 140))
	if last {
		r.screen.say("further dead calls are counted only")
	}
}

// queues is the order to serve: as asked for, then all others that there are, so
// that no call is left behind because its queue was not named.
func (r *runner) queues(ctx context.Context) ([]penstock.WorkQueue, error) {
	if len(r.plan.queues) == 0 {
		return nil, nil
	}
	names := slices.Clone(r.plan.queues)
	there, err := r.client.Store().Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range there {
		if !slices.Contains(names, q.Name) {
			names = append(names, q.Name)
		}
	}
	queues := make([]penstock.WorkQueue, len(names))
	for i, n := range names {
		queues[i].Name = n
	}
	return queues, nil
}

// writeResults writes results as calls end. If it can not, the run goes on: the
// store has them, and a last try is made at the end.
func (r *runner) writeResults(ctx context.Context) {
	if r.out == nil {
		return
	}
	for {
		select {
		case <-r.tally.signal:
		case <-ctx.Done():
			return
		}
		if err := r.out.Add(ctx, r.tally.take()); err != nil && ctx.Err() == nil {
			r.screen.say("--out: %v; the results are kept in the database, and are written at the end if that is possible then", plain(err))
			return
		}
	}
}
