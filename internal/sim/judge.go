package sim

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/storetest"
)

// judge looks at what is left when all have gone home.
func (w *world) judge(ctx context.Context) {
	if w.done() {
		return
	}
	jobs := map[int64]store.Job{}
	for after := int64(0); ; {
		page, err := w.st.Jobs(ctx, store.Filter{AfterID: after, N: 500})
		if err != nil {
			w.log.fail(Broken, "list: %v", err)
			return
		}
		for _, j := range page {
			jobs[j.ID], after = j, j.ID
			w.judgeJob(j)
		}
		if len(page) < 500 {
			break
		}
	}
	for _, o := range w.orders.all {
		if _, there := jobs[o.got.ID]; o.ok && !there {
			w.log.fail(Lost, "order %d became job %d, which is not there", o.n, o.got.ID)
		}
		if o.ok && o.job.Ref != "" && jobs[o.got.ID].Ref != o.job.Ref {
			w.log.fail(Lost, "order %d has ref %q, its job %d has %q", o.n, o.job.Ref, o.got.ID, jobs[o.got.ID].Ref)
		}
	}
	w.judgeWindows()
	w.audit()
}

func (w *world) judgeJob(j store.Job) {
	w.log.count("end: " + j.State.String() + " " + string(j.Reason))
	key := fmt.Sprintf("%s/%d", j.Kind, j.ID)
	happened := w.apis.effects[key]
	if most := 1 + w.orders.replays[j.ID]; (j.Kind == sms || j.Kind == wire) && happened > most {
		w.log.fail(Effect, "%s, to happen at most once, happened %d times (%d replays)", key, happened, most-1)
	}
	if j.State == store.Done && j.Kind != plain && happened == 0 {
		w.log.fail(Effect, "job %d is done, its effect %s never happened", j.ID, key)
	}
	if n := w.apis.starts[j.ID]; n > j.Starts {
		w.log.fail(Lost, "job %d was started %d times, the store knows of %d", j.ID, n, j.Starts)
	}
}

// judgeWindows looks for windows that hold more than their limit allows.
func (w *world) judgeWindows() {
	names := make([]string, 0, len(w.apis.calls))
	for name := range w.apis.calls {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		calls := w.apis.calls[name]
		changes := w.db.changes[pattern(name)]
		for i, c := range changes {
			end := int64(1 << 62)
			if i+1 < len(changes) {
				end = changes[i+1].at
			}
			for _, r := range c.spec.Rates {
				if n, width := r.Limit(); width > 0 {
					w.judgeRate(name, calls, c.at+changeSlack, end, n, (width - 2*slack).Microseconds())
				}
			}
		}
	}
}

// changeSlack is how long after a change of the spec, in µs, starts are made
// that were granted before.
const changeSlack = 100_000

// judgeRate looks at the calls from an instant up to another, in stretches
// without a jump of the store's clock.
func (w *world) judgeRate(name string, calls []arrival, from, to, n, width int64) {
	sum, first := int64(0), 0
	for i, c := range calls {
		if c.at < from || c.at >= to {
			sum, first = 0, i+1
			continue
		}
		sum += c.cost
		for calls[first].at <= c.at-width || w.clock.jumpedBetween(calls[first].at, c.at) {
			sum -= calls[first].cost
			first++
		}
		if sum > n {
			w.log.fail(Window, "limit %s: %d permits started within %dµs up to %v, %d are allowed in %dµs",
				name, sum, c.at-calls[first].at, c.at, n, width)
			return
		}
	}
}

// audit has storetest look whether all fits together.
func (w *world) audit() {
	r := &recorder{w: w}
	func() {
		defer func() {
			if v := recover(); v != nil && v != errAuditOver {
				panic(v)
			}
		}()
		storetest.Audit(r, w.st)
	}()
	limits, err := w.st.ListLimits(context.Background(), "", 100)
	if err != nil {
		w.log.fail(Broken, "limits: %v", err)
	}
	for _, l := range limits {
		if n := l.State.InFlight(); n != 0 {
			w.log.fail(Permits, "limit %s: %d calls in flight when all have gone", l.Name, n)
		}
	}
}

var errAuditOver = fmt.Errorf("sim: the audit cannot go on")

// recorder is a testing.TB that turns failures of the audit into violations.
type recorder struct {
	testing.TB
	w *world
}

func (r *recorder) Helper()                           {}
func (r *recorder) Errorf(format string, args ...any) { r.w.log.fail(Audit, format, args...) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.w.log.fail(Audit, format, args...)
	panic(errAuditOver)
}
