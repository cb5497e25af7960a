package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
)

// ErrFault is what the plans of this package fail calls with.
var ErrFault = errors.New("storetest: the store was told to fail")

// Call is one call of a store's method.
type Call struct {
	Verb string // the method's name, such as "Claim"
	N    int    // 1 for the first call of this verb, counted from when the plan was made
}

// Fault says how a call is to fail; the zero value lets it pass.
type Fault struct {
	Before error  // the call fails and has no effect
	After  error  // the call takes effect and its reply is lost
	Hold   func() // called first; it may block
}

// Plan decides the fate of each call. It must be safe for concurrent use.
type Plan func(Call) Fault

// FailNth fails the nth call of the verb, and no other.
func FailNth(verb string, n int, f Fault) Plan {
	return func(c Call) Fault {
		if c.Verb == verb && c.N == n {
			return f
		}
		return Fault{}
	}
}

// FailAlways fails every call of the verbs; none: of all verbs.
func FailAlways(f Fault, verbs ...string) Plan {
	return func(c Call) Fault {
		for _, v := range verbs {
			if v == c.Verb {
				return f
			}
		}
		if len(verbs) == 0 {
			return f
		}
		return Fault{}
	}
}

// FailSometimes fails calls with probability p, half of them before and half
// after they took effect. The seed makes it repeatable for a given order of calls.
func FailSometimes(seed uint64, p float64) Plan {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(Call) Fault {
		mu.Lock()
		defer mu.Unlock()
		switch r := rnd.Float64(); {
		case r < p/2:
			return Fault{Before: ErrFault}
		case r < p:
			return Fault{After: ErrFault}
		}
		return Fault{}
	}
}

// FaultyStore plays dead as its plan says. It is safe for concurrent use.
type FaultyStore struct {
	s     store.Store
	mu    sync.Mutex
	plan  Plan
	calls map[string]int
}

var _ store.Store = (*FaultyStore)(nil)

// Faulty returns s with the plan's faults; a nil plan has none. Watch and Close
// never fail: what a missed signal does is tried by not sending one.
func Faulty(s store.Store, plan Plan) *FaultyStore {
	f := &FaultyStore{s: s}
	f.SetPlan(plan)
	return f
}

// SetPlan changes the plan and starts counting calls anew.
func (f *FaultyStore) SetPlan(plan Plan) {
	if plan == nil {
		plan = func(Call) Fault { return Fault{} }
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.calls = plan, make(map[string]int)
}

// Calls returns how often the verb was called under the present plan.
func (f *FaultyStore) Calls(verb string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[verb]
}

func (f *FaultyStore) fault(verb string) Fault {
	f.mu.Lock()
	f.calls[verb]++
	plan, c := f.plan, Call{verb, f.calls[verb]}
	f.mu.Unlock()
	return plan(c)
}

func do(f *FaultyStore, verb string, fn func() error) error {
	fault := f.fault(verb)
	if fault.Hold != nil {
		fault.Hold()
	}
	if fault.Before != nil {
		return fault.Before
	}
	if err := fn(); err != nil {
		return err
	}
	return fault.After
}

func get[T any](f *FaultyStore, verb string, fn func() (T, error)) (T, error) {
	var got, zero T
	err := do(f, verb, func() (err error) {
		got, err = fn()
		return err
	})
	if err != nil {
		return zero, err
	}
	return got, nil
}

// The methods of store.Store, each under its plan.

func (f *FaultyStore) Now(ctx context.Context) (int64, error) {
	return get(f, "Now", func() (int64, error) { return f.s.Now(ctx) })
}
func (f *FaultyStore) Watch(ctx context.Context) <-chan struct{} { return f.s.Watch(ctx) }
func (f *FaultyStore) Ping(ctx context.Context) error {
	return do(f, "Ping", func() error { return f.s.Ping(ctx) })
}
func (f *FaultyStore) Close() error { return f.s.Close() }

func (f *FaultyStore) Insert(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error) {
	return get(f, "Insert", func() ([]store.Inserted, error) { return f.s.Insert(ctx, jobs) })
}
func (f *FaultyStore) Release(ctx context.Context, load string) error {
	return do(f, "Release", func() error { return f.s.Release(ctx, load) })
}
func (f *FaultyStore) DropLoads(ctx context.Context, run string) (int, error) {
	return get(f, "DropLoads", func() (int, error) { return f.s.DropLoads(ctx, run) })
}

func (f *FaultyStore) Register(ctx context.Context, w store.Worker) error {
	return do(f, "Register", func() error { return f.s.Register(ctx, w) })
}
func (f *FaultyStore) Deregister(ctx context.Context, worker string) error {
	return do(f, "Deregister", func() error { return f.s.Deregister(ctx, worker) })
}
func (f *FaultyStore) Heartbeat(ctx context.Context, worker string) ([]store.Lease, error) {
	return get(f, "Heartbeat", func() ([]store.Lease, error) { return f.s.Heartbeat(ctx, worker) })
}
func (f *FaultyStore) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	return get(f, "Claim", func() (store.ClaimResult, error) { return f.s.Claim(ctx, r) })
}
func (f *FaultyStore) Finish(ctx context.Context, fs []store.Finish) ([]store.Finished, error) {
	return get(f, "Finish", func() ([]store.Finished, error) { return f.s.Finish(ctx, fs) })
}
func (f *FaultyStore) Rescue(ctx context.Context, lostMax int) ([]store.Job, error) {
	return get(f, "Rescue", func() ([]store.Job, error) { return f.s.Rescue(ctx, lostMax) })
}
func (f *FaultyStore) SeesDeaths() bool { return f.s.SeesDeaths() }
func (f *FaultyStore) Cancels(ctx context.Context, worker string) ([]int64, error) {
	return get(f, "Cancels", func() ([]int64, error) { return f.s.Cancels(ctx, worker) })
}
func (f *FaultyStore) Sweep(ctx context.Context) (int, error) {
	return get(f, "Sweep", func() (int, error) { return f.s.Sweep(ctx) })
}

