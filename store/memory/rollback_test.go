package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstockhq/penstock/dispatch"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// dump writes every table and index, leaving out the indexes that are empty.
func dump(r *rows) string {
	var lines []string
	v := reflect.ValueOf(*r)
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if f.Kind() != reflect.Map {
			lines = append(lines, fmt.Sprintf("%s: %v", name, f))
			continue
		}
		for it := f.MapRange(); it.Next(); {
			val := it.Value()
			if val.Kind() == reflect.Pointer {
				val = val.Elem()
				if f := val.Field(0); f.Kind() == reflect.Slice && f.Len() == 0 {
					continue
				}
			}
			if val.Kind() == reflect.Map && val.Len() == 0 || name == "stirs" && val.IsZero() {
				continue
			}
			lines = append(lines, fmt.Sprintf("%s %v: %+v", name, it.Key(), val))
		}
	}
	lines = append(lines, fmt.Sprintf("sleeping: %v, live: %v", r.sleeping.entries, r.liveBands.entries))
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// diff returns the lines that only one of the dumps has.
func diff(before, after string) string {
	var b strings.Builder
	bs, as := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, l := range bs {
		if !slices.Contains(as, l) {
			b.WriteString("\n- " + l)
		}
	}
	for _, l := range as {
		if !slices.Contains(bs, l) {
			b.WriteString("\n+ " + l)
		}
	}
	return b.String()
}

// churn does a run of random row operations.
func churn(t *testing.T, tx engine.Tx, rnd *rand.Rand) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 60 {
		id := 1 + rnd.Int64N(20)
		name := fmt.Sprintf("n%d", rnd.IntN(4))
		key := store.LaneKey{Queue: name, Kind: "k", Priority: 5, Group: fmt.Sprint(rnd.IntN(3)),
			Draws: []dispatch.Draw{{Limit: name, Cost: 1}}}
		if rnd.IntN(4) == 0 {
			key.Load = "load"
		}
		lane, err := tx.FindLane(key)
		must(err)
		hot, isHot, err := tx.Job(id)
		must(err)
		switch rnd.IntN(18) {
		case 0, 1, 2:
			must(tx.AddJobs([]*engine.Job{{Lane: lane.ID, State: store.Waiting, At: rnd.Int64N(9)}}, []engine.Body{{Payload: []byte(name)}}))
		case 3:
			lane.State, lane.NextAt, lane.VTime = engine.LaneState(rnd.IntN(3)), rnd.Int64N(9), rnd.Int64N(9)
			must(tx.SaveLane(lane))
		case 4:
			opens := []int64{rnd.Int64N(9), engine.Empty}[rnd.IntN(2)]
			must(tx.SaveGate(engine.Gate{Band: lane.Band.ID, Limit: name, OpensAt: opens}))
		case 5:
			must(tx.WakeGates(name, rnd.Int64N(9)))
		case 6:
			if isHot && hot.State == store.Waiting {
				hot.State, hot.Worker, hot.Charges = store.Running, name, []dispatch.Charge{{Limit: name, Cost: 1}}
				must(tx.Lease([]*engine.Job{hot}))
			}
		case 7:
			if isHot {
				hot.State, hot.FinishedAt = store.Done, rnd.Int64N(9)
				must(tx.EndJobs([]*engine.Job{hot}))
			}
		case 8:
			if ended, err := tx.EndedJobs([]int64{id}); err == nil && ended[0] != nil {
				ended[0].State = store.Waiting
				must(tx.UnendJobs(ended))
			}
		case 9:
			must(tx.DropEnded([]int64{id}))
		case 10:
			must(tx.AddEvent(store.Event{JobID: id, N: rnd.IntN(3)}))
		case 11:
			must(tx.DropEvent(id, rnd.IntN(3)))
		case 12:
			if _, taken, _ := tx.Call("run", fmt.Sprint(id)); !taken {
				must(tx.AddCall(engine.Call{Run: "run", Ref: fmt.Sprint(id), Job: id}))
			}
		case 13:
			must(tx.SaveLimitState(name, []byte(name)[:rnd.IntN(2)]))
			must(tx.SaveLimitRow(engine.LimitRow{Name: name, Set: fmt.Sprint(id)}))
		case 14:
			must(tx.SaveWorker(engine.WorkerRow{Worker: store.Worker{ID: name}, SeenAt: id}))
			must(tx.DropWorker("n0"))
		case 15:
			must(tx.SaveEffect(engine.EffectRow{Key: name, Job: id}))
			must(tx.DropEffect("n0"))
		case 16:
			must(tx.SaveQueue(engine.QueueRow{Name: name}))
			must(tx.DropQueue("n0"))
		case 17:
			must(tx.DropJobs([]int64{id}))
			must(tx.DropBodies([]int64{id}))
			must(tx.ReleaseBands([]int64{lane.Band.ID}))
			_, err := tx.DropGates([]engine.Gate{{Band: lane.Band.ID, Limit: name}})
			must(err)
		}
	}
}

func TestRollbackLeavesEveryRowAsItWas(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	boom := errors.New("boom")
	for round := range 90 {
		var fail func() error
		db := NewDB(Options{Now: func() int64 { return 1 }, BeforeCommit: func() error {
			if fail != nil {
				return fail()
			}
			return nil
		}})
		if err := db.Update(t.Context(), func(tx engine.Tx) error { churn(t, tx, rnd); return nil }); err != nil {
			t.Fatal(err)
		}
		before := dump(&db.rows)
		if round%3 == 0 {
			fail = func() error { return boom }
		}
		func() {
			defer func() { _ = recover() }()
			_ = db.Update(t.Context(), func(tx engine.Tx) error {
				churn(t, tx, rnd)
				if round%3 == 1 {
					panic("boom")
				}
				return boom
			})
		}()
		if after := dump(&db.rows); after != before {
			t.Fatalf("round %d: rows differ after the rollback:%s", round, diff(before, after))
		}
	}
}

func TestIndexesAgreeWithRows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	db := NewDB(Options{})
	for range 60 {
		if err := db.Update(t.Context(), func(tx engine.Tx) error { churn(t, tx, rnd); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	r := &db.rows
	waiting, held := 0, 0
	for _, j := range r.hot {
		if j.State == store.Waiting {
			waiting++
			if es := r.waiting[j.Lane].first(entry{j.At, j.ID}, j.At, 1); len(es) != 1 || es[0].id != j.ID {
				t.Errorf("waiting job %d is not in its lane", j.ID)
			}
		} else {
			held++
			if es := r.held[j.Worker].first(entry{0, j.ID}, 0, 1); len(es) != 1 || es[0].id != j.ID {
				t.Errorf("running job %d is not with its worker", j.ID)
			}
		}
	}
	for _, x := range r.waiting {
		waiting -= len(x.entries)
	}
	for _, x := range r.held {
		held -= len(x.entries)
	}
	for id := range r.bands {
		stirs := 0
		for _, g := range r.gates[id].all() {
			if g.OpensAt != engine.Empty {
				stirs++
			}
		}
		for _, l := range r.lanes {
			if l.Band.ID == id && l.State == engine.LaneSleeping {
				stirs++
			}
		}
		listed := slices.Contains(r.liveBands.entries, entry{0, id})
		if r.stirs[id] != stirs || listed != (stirs > 0) {
			t.Errorf("band %d: %d things stir in it, counted are %d, listed is %v", id, stirs, r.stirs[id], listed)
		}
	}
	if waiting != 0 || held != 0 {
		t.Errorf("the indexes hold rows that are not there: %d waiting, %d held", -waiting, -held)
	}
}
