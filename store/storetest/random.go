package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/penstockhq/penstock/limit"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/memory"
)

var randomTests = []test{
	{"Random/ComparedWithMemory", testRandomCompared},
	{"Random/WithFaults", testRandomFaults},
}

// seed returns the seed of a random test, and how to repeat it.
func seed(t testing.TB) uint64 {
	s := rand.Uint64()
	if text := os.Getenv("PENSTOCK_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("PENSTOCK_SEED=%q: expected the number that a failed test printed", text)
		}
	}
	t.Logf("repeat with PENSTOCK_SEED=%d", s)
	return s
}

// twins plays the same operations on the store under test and on a model, and
// compares all answers. Ids may differ: jobs are known by the order of their
// insertion.
type twins struct {
	*env
	rnd    *rand.Rand
	stores [2]store.Store
	ids    [2][]int64         // by insertion
	order  [2]map[int64]int   // id -> insertion
	held   [2][]store.Claimed // in the same order
	log    []string
}

func testRandomCompared(e *env) {
	s := seed(e.T)
	e.own()
	for round := range uint64(6) {
		clock := e.clock
		model := memory.New(memory.Options{Now: clock.Now})
		tw := &twins{env: e, rnd: rand.New(rand.NewPCG(s, round)), stores: [2]store.Store{e.Store, model},
			order: [2]map[int64]int{{}, {}}}
		if round > 0 { // the store starts empty again
			fresh := newEnv(e.T, e.factory)
			fresh.own()
			fresh.clock.To(clock.Now())
			model = memory.New(memory.Options{Now: fresh.clock.Now})
			tw.env, tw.stores = fresh, [2]store.Store{fresh.Store, model}
		}
		tw.env.hooks.Tx = func(tx engine.Tx) engine.Tx { return inOrder{tx} }
		for i := range 2 {
			for name, spec := range map[string]string{"rate": "10/s burst 3", "cap": "3 in flight", "both": "20/m, 2 in flight", "key/*": "1 in flight, 5/s"} {
				tw.must(tw.stores[i].DeclareLimit(tw.ctx, name, parse(tw.T, spec)))
			}
		}
		for range 250 {
			tw.step()
			if e.Failed() {
				tw.tell()
				return
			}
		}
		tw.compare()
		Audit(tw.T, model)
		Drain(tw.T, model, tw.clock)
		tw.noDrain = false
		if e.Failed() {
			tw.tell()
			return
		}
	}
}

// inOrder returns bands in the order of their ids. A store may return them in
// any order, and equal bands are then served in that order.
type inOrder struct{ engine.Tx }

func (t inOrder) Bands(kinds []string, run string, queues []string) ([]engine.Band, error) {
	bs, err := t.Tx.Bands(kinds, run, queues)
	slices.SortFunc(bs, func(a, b engine.Band) int { return cmp.Compare(a.ID, b.ID) })
	return bs, err
}

func (tw *twins) tell() {
	from := max(0, len(tw.log)-40)
	tw.Logf("the last operations:")
	for _, l := range tw.log[from:] {
		tw.Log(l)
	}
}

// both runs fn on each store and compares what it returns.
func (tw *twins) both(what string, fn func(i int, s store.Store) string) {
	tw.Helper()
	got := [2]string{fn(0, tw.stores[0]), fn(1, tw.stores[1])}
	tw.log = append(tw.log, what+": "+got[0])
	if got[0] != got[1] {
		tw.Errorf("%s:\n store: %s\n model: %s", what, got[0], got[1])
	}
}

// name writes an id as the place of its insertion.
func (tw *twins) name(i int) func(int64) string {
	return func(id int64) string { return fmt.Sprint("#", tw.order[i][id]) }
}

// kindOf writes an error by what a program can tell of it.
func kindOf(err error) string {
	for _, known := range []error{store.ErrNotFound, store.ErrLeaseLost, store.ErrUnknownWorker, store.ErrUniqueTaken} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "some error"
	}
	return "ok"
}

// pick chooses a job inserted before, -1 if there is none.
func (tw *twins) pick() int {
	if len(tw.ids[0]) == 0 {
		return -1
	}
	return tw.rnd.IntN(len(tw.ids[0]))
}

