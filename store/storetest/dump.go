package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/penstockhq/penstock/store"
)

// dump writes down all that can be read of a store, to compare it with
// another one or with itself. name says how a job's id is written.
func dump(t testing.TB, s store.Store, name func(int64) string) string {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	for _, j := range all(t, s, store.Filter{Bodies: true}) {
		id := j.ID
		j.ID = 0
		fmt.Fprintf(&b, "job %s: %+v\n", name(id), j)
		evs, err := s.Events(ctx, id)
		must(err)
		for _, ev := range evs {
			ev.JobID = 0
			fmt.Fprintf(&b, "  event %+v\n", ev)
		}
	}
	qs, err := s.Queues(ctx)
	must(err)
	for _, q := range qs {
		fmt.Fprintf(&b, "queue %+v\n", q)
	}
	now, err := s.Now(ctx)
	must(err)
	ls, err := s.ListLimits(ctx, "", 1000)
	must(err)
	for _, l := range ls {
		until, byPerson, reason := l.State.Paused(now)
		fmt.Fprintf(&b, "limit %s: declared %q, set %q, in flight %d, last slot %d, paused %d %v %q\n",
			l.Name, l.Declared, l.Set, l.State.InFlight(), l.State.LastSlot(), until, byPerson, reason)
	}
	ws, err := s.Workers(ctx)
	must(err)
	for _, w := range ws {
		fmt.Fprintf(&b, "worker %s seen %d holds %d\n", w.ID, w.SeenAt, w.Holds)
	}
	return b.String()
}

func number(id int64) string { return fmt.Sprint(id) }

// diff returns the lines that only one of two prints has.
func diff(a, b string) string {
	inA, inB := map[string]bool{}, map[string]bool{}
	for _, l := range strings.Split(a, "\n") {
		inA[l] = true
	}
	for _, l := range strings.Split(b, "\n") {
		inB[l] = true
	}
	var out strings.Builder
	for _, l := range strings.Split(a, "\n") {
		if !inB[l] {
			fmt.Fprintf(&out, "\n- %s", l)
		}
	}
	for _, l := range strings.Split(b, "\n") {
		if !inA[l] {
			fmt.Fprintf(&out, "\n+ %s", l)
		}
	}
	return out.String()
}
