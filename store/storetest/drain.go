package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Drain plays the end of the story: all workers leave, all queues and limits
// are resumed, and one worker claims and finishes whatever waits, moving the
// clock to each NextAt. It fails if a job is never reached.
func Drain(t testing.TB, s store.Store, clock *Clock) {
	t.Helper()
	ctx := context.Background()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("drain: %s: %v", what, err)
		}
	}
	ws, err := s.Workers(ctx)
	must("Workers", err)
	for _, w := range ws {
		must("Deregister", s.Deregister(ctx, w.ID))
	}
	qs, err := s.Queues(ctx)
	must("Queues", err)
	for _, q := range qs {
		if q.Paused {
			must("ResumeQueue", s.ResumeQueue(ctx, q.Name))
		}
	}
	limits, err := s.ListLimits(ctx, "", 1000)
	must("ListLimits", err)
	for _, l := range limits {
		if !strings.HasSuffix(l.Name, "/*") {
			must("ResumeLimit", s.ResumeLimit(ctx, l.Name))
		}
	}
	waiting := all(t, s, store.Filter{States: []store.State{store.Waiting}})
	kinds := map[string]bool{}
	r := store.ClaimRequest{Worker: "drain", Token: 1 << 40, Places: 100, SuspectFree: true}
	for _, j := range waiting {
		if !kinds[j.Kind] {
			kinds[j.Kind] = true
			r.Kinds = append(r.Kinds, j.Kind)
		}
	}
	if len(waiting) == 0 {
		return
	}
	worker := store.Worker{ID: "drain", Lease: lease, Kinds: r.Kinds}
	must("Register", s.Register(ctx, worker))
	for steps := 20*len(waiting) + 1000; steps > 0; steps-- {
		r.Token++
		res, err := s.Claim(ctx, r)
		if errors.Is(err, store.ErrUnknownWorker) { // the clock went past its lease
			must("Register", s.Register(ctx, worker))
			continue
		}
		must("Claim", err)
		var fs []store.Finish
		for _, j := range res.Jobs {
			fs = append(fs, ending(j, store.OutcomeDone))
		}
		if len(fs) > 0 {
			_, err := s.Finish(ctx, fs)
			must("Finish", err)
			continue
		}
		if res.NextAt >= engine.Held {
			break
		}
		clock.To(res.NextAt)
	}
	must("Deregister", s.Deregister(ctx, "drain"))
	for _, j := range all(t, s, store.Filter{States: []store.State{store.Waiting, store.Running}}) {
		t.Errorf("drain: job %d was never reached: %+v", j.ID, j)
	}
}