func (tw *twins) step() {
	n := tw.pick()
	worker := fmt.Sprint("w", tw.rnd.IntN(2))
	name := []string{"rate", "cap", "both", "key/0", "key/1"}[tw.rnd.IntN(5)]
	switch op := tw.rnd.IntN(40); {
	case op < 7:
		tw.insert()
	case op < 9:
		tw.insertWishing(worker)
	case op < 16:
		tw.claim(worker)
	case op < 25:
		tw.finish()
	case op < 28:
		tw.clock.Advance(time.Duration(tw.rnd.IntN(3_000_000)) * time.Microsecond)
	case n < 0:
	case op == 28:
		tw.both("cancel", func(i int, s store.Store) string {
			state, err := s.Cancel(tw.ctx, tw.ids[i][n])
			return fmt.Sprint(n, " ", state, " ", kindOf(err))
		})
	case op == 29:
		tw.both("replay", func(i int, s store.Store) string {
			errs, err := s.Replay(tw.ctx, []int64{tw.ids[i][n]}, nil, nil)
			if err == nil {
				err = errs[0]
			}
			return fmt.Sprint(n, " ", kindOf(err))
		})
	case op == 30:
		tw.both("discard", func(i int, s store.Store) string {
			errs, err := s.Discard(tw.ctx, []int64{tw.ids[i][n]})
			if err == nil {
				err = errs[0]
			}
			return fmt.Sprint(n, " ", kindOf(err))
		})
	case op == 31:
		tw.both("pause "+name, func(_ int, s store.Store) string {
			return kindOf(s.PauseLimit(tw.ctx, name, tw.clock.Now()+5_000_000, "tea"))
		})
	case op == 32:
		tw.both("resume "+name, func(_ int, s store.Store) string { return kindOf(s.ResumeLimit(tw.ctx, name)) })
	case op == 33:
		spec := []string{"rate", "cap", "both", "key/*"}[tw.rnd.IntN(4)]
		to := []string{"5/s", "4 in flight", "30/m, 3 in flight"}[tw.rnd.IntN(3)]
		tw.both("set "+spec+" to "+to, func(_ int, s store.Store) string { return kindOf(s.SetLimit(tw.ctx, spec, parse(tw.T, to))) })
	case op == 34:
		on := tw.rnd.IntN(2) == 0
		tw.both(fmt.Sprint("pause queue b ", on), func(_ int, s store.Store) string {
			if on {
				return kindOf(s.PauseQueue(tw.ctx, "b", ""))
			}
			return kindOf(s.ResumeQueue(tw.ctx, "b"))
		})
	case op == 35:
		tw.both("deregister "+worker, func(_ int, s store.Store) string { return kindOf(s.Deregister(tw.ctx, worker)) })
	case op == 36:
		tw.clock.Advance(time.Duration(tw.rnd.IntN(3)) * lease)
		tw.both("rescue", func(i int, s store.Store) string {
			jobs, err := s.Rescue(tw.ctx, 2)
			var names []string
			for _, j := range jobs {
				names = append(names, tw.name(i)(j.ID)+j.State.String())
			}
			return fmt.Sprint(names, kindOf(err))
		})
	case op == 37:
		tw.both("prune", func(_ int, s store.Store) string {
			n, err := s.Prune(tw.ctx, []store.State{store.Done, store.Cancelled}, tw.clock.Now()-5_000_000, 1000)
			return fmt.Sprint(n, kindOf(err))
		})
		tw.both("tidy", func(_ int, s store.Store) string {
			got, err := s.Tidy(tw.ctx)
			return fmt.Sprint(got, kindOf(err))
		})
	case op == 38:
		tw.both("release", func(_ int, s store.Store) string { return kindOf(s.Release(tw.ctx, "load")) })
	default:
		tw.compare()
	}
}

// insert puts in jobs of one lane.
func (tw *twins) insert() {
	opts := []opt{queue([]string{"a", "b"}[tw.rnd.IntN(2)]), prio(1 + tw.rnd.IntN(3)), group(fmt.Sprint(tw.rnd.IntN(3)))}
	switch tw.rnd.IntN(6) {
	case 0:
		opts = append(opts, draw("rate", 1+tw.rnd.Int64N(3)))
	case 1:
		opts = append(opts, draw("cap", 1), draw("both", 1))
	case 2:
		opts = append(opts, draw(fmt.Sprint("key/", tw.rnd.IntN(2)), 1), draw("rate", 1))
	case 3:
		opts = append(opts, draw("cap", 1))
	}
	if tw.rnd.IntN(6) == 0 {
		opts = append(opts, staged("load"))
	}
	jobs := times(1+tw.rnd.IntN(4), opts...)
	for k := range jobs {
		j := &jobs[k]
		switch tw.rnd.IntN(6) {
		case 0:
			j.At = tw.clock.Now() + tw.rnd.Int64N(9_000_000)
		case 1:
			j.ExpiresAt = tw.clock.Now() + tw.rnd.Int64N(9_000_000)
		case 2:
			if j.Load == "" {
				j.Unique, j.Replace = fmt.Sprint("u", tw.rnd.IntN(5)), tw.rnd.IntN(2) == 0
			}
		}
		j.Payload = fmt.Append(nil, tw.rnd.IntN(1000))
	}
	tw.write(jobs)
}

