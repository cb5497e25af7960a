package sim

import (
	"context"
	"slices"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// witness stands between the engine and the rows. It keeps books of its own and
// compares them with what each commit wrote.
type witness struct {
	engine.DB
	w       *world
	jobs    map[int64]*book
	flying  map[string]int64        // running jobs by limit
	slots   map[string]int64        // the newest slot by limit
	rows    map[string]limit.Spec   // specs in force by name or pattern
	changes map[string][]specChange // for the judge
	workers map[string]engine.WorkerRow
	paused  map[string]bool
}

// book is what the witness knows of a job.
type book struct {
	state   store.State
	worker  string
	token   int64
	charges []dispatch.Charge
}

// specChange is a limit's spec from an instant on.
type specChange struct {
	at   int64 // µs since the world began
	spec limit.Spec
}

func newWitness(w *world, db engine.DB) *witness {
	return &witness{DB: db, w: w, jobs: map[int64]*book{}, flying: map[string]int64{}, slots: map[string]int64{},
		rows: map[string]limit.Spec{}, changes: map[string][]specChange{}, workers: map[string]engine.WorkerRow{}, paused: map[string]bool{}}
}

// Update runs fn under the witness's eyes. The memory store commits whatever fn
// ends without an error, so the books are brought up to date at fn's end.
func (d *witness) Update(ctx context.Context, fn func(engine.Tx) error) error {
	how, _ := ctx.Value(doingKey{}).(*doing)
	if how == nil {
		how = &doing{}
	}
	d.w.linger(how)
	return d.DB.Update(ctx, func(tx engine.Tx) error {
		wt := &witnessTx{Tx: tx, d: d, how: how}
		if err := fn(d.w.planted(wt)); err != nil {
			return err
		}
		wt.close()
		return nil
	})
}

// Append is Update: the memory store has one writer.
func (d *witness) Append(ctx context.Context, fn func(engine.Tx) error) error {
	return d.Update(ctx, fn)
}

// View plants bugs that read, too.
func (d *witness) View(ctx context.Context, fn func(engine.Tx) error) error {
	return d.DB.View(ctx, d.reading(ctx, fn))
}

// Peek does what View does.
func (d *witness) Peek(ctx context.Context, fn func(engine.Tx) error) error {
	return d.DB.Peek(ctx, d.reading(ctx, fn))
}

func (d *witness) reading(ctx context.Context, fn func(engine.Tx) error) func(engine.Tx) error {
	how, _ := ctx.Value(doingKey{}).(*doing)
	if how == nil || d.w.opt.Plant == NoPlant {
		return fn
	}
	return func(tx engine.Tx) error { return fn(d.w.planted(&witnessTx{Tx: tx, d: d, how: how})) }
}

// specOf is the spec in force of a limit.
func (d *witness) specOf(name string) limit.Spec {
	if sp, ok := d.rows[name]; ok {
		return sp
	}
	return d.rows[pattern(name)]
}

// witnessTx notes what one transaction writes.
type witnessTx struct {
	engine.Tx
	d    *witness
	how  *doing
	done []func() // what the commit does to the books

	touched []string         // limits whose state was written, in order
	flights map[string]int64 // calls in flight as written
	charged []string         // limits that were charged
}

func (t *witnessTx) later(fn func()) { t.done = append(t.done, fn) }

func (t *witnessTx) close() {
	for _, fn := range t.done {
		fn()
	}
	for _, name := range t.touched {
		if got, want := t.flights[name], t.d.flying[name]; got != want {
			t.d.w.log.fail(Permits, "limit %s: %d calls in flight after a %s, %d jobs run that draw on it", name, got, t.how.verb, want)
		}
	}
	for _, name := range t.charged {
		if most := t.d.specOf(name).InFlight; most > 0 && t.d.flying[name] > most {
			t.d.w.log.fail(Permits, "limit %s: %d jobs run, its cap is %d", name, t.d.flying[name], most)
		}
	}
}

func (t *witnessTx) AddJobs(jobs []*engine.Job, bodies []engine.Body) error {
	err := t.Tx.AddJobs(jobs, bodies)
	for _, j := range jobs {
		t.later(func() { t.d.jobs[j.ID] = &book{state: store.Waiting} })
		if j.State == store.Running && err == nil { // started at once
			err = t.lease(j)
		}
	}
	return err
}

func (t *witnessTx) UnendJobs(jobs []*engine.Job) error {
	for _, j := range jobs {
		t.later(func() { t.d.jobs[j.ID] = &book{state: store.Waiting} })
	}
	return t.Tx.UnendJobs(jobs)
}

func (t *witnessTx) Lease(jobs []*engine.Job) error {
	for _, j := range jobs {
		if err := t.lease(j); err != nil {
			return err
		}
	}
	return t.Tx.Lease(jobs)
}

// lease notes a lease, to be judged at the commit.
func (t *witnessTx) lease(j *engine.Job) error {
	lanes, err := t.Tx.Lanes([]int64{j.Lane})
	if err != nil {
		return err
	}
	lane := lanes[0]
	next := book{state: store.Running, worker: j.Worker, token: j.Token, charges: slices.Clone(j.Charges)}
	id, slot, at := j.ID, j.Slot, j.LeaseAt
	t.later(func() { t.leased(id, slot, at, lane, next) })
	return nil
}

// leased judges one lease.
func (t *witnessTx) leased(id, slot, at int64, lane engine.Lane, next book) {
	d, log := t.d, t.d.w.log
	old := d.jobs[id]
	if old == nil || old.state != store.Waiting {
		log.fail(Leases, "job %d was leased to %s while it was not waiting: %+v", id, next.worker, old)
		return
	}
	if d.paused[lane.Band.Queue] {
		log.fail(Paused, "job %d was leased from queue %q, which is paused", id, lane.Band.Queue)
	}
	if slot < at && len(next.charges) > 0 {
		log.fail(Slots, "job %d has slot %d, before its lease at %d", id, slot, at)
	}
	for _, c := range next.charges {
		if c.Slot < d.slots[c.Limit] {
			log.fail(Slots, "limit %s: job %d has a slot %dµs before that of an older grant", c.Limit, id, d.slots[c.Limit]-c.Slot)
		}
		d.slots[c.Limit] = c.Slot
		d.flying[c.Limit]++
		t.charged = append(t.charged, c.Limit)
	}
	d.jobs[id] = &next
	log.note("job %d is leased to %s", id, next.worker)
}

func (t *witnessTx) SaveJobs(jobs []*engine.Job) error {
	for _, j := range jobs {
		id, state := j.ID, j.State
		t.later(func() { t.moved(id, state) })
	}
	return t.Tx.SaveJobs(jobs)
}

// EndDone goes by the rows, which are watched.
func (t *witnessTx) EndDone(worker string, leases []engine.DoneLease, at int64, then func([]engine.DoneJob) error) error {
	return engine.EndDoneByRows(t, worker, leases, at, then)
}

func (t *witnessTx) EndJobs(jobs []*engine.Job) error {
	for _, j := range jobs {
		id, state := j.ID, j.State
		t.later(func() { t.moved(id, state) })
	}
	return t.Tx.EndJobs(jobs)
}

func (t *witnessTx) DropJobs(ids []int64) error {
	for _, id := range ids {
		t.later(func() { t.moved(id, 0) })
	}
	return t.Tx.DropJobs(ids)
}

// moved judges a job's change of state; 0 means that it is gone.
func (t *witnessTx) moved(id int64, state store.State) {
	d := t.d
	b := d.jobs[id]
	if b == nil {
		d.w.log.fail(Lost, "job %d became %v, it was never there", id, state)
		return
	}
	if b.state == store.Running && state != store.Running {
		t.mayEnd(id, b)
		for _, c := range b.charges {
			d.flying[c.Limit]--
		}
	}
	if b.state != store.Running && state == store.Running {
		d.w.log.fail(Leases, "job %d runs without a lease", id)
	}
	if b.state.Ended() {
		d.w.log.fail(Ended, "job %d was %v and became %v", id, b.state, state)
	}
	if state != store.Running {
		d.jobs[id] = &book{state: state}
	}
}

// mayEnd judges whether this transaction may end the start of a running job.
func (t *witnessTx) mayEnd(id int64, b *book) {
	switch t.how.verb {
	case "Finish":
		for _, f := range t.how.finishes {
			if f.ID == id && f.Worker == b.worker && f.Token == b.token {
				return
			}
		}
		t.d.w.log.fail(Leases, "a start of job %d, leased to %s, was ended by an outcome of somebody else: %+v", id, b.worker, t.how.finishes)
	case "Rescue":
		row, known := t.d.workers[b.worker]
		now, _ := t.Tx.Now()
		if known && now-row.SeenAt <= row.Lease.Microseconds() {
			t.d.w.log.fail(Taken, "job %d was taken from %s, which was heard of %dµs before", id, b.worker, now-row.SeenAt)
		}
	case "Deregister":
		if b.worker != t.how.worker {
			t.d.w.log.fail(Taken, "job %d was taken from %s when %s left", id, b.worker, t.how.worker)
		}
	default:
		t.d.w.log.fail(Leases, "a start of job %d was ended by %q", id, t.how.verb)
	}
}

func (t *witnessTx) SaveLimitState(name string, data []byte) error {
	var s limit.State
	if len(data) > 0 {
		if err := s.UnmarshalBinary(data); err != nil {
			t.d.w.log.fail(Broken, "state of limit %s: %v", name, err)
		}
	}
	if t.flights == nil {
		t.flights = map[string]int64{}
	}
	t.flights[name] = s.InFlight()
	t.touched = append(t.touched, name)
	return t.Tx.SaveLimitState(name, data)
}

func (t *witnessTx) SaveLimitRow(r engine.LimitRow) error {
	text := r.Set
	if text == "" {
		text = r.Declared
	}
	sp, err := limit.Parse(text)
	if err != nil {
		t.d.w.log.fail(Broken, "spec of limit %s: %v", r.Name, err)
	}
	now := t.d.w.log.now()
	t.later(func() {
		t.d.rows[r.Name] = sp
		t.d.changes[r.Name] = append(t.d.changes[r.Name], specChange{now, sp})
	})
	return t.Tx.SaveLimitRow(r)
}

func (t *witnessTx) SaveWorker(w engine.WorkerRow) error {
	t.later(func() { t.d.workers[w.ID] = w })
	return t.Tx.SaveWorker(w)
}

func (t *witnessTx) DropWorker(id string) error {
	t.later(func() { delete(t.d.workers, id) })
	return t.Tx.DropWorker(id)
}

func (t *witnessTx) SaveQueue(q engine.QueueRow) error {
	t.later(func() { t.d.paused[q.Name] = true })
	return t.Tx.SaveQueue(q)
}

func (t *witnessTx) DropQueue(name string) error {
	t.later(func() { delete(t.d.paused, name) })
	return t.Tx.DropQueue(name)
}
