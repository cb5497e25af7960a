package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/storetest"
)

var (
	errDown = errors.New("sim: the store is down")
	errDead = errors.New("sim: this process is dead")
)

// weather is what calls to the store of one caller meet for a while.
type weather struct {
	before, after float64 // shares of calls that fail before, or after, they took effect
	hang          bool    // calls wait until this is over
	over          chan struct{}
}

// line is the store as one incarnation sees it: its calls take time, fail and
// hang, and its clock is wrong. Storetest's wrapper makes the faults; what comes
// on top is here. Names of workers, which are random, are replaced by ones that
// are the same in each run.
type line struct {
	store.Store // with faults
	w           *world
	in          *incarnation

	mu    sync.Mutex
	names map[string]string
}

var _ store.Store = (*line)(nil)

func newLine(w *world, in *incarnation) *line {
	l := &line{w: w, in: in, names: map[string]string{}}
	l.Store = storetest.Faulty(slow{w.st, l}, l.fate)
	return l
}

// slow is the store at the end of the way for calls about an effect, which take
// a time that depends on it: those of jobs begun in one instant would else come
// in one instant, too.
type slow struct {
	store.Store
	l *line
}

func (s slow) BeginEffect(ctx context.Context, key string, job, token int64, takeOver bool) (store.Effect, error) {
	s.l.travel(key, "begin")
	return s.Store.BeginEffect(ctx, key, job, token, takeOver)
}

func (s slow) FinishEffect(ctx context.Context, key string, job, token int64, result []byte) error {
	s.l.travel(key, "finish")
	return s.Store.FinishEffect(ctx, key, job, token, result)
}

func (s slow) ClearEffect(ctx context.Context, key string, job, token int64) error {
	s.l.travel(key, "clear")
	return s.Store.ClearEffect(ctx, key, job, token)
}

// quick are the calls that take next to no time on the way out, and free those
// that take none: small reads made all the time, and those that slow sees to.
var (
	quick = map[string]bool{"Rescue": true, "Cancels": true, "Sweep": true}
	free  = map[string]bool{"Limit": true, "BeginEffect": true, "FinishEffect": true, "ClearEffect": true}
)

// travel is the way out or back of a call, which the seed, the present
// millisecond and the names decide.
func (l *line) travel(names ...string) {
	d := l.w.die(names...)
	pause(d.between(50*time.Microsecond, time.Millisecond))
}

// apart takes next to no time, but as much as nothing else: what begins in one
// instant, in any order, goes on in instants of its own.
func (w *world) apart(names ...string) {
	d := w.die(names...)
	pause(d.between(1, 20*time.Microsecond))
}

// fate decides what a call meets.
func (l *line) fate(c storetest.Call) storetest.Fault {
	if alive, _ := l.in.pass(); !alive {
		return storetest.Fault{Before: errDead}
	}
	var f storetest.Fault
	wx := l.w.shop.weatherAt(l.in.p)
	if wx.before > 0 || wx.after > 0 {
		d := l.w.die(l.in.name, c.Verb, "fate")
		switch r := d.share(); {
		case r < wx.before:
			f.Before = errDown
		case r < wx.before+wx.after:
			f.After = errDown
		}
	}
	if f.Before != nil || f.After != nil {
		l.in.trouble.Store(l.w.log.now())
	}
	f.Hold = func() {
		if wx.hang {
			<-wx.over
			l.in.trouble.Store(l.w.log.now())
		}
		switch {
		case quick[c.Verb]:
			l.w.apart(l.in.name, c.Verb)
		case !free[c.Verb]:
			l.travel(l.in.name, c.Verb)
		}
	}
	return f
}

// reply is the way back: the process may stand still, or be dead, by now.
func (l *line) reply(verb string, err error) error { return l.replyAbout("", verb, err) }

// replyAbout is the way back of a call about one of many things.
func (l *line) replyAbout(what, verb string, err error) error {
	l.travel(l.in.name, what, verb, "reply")
	if alive, _ := l.in.pass(); !alive {
		return errDead
	}
	return err
}

// doing is what the witness is told about the caller of an update.
type doing struct {
	verb     string
	worker   string
	finishes []store.Finish

	rows map[string]engine.WorkerRow // for RescueBlind
	held map[string][]int64
}

type doingKey struct{}

func with(ctx context.Context, d doing) context.Context {
	return context.WithValue(ctx, doingKey{}, &d)
}

// alias is the name under which the store knows a worker of this incarnation.
func (l *line) alias(worker string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.names[worker]
	if !ok {
		a = fmt.Sprintf("%s/%d", l.in.name, len(l.names)+1)
		l.names[worker] = a
	}
	return a
}

func (l *line) Now(ctx context.Context) (int64, error) {
	now, err := l.Store.Now(ctx)
	return now + l.in.p.shift(), l.reply("Now", err)
}

func (l *line) Register(ctx context.Context, w store.Worker) error {
	w.ID = l.alias(w.ID)
	return l.reply("Register", l.Store.Register(ctx, w))
}