// insertWishing puts in a job that the worker wishes to start at once.
func (tw *twins) insertWishing(worker string) {
	tw.tokens++
	opts := []opt{queue([]string{"a", "b"}[tw.rnd.IntN(2)]), prio(1 + tw.rnd.IntN(3)), group(fmt.Sprint(tw.rnd.IntN(6))), startBy(worker, tw.tokens)}
	switch tw.rnd.IntN(12) {
	case 0:
		opts = append(opts, draw("rate", 1))
	case 1:
		opts = append(opts, at(tw.clock.Now()+tw.rnd.Int64N(9_000_000)))
	case 2:
		opts = append(opts, expires(tw.clock.Now()+tw.rnd.Int64N(9_000_000)))
	case 3:
		opts = append(opts, unique(fmt.Sprint("u", tw.rnd.IntN(5))))
	}
	tw.write(times(1, opts...))
}

func (tw *twins) write(jobs []store.NewJob) {
	by := ""
	if jobs[0].Start != nil {
		by = " to be started by " + jobs[0].Start.Worker
	}
	tw.both(fmt.Sprintf("insert %d into %+v%s", len(jobs), jobs[0].LaneKey, by), func(i int, s store.Store) string {
		got, err := s.Insert(tw.ctx, jobs)
		// Whoever looks at lines brings lanes up to date with what was announced: until
		// then a lane's share of service counts from another moment than the model's.
		if _, err := s.Lines(tw.ctx); err != nil {
			tw.Fatal(err)
		}
		out := kindOf(err)
		for _, g := range got {
			if g.Verdict == store.Created {
				tw.order[i][g.ID] = len(tw.ids[i])
				tw.ids[i] = append(tw.ids[i], g.ID)
			}
			out += fmt.Sprint(" ", tw.name(i)(g.ID), g.State, g.Verdict)
			if g.Started != nil {
				out += fmt.Sprintf(" started at %d %q", g.Started.Slot-tw.clock.Now(), g.Started.Payload)
				tw.held[i] = append(tw.held[i], *g.Started)
			}
		}
		return out
	})
}

func (tw *twins) claim(worker string) {
	r := tw.request(worker, places(1+tw.rnd.IntN(5)), func(r *store.ClaimRequest) {
		r.SuspectFree = tw.rnd.IntN(3) > 0
		r.Horizon = time.Duration(tw.rnd.IntN(200)) * time.Millisecond
		r.Prefetch = tw.rnd.IntN(3)
	})
	tw.both("claim by "+worker, func(i int, s store.Store) string {
		if err := s.Register(tw.ctx, store.Worker{ID: worker, Lease: lease, Kinds: r.Kinds}); err != nil {
			return err.Error()
		}
		res, err := s.Claim(tw.ctx, r)
		out := fmt.Sprint(kindOf(err), " next ", min(res.NextAt, limit.Never-1)-tw.clock.Now())
		for _, j := range res.Jobs {
			out += fmt.Sprintf(" %s at %d with %v %q", tw.name(i)(j.ID), j.Slot-tw.clock.Now(), j.Charges, j.Payload)
			tw.held[i] = append(tw.held[i], j)
		}
		for _, j := range res.ExpiredJobs {
			out += " expired " + tw.name(i)(j.ID)
		}
		return out
	})
}

// finish ends one or two starts, some of which have long lost their lease.
func (tw *twins) finish() {
	if len(tw.held[0]) == 0 || len(tw.held[0]) != len(tw.held[1]) {
		return
	}
	n := tw.rnd.IntN(len(tw.held[0]))
	outcome := store.Outcome(1 + tw.rnd.IntN(int(store.OutcomeDiscarded)))
	if outcome == store.OutcomeLost {
		outcome = store.OutcomeDone
	}
	at, drop := tw.clock.Now()+tw.rnd.Int64N(4_000_000), tw.rnd.IntN(4) > 0
	tw.both(fmt.Sprint("finish ", outcome), func(i int, s store.Store) string {
		j := tw.held[i][n]
		f := ending(j, outcome)
		f.At, f.Error, f.Reason, f.Result = at, "some error", "", []byte("result")
		if outcome == store.OutcomeDead {
			f.Reason = store.Rejected
		}
		if outcome == store.OutcomeThrottled && len(j.Draws) > 0 {
			f.At, f.Pause = 0, 2*time.Second
			f.Observations = []store.Observed{{Limit: j.Draws[0].Limit, Observation: refusal(tw.clock.Now(), 2*time.Second)}}
		}
		got, err := s.Finish(tw.ctx, []store.Finish{f})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(tw.name(i)(j.ID), " ", kindOf(got[0].Err), got[0].State, got[0].At)
	})
	if drop {
		for i := range tw.held {
			tw.held[i] = slices.Delete(tw.held[i], n, n+1)
		}
	}
}

func (tw *twins) compare() {
	tw.Helper()
	a, b := dump(tw.T, tw.stores[0], tw.name(0)), dump(tw.T, tw.stores[1], tw.name(1))
	if a != b {
		tw.Errorf("the store (-) and the model (+) differ:%s", diff(a, b))
	}
}
