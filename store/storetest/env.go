package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// lease is the lease of workers that a test does not care about.
const lease = 15 * time.Second

// env is a store under test with the helpers that most tests want. It ends with
// an audit and, unless noDrain is set, with a drain: whatever waits must be
// claimable in the end.
type env struct {
	*testing.T
	store.Store
	ctx     context.Context
	factory Factory
	handle  Handle
	clock   *Clock
	hooks   *Hooks
	ledger  *ledger
	noDrain bool
	noAudit bool
	tokens  int64
}

func newEnv(t *testing.T, f Factory) *env {
	e := &env{T: t, ctx: context.Background(), factory: f, clock: NewClock(), hooks: new(Hooks)}
	e.handle = f.Open(t, Options{Now: e.clock.Now, Wrap: func(db engine.DB) engine.DB { return Hook(db, e.hooks) }})
	e.ledger = newLedger(e.handle.Store)
	e.Store = e.ledger
	t.Cleanup(func() {
		*e.hooks = Hooks{}
		if !t.Failed() && !e.noAudit {
			Audit(t, e.Store)
			e.ledger.audit(t)
			if !e.noDrain {
				Drain(t, e.Store, e.clock)
				Audit(t, e.Store)
				e.ledger.audit(t)
			}
		}
		if err := e.handle.Store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// own goes on with the store as users have it, with ways to write that go past the hooks.
func (e *env) own() {
	if e.handle.Own != nil {
		e.ledger = newLedger(e.handle.Own)
		e.Store = e.ledger
	}
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// job is a due job in the queue "q" of the kind "k", changed by the options.
func job(opts ...func(*store.NewJob)) store.NewJob {
	n := store.NewJob{LaneKey: store.LaneKey{Queue: "q", Kind: "k", Priority: 5}, Payload: []byte("{}")}
	for _, o := range opts {
		o(&n)
	}
	return n
}

type opt = func(*store.NewJob)

func queue(name string) opt { return func(n *store.NewJob) { n.Queue = name } }
func kind(name string) opt  { return func(n *store.NewJob) { n.Kind = name } }
func prio(p int) opt        { return func(n *store.NewJob) { n.Priority = p } }
func group(g string) opt    { return func(n *store.NewJob) { n.Group = g } }
func run(r string) opt      { return func(n *store.NewJob) { n.Run = r } }
func staged(l string) opt   { return func(n *store.NewJob) { n.Load = l } }
func at(t int64) opt        { return func(n *store.NewJob) { n.At = t } }
func expires(t int64) opt   { return func(n *store.NewJob) { n.ExpiresAt = t } }
func body(b string) opt     { return func(n *store.NewJob) { n.Payload = []byte(b) } }
func unique(k string) opt   { return func(n *store.NewJob) { n.Unique = k } }
func replace(n *store.NewJob) {
	n.Replace = true
}
func draw(name string, cost int64) opt {
	return func(n *store.NewJob) { n.Draws = append(n.Draws, dispatch.Draw{Limit: name, Cost: cost}) }
}
func ref(r, id, hash string, line int64) opt {
	return func(n *store.NewJob) { n.Run, n.Ref, n.Hash, n.Line = r, id, hash, line }
}

// times returns n jobs alike.
func times(n int, opts ...opt) []store.NewJob {
	var out []store.NewJob
	for range n {
		out = append(out, job(opts...))
	}
	return out
}

// insert inserts jobs that must all be new, and returns their ids.
func (e *env) insert(jobs ...store.NewJob) []int64 {
	e.Helper()
	got, err := e.Insert(e.ctx, jobs)
	e.must(err)
	ids := make([]int64, len(got))
	for i, g := range got {
		if g.Verdict != store.Created {
			e.Fatalf("insert of job %d: verdict %d, expected it to be created", i, g.Verdict)
		}
		ids[i] = g.ID
	}
	return ids
}

// one inserts one job.
func (e *env) one(opts ...opt) int64 {
	e.Helper()
	return e.insert(job(opts...))[0]
}

func (e *env) limit(name, spec string) {
	e.Helper()
	e.must(e.DeclareLimit(e.ctx, name, parse(e.T, spec)))
}

func parse(t testing.TB, spec string) limit.Spec {
	t.Helper()
	sp, err := limit.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return sp
}

// worker registers a worker.
func (e *env) worker(id string) string {
	e.Helper()
	e.must(e.Register(e.ctx, store.Worker{ID: id, Host: "here", PID: 1, Kinds: []string{"k"}, Lease: lease}))
	return id
}

type ask = func(*store.ClaimRequest)

func places(n int) ask { return func(r *store.ClaimRequest) { r.Places = n } }
func queues(names ...string) ask {
	return func(r *store.ClaimRequest) {
		for i, n := range names {
			r.Queues = append(r.Queues, store.QueueAsk{Name: n, Place: i, Max: 1000})
		}
	}
}

// request is a claim for up to 100 jobs of every kind the suite uses.
func (e *env) request(worker string, asks ...ask) store.ClaimRequest {
	e.tokens++
	r := store.ClaimRequest{Worker: worker, Token: e.tokens, Kinds: []string{"k", "k2"}, Places: 100, SuspectFree: true}
	for _, a := range asks {
		a(&r)
	}
	return r
}

func (e *env) claim(worker string, asks ...ask) store.ClaimResult {
	e.Helper()
	res, err := e.Claim(e.ctx, e.request(worker, asks...))
	e.must(err)
	return res
}

// take claims until nothing more is to be had at this instant.
func (e *env) take(worker string, asks ...ask) []store.Claimed {
	e.Helper()
	var all []store.Claimed
	for range 10_000 {
		res := e.claim(worker, asks...)
		all = append(all, res.Jobs...)
		if len(res.Jobs) == 0 && res.NextAt > e.clock.Now() {
			return all
		}
	}
	e.Fatal("take: claims go on for ever: NextAt never lies in the future")
	return nil
}

func idsOf(jobs []store.Claimed) []int64 {
	ids := []int64{}
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

func sorted(ids []int64) []int64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}

// ending builds a Finish for a claimed job.
func ending(j store.Claimed, o store.Outcome) store.Finish {
	return store.Finish{ID: j.ID, Worker: j.Worker, Token: j.Token, Outcome: o, Started: j.Slot, Scarce: len(j.Charges) > 0}
}

// finish ends one start, which must be accepted.
func (e *env) finish(f store.Finish) store.Finished {
	e.Helper()
	got, err := e.Finish(e.ctx, []store.Finish{f})
	e.must(err)
	e.must(got[0].Err)
	return got[0]
}

func (e *env) done(jobs ...store.Claimed) {
	e.Helper()
	for _, j := range jobs {
		e.finish(ending(j, store.OutcomeDone))
	}
}

// get returns a job that must be there.
func (e *env) get(id int64) store.Job {
	e.Helper()
	j, err := e.Job(e.ctx, id)
	e.must(err)
	return j
}

func (e *env) wantState(id int64, want store.State) store.Job {
	e.Helper()
	j := e.get(id)
	if j.State != want {
		e.Fatalf("job %d is %v, expected %v", id, j.State, want)
	}
	return j
}

// wantIDs checks claimed jobs and their order.
func (e *env) wantIDs(what string, got []store.Claimed, want ...int64) {
	e.Helper()
	if !slices.Equal(idsOf(got), want) {
		e.Fatalf("%s: got jobs %v, expected %v", what, idsOf(got), want)
	}
}

// wantNext checks that a claim of nothing is exact about when to ask again:
// nothing can be had a microsecond before, something can at the instant. A
// pause moves a limit's opening without touching its gates, so that an early
// look may find a still later instant; more than two such looks are too many.
func (e *env) wantNext(worker string, asks ...ask) []store.Claimed {
	e.Helper()
	res := e.claim(worker, asks...)
	for look := 0; look < 3; look++ {
		if len(res.Jobs) > 0 {
			e.Fatalf("got jobs %v, expected none yet", idsOf(res.Jobs))
		}
		next := res.NextAt
		if next <= e.clock.Now() || next == limit.Never {
			e.Fatalf("NextAt is %s, expected a later instant", e.when(next))
		}
		e.clock.To(next - 1)
		if early := e.claim(worker, asks...); len(early.Jobs) > 0 {
			e.Fatalf("got jobs %v a microsecond before NextAt", idsOf(early.Jobs))
		}
		e.clock.To(next)
		if res = e.claim(worker, asks...); len(res.Jobs) > 0 {
			return res.Jobs
		}
	}
	e.Fatalf("nothing could be claimed at NextAt, three times; then it was said to be %s", e.when(res.NextAt))
	return nil
}

// when writes an instant relative to the clock.
func (e *env) when(at int64) string {
	if at >= engine.Held {
		return "never"
	}
	return fmt.Sprintf("now%+dµs", at-e.clock.Now())
}

func (e *env) state(name string) *limit.State {
	e.Helper()
	l, err := e.Limit(e.ctx, name)
	e.must(err)
	return &l.State
}