func (l *line) Deregister(ctx context.Context, worker string) error {
	a := l.alias(worker)
	return l.reply("Deregister", l.Store.Deregister(with(ctx, doing{verb: "Deregister", worker: a}), a))
}

func (l *line) Heartbeat(ctx context.Context, worker string) ([]store.Lease, error) {
	leases, err := l.Store.Heartbeat(ctx, l.alias(worker))
	for i := range leases {
		leases[i].Since = there(leases[i].Since, l.in.p.shift())
	}
	return leases, l.reply("Heartbeat", err)
}

func (l *line) Cancels(ctx context.Context, worker string) ([]int64, error) {
	return l.Store.Cancels(ctx, l.alias(worker))
}

func (l *line) Rescue(ctx context.Context, lostMax int) ([]store.Job, error) {
	jobs, err := l.Store.Rescue(with(ctx, doing{verb: "Rescue"}), lostMax)
	for i := range jobs {
		l.w.log.note("%s took job %d back, %v", l.in.name, jobs[i].ID, jobs[i].State)
		l.w.log.count("rescued")
		shiftJob(&jobs[i], l.in.p.shift())
	}
	return jobs, err
}

func (l *line) Sweep(ctx context.Context) (int, error) {
	n, err := l.Store.Sweep(ctx)
	if n > 0 {
		l.w.log.fail(Overslept, "the sweep of %s found %d lanes", l.in.name, n)
	}
	return n, err
}

func (l *line) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	r.Worker = l.alias(r.Worker)
	res, err := l.Store.Claim(with(ctx, doing{verb: "Claim", worker: r.Worker}), r)
	d := l.in.p.shift()
	res.Now, res.NextAt = there(res.Now, d), there(res.NextAt, d)
	for i := range res.Jobs {
		shiftClaimed(&res.Jobs[i], d)
	}
	for i := range res.ExpiredJobs {
		shiftJob(&res.ExpiredJobs[i], d)
	}
	if err = l.reply("Claim", err); err != nil {
		return store.ClaimResult{}, err
	}
	return res, nil
}

func (l *line) Finish(ctx context.Context, fs []store.Finish) ([]store.Finished, error) {
	d := l.in.p.shift()
	mine := make([]store.Finish, len(fs))
	for i, f := range fs {
		mine[i] = shiftFinish(f, -d)
		mine[i].Worker = l.alias(f.Worker)
	}
	got, err := l.Store.Finish(with(ctx, doing{verb: "Finish", finishes: mine}), mine)
	for i := range got {
		if got[i].Err != nil {
			l.w.log.note("%s was refused the outcome of job %d", l.in.name, mine[i].ID)
			l.w.log.count("late outcome refused")
			l.w.releaseAgain(ctx, mine[i])
		} else {
			l.w.log.note("%s ended a start of job %d: %v, now %v", l.in.name, mine[i].ID, mine[i].Outcome, got[i].State)
			l.w.log.count("outcome " + mine[i].Outcome.String())
		}
		got[i].At = there(got[i].At, d)
	}
	if err = l.reply("Finish", err); err != nil {
		return nil, err
	}
	return got, nil
}

func (l *line) Insert(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error) {
	d := l.in.p.shift()
	mine := make([]store.NewJob, len(jobs))
	for i, j := range jobs {
		j.At, j.ExpiresAt = there(j.At, -d), there(j.ExpiresAt, -d)
		if by := j.Start; by != nil {
			j.Start = &store.Starter{Worker: l.alias(by.Worker), Token: by.Token}
		}
		mine[i] = j
	}
	got, err := l.Store.Insert(ctx, mine)
	for i := range got {
		if c := got[i].Started; c != nil {
			l.w.log.note("%s started job %d as it enqueued it", l.in.name, got[i].ID)
			l.w.log.count("started at once")
			shiftClaimed(c, d)
		}
	}
	if err = l.reply("Insert", err); err != nil {
		return nil, err
	}
	return got, nil
}

func (l *line) Job(ctx context.Context, id int64) (store.Job, error) {
	j, err := l.Store.Job(ctx, id)
	shiftJob(&j, l.in.p.shift())
	return j, err
}

func (l *line) Jobs(ctx context.Context, f store.Filter) ([]store.Job, error) {
	jobs, err := l.Store.Jobs(ctx, f)
	for i := range jobs {
		shiftJob(&jobs[i], l.in.p.shift())
	}
	return jobs, err
}

func (l *line) BeginEffect(ctx context.Context, key string, job, token int64, takeOver bool) (store.Effect, error) {
	e, err := l.Store.BeginEffect(ctx, key, job, token, takeOver)
	if err = l.replyAbout(key, "BeginEffect", err); err != nil {
		return store.Effect{}, err
	}
	return e, nil
}

func (l *line) FinishEffect(ctx context.Context, key string, job, token int64, result []byte) error {
	return l.replyAbout(key, "FinishEffect", l.Store.FinishEffect(ctx, key, job, token, result))
}