func (f *FaultyStore) DeclareLimit(ctx context.Context, name string, spec limit.Spec) error {
	return do(f, "DeclareLimit", func() error { return f.s.DeclareLimit(ctx, name, spec) })
}
func (f *FaultyStore) SetLimit(ctx context.Context, name string, spec limit.Spec) error {
	return do(f, "SetLimit", func() error { return f.s.SetLimit(ctx, name, spec) })
}
func (f *FaultyStore) ResetLimit(ctx context.Context, name string) error {
	return do(f, "ResetLimit", func() error { return f.s.ResetLimit(ctx, name) })
}
func (f *FaultyStore) PauseLimit(ctx context.Context, name string, until int64, reason string) error {
	return do(f, "PauseLimit", func() error { return f.s.PauseLimit(ctx, name, until, reason) })
}
func (f *FaultyStore) ResumeLimit(ctx context.Context, name string) error {
	return do(f, "ResumeLimit", func() error { return f.s.ResumeLimit(ctx, name) })
}
func (f *FaultyStore) Limit(ctx context.Context, name string) (store.LimitInfo, error) {
	return get(f, "Limit", func() (store.LimitInfo, error) { return f.s.Limit(ctx, name) })
}
func (f *FaultyStore) ListLimits(ctx context.Context, after string, n int) ([]store.LimitInfo, error) {
	return get(f, "ListLimits", func() ([]store.LimitInfo, error) { return f.s.ListLimits(ctx, after, n) })
}
func (f *FaultyStore) Observe(ctx context.Context, o []store.Observed) error {
	return do(f, "Observe", func() error { return f.s.Observe(ctx, o) })
}

func (f *FaultyStore) BeginEffect(ctx context.Context, key string, job, token int64, takeOver bool) (store.Effect, error) {
	return get(f, "BeginEffect", func() (store.Effect, error) { return f.s.BeginEffect(ctx, key, job, token, takeOver) })
}
func (f *FaultyStore) FinishEffect(ctx context.Context, key string, job, token int64, result []byte) error {
	return do(f, "FinishEffect", func() error { return f.s.FinishEffect(ctx, key, job, token, result) })
}
func (f *FaultyStore) ClearEffect(ctx context.Context, key string, job, token int64) error {
	return do(f, "ClearEffect", func() error { return f.s.ClearEffect(ctx, key, job, token) })
}

func (f *FaultyStore) Job(ctx context.Context, id int64) (store.Job, error) {
	return get(f, "Job", func() (store.Job, error) { return f.s.Job(ctx, id) })
}
func (f *FaultyStore) Jobs(ctx context.Context, fl store.Filter) ([]store.Job, error) {
	return get(f, "Jobs", func() ([]store.Job, error) { return f.s.Jobs(ctx, fl) })
}
func (f *FaultyStore) Why(ctx context.Context, id int64) ([]dispatch.Wait, error) {
	return get(f, "Why", func() ([]dispatch.Wait, error) { return f.s.Why(ctx, id) })
}
func (f *FaultyStore) CountRun(ctx context.Context, run string) (map[store.State]int64, error) {
	return get(f, "CountRun", func() (map[store.State]int64, error) { return f.s.CountRun(ctx, run) })
}
func (f *FaultyStore) CallIDs(ctx context.Context, run string, refs []string) (map[string]int64, error) {
	return get(f, "CallIDs", func() (map[string]int64, error) { return f.s.CallIDs(ctx, run, refs) })
}
func (f *FaultyStore) Events(ctx context.Context, id int64) ([]store.Event, error) {
	return get(f, "Events", func() ([]store.Event, error) { return f.s.Events(ctx, id) })
}
func (f *FaultyStore) Cancel(ctx context.Context, id int64) (store.State, error) {
	return get(f, "Cancel", func() (store.State, error) { return f.s.Cancel(ctx, id) })
}
func (f *FaultyStore) Replay(ctx context.Context, ids, due []int64, newKey func() string) ([]error, error) {
	return get(f, "Replay", func() ([]error, error) { return f.s.Replay(ctx, ids, due, newKey) })
}
func (f *FaultyStore) Discard(ctx context.Context, ids []int64) ([]error, error) {
	return get(f, "Discard", func() ([]error, error) { return f.s.Discard(ctx, ids) })
}
func (f *FaultyStore) Queues(ctx context.Context) ([]store.QueueInfo, error) {
	return get(f, "Queues", func() ([]store.QueueInfo, error) { return f.s.Queues(ctx) })
}
func (f *FaultyStore) PauseQueue(ctx context.Context, queue, reason string) error {
	return do(f, "PauseQueue", func() error { return f.s.PauseQueue(ctx, queue, reason) })
}
func (f *FaultyStore) ResumeQueue(ctx context.Context, queue string) error {
	return do(f, "ResumeQueue", func() error { return f.s.ResumeQueue(ctx, queue) })
}
func (f *FaultyStore) Workers(ctx context.Context) ([]store.WorkerInfo, error) {
	return get(f, "Workers", func() ([]store.WorkerInfo, error) { return f.s.Workers(ctx) })
}
