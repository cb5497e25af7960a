package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/memory"
	"github.com/penstockhq/penstock/store/storetest"
)

// patient is a store in memory to be examined, on a clock of its own.
type patient struct {
	t *testing.T
	store.Store
	clock *storetest.Clock
	db    *memory.DB
}

func newPatient(t *testing.T) *patient {
	clock := storetest.NewClock()
	db := memory.NewDB(memory.Options{Now: clock.Now})
	return &patient{t, engine.New(db), clock, db}
}

// examined returns the findings by check.
func (p *patient) examined() map[string]finding {
	p.t.Helper()
	d := doctor{ctx: p.t.Context(), st: p.Store, now: p.clock.Now()}
	if err := d.examine(); err != nil {
		p.t.Fatal(err)
	}
	byCheck := map[string]finding{}
	for _, f := range d.findings {
		byCheck[f.Check] = f
	}
	return byCheck
}

// finds checks the level and the text of one finding.
func (p *patient) finds(check string, l level, texts ...string) {
	p.t.Helper()
	f := p.examined()[check]
	if f.Level != l {
		p.t.Errorf("%s: %+v, expected %s", check, f, l)
	}
	for _, text := range texts {
		if !strings.Contains(f.Text, text) {
			p.t.Errorf("%s: %q lacks %q", check, f.Text, text)
		}
	}
}

// running has a worker take one job.
func (p *patient) running() store.Claimed {
	p.t.Helper()
	ctx := p.t.Context()
	p.do(p.Register(ctx, store.Worker{ID: "w", Host: "here", PID: 7, Kinds: []string{"k"}, Lease: time.Minute}))
	_, err := p.Insert(ctx, []store.NewJob{{LaneKey: store.LaneKey{Queue: "q", Kind: "k", Priority: 5}}})
	p.do(err)
	r, err := p.Claim(ctx, store.ClaimRequest{Worker: "w", Token: 1, Kinds: []string{"k"}, Places: 1, SuspectFree: true})
	p.do(err)
	if len(r.Jobs) != 1 {
		p.t.Fatalf("claimed %d jobs", len(r.Jobs))
	}
	return r.Jobs[0]
}

func (p *patient) do(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestDoctorOnPauses(t *testing.T) {
	p := newPatient(t)
	spec, err := limit.Parse("5/s")
	p.do(err)
	p.do(p.DeclareLimit(t.Context(), "api", spec))
	p.finds("limits", fine)
	p.finds("queues", fine)
	p.do(p.PauseLimit(t.Context(), "api", limit.Never, "deploy"))
	p.do(p.PauseQueue(t.Context(), "mail", "repairs"))
	p.finds("limits", noted, "1 limit is stopped", "api", "deploy")
	p.finds("queues", noted, "1 queue is paused", "mail", "repairs")
	p.clock.Advance(25 * time.Hour)
	p.finds("limits", problem)
	p.finds("queues", problem)
	p.do(p.ResumeLimit(t.Context(), "api"))
	p.finds("limits", fine)
	// The API's pause is no person's doing.
	p.do(p.Observe(t.Context(), []store.Observed{{Limit: "api", Observation: limit.Observation{At: p.clock.Now(), Refused: true, RetryAt: p.clock.Now() + 1e9}}}))
	p.finds("limits", fine)
	p.do(p.SetLimit(t.Context(), "api", limit.Spec{Paused: true}))
	p.finds("limits", noted, "paused by its spec")
}

func TestDoctorOnClocks(t *testing.T) {
	p := newPatient(t)
	j := p.running()
	p.clock.Advance(10 * time.Minute)
	if _, err := p.Heartbeat(t.Context(), j.Worker); err != nil {
		t.Fatal(err)
	}
	p.finds("clock", fine)
	p.clock.Advance(-5 * time.Minute)
	p.finds("clock", problem, "put back", "in 5m")
}

func TestDoctorOnLeases(t *testing.T) {
	p := newPatient(t)
	j := p.running()
	p.finds("leases", fine, "1 job runs")
	p.finds("processes", fine, "1 process works")
	p.clock.Advance(time.Hour)
	p.finds("processes", problem, "1 process is gone or standing still", "1 job was not taken back", "7 on here")
	// No transaction of the store does this: it forgets the worker and not its job.
	p.do(p.db.Update(t.Context(), func(tx engine.Tx) error { return tx.DropWorker(j.Worker) }))
	p.finds("leases", problem, "1 job runs with a process that nobody knows", "job 1")
}

func TestDoctorOnSweeps(t *testing.T) {
	p := newPatient(t)
	p.do(func() error {
		_, err := p.Insert(t.Context(), []store.NewJob{{LaneKey: store.LaneKey{Queue: "q", Kind: "k", Priority: 5}}})
		return err
	}())
	p.finds("sweeps", fine)
	p.finds("workers", problem, "1 due job", "kind k in queue q")
	p.do(p.db.Update(t.Context(), func(tx engine.Tx) error {
		lanes, err := tx.LanePage(0, 1)
		if err != nil {
			return err
		}
		lanes[0].State = engine.LaneEmpty
		return tx.SaveLane(lanes[0])
	}))
	if n, err := p.Sweep(t.Context()); err != nil || n != 1 {
		t.Fatalf("the sweep found %d, %v", n, err)
	}
	p.finds("sweeps", problem, "1 time")
}

// A prune that a failing store interrupts can be repeated.
func TestPruneIsRepeatable(t *testing.T) {
	p := newPatient(t)
	const jobs = 2*pruneChunk + 10
	ctx := t.Context()
	p.do(p.Register(ctx, store.Worker{ID: "w", Kinds: []string{"k"}, Lease: time.Minute}))
	for range 3 {
		batch := make([]store.NewJob, jobs/3)
		for i := range batch {
			batch[i] = store.NewJob{LaneKey: store.LaneKey{Queue: "q", Kind: "k", Priority: 5}}
		}
		_, err := p.Insert(ctx, batch)
		p.do(err)
	}
	for token := int64(1); ; token++ {
		r, err := p.Claim(ctx, store.ClaimRequest{Worker: "w", Token: token, Kinds: []string{"k"}, Places: 500, SuspectFree: true})
		p.do(err)
		if len(r.Jobs) == 0 {
			break
		}
		var ends []store.Finish
		for _, j := range r.Jobs {
			ends = append(ends, store.Finish{ID: j.ID, Worker: "w", Token: token, Outcome: store.OutcomeDone, Started: j.Slot + 1})
		}
		_, err = p.Finish(ctx, ends)
		p.do(err)
	}
	p.clock.Advance(time.Hour)
	faulty := storetest.Faulty(p.Store, storetest.FailNth("Prune", 2, storetest.Fault{Before: storetest.ErrFault}))
	run := func() (pruneReport, error) {
		x := pruning{age: age(time.Minute), screen: &screen{quiet: true}}
		err := x.remove(context.Background(), faulty, p.clock.Now())
		return x.report, err
	}
	r, err := run()
	if !errors.Is(err, storetest.ErrFault) || r.Jobs != pruneChunk {
		t.Errorf("the first time: %+v, %v", r, err)
	}
	r, err = run()
	if err != nil || r.Jobs != jobs/3*3-pruneChunk || r.Lanes != 1 || r.Gates != 1 || r.Bands != 1 {
		t.Errorf("the second time: %+v, %v", r, err)
	}
	if left, err := p.Jobs(ctx, store.Filter{}); err != nil || len(left) != 0 {
		t.Errorf("%d jobs are left, %v", len(left), err)
	}
}
