package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
)

// declared are the limits of the world. They are fast enough for all that waits
// to get through in the calm.
var declared = map[string]string{
	"fast":  "3/200ms",
	"slow":  "8/1s burst 3, 40/10s",
	"cap":   "2 in flight",
	"both":  "6/500ms, 3 in flight",
	"key/*": "4/500ms, 1 in flight",
	"free":  "unlimited",
}

// others are specs that an operator sets meanwhile.
var others = []string{"2/200ms", "10/1s", "20/1s, 4 in flight", "1 in flight", "5 in flight", "4/1s burst 1", "unlimited"}

// pattern returns the name under which a limit's spec is declared.
func pattern(name string) string {
	if base, _, ok := strings.Cut(name, "/"); ok {
		return base + "/*"
	}
	return name
}

// orders are the shop's books.
type orders struct {
	mu      sync.Mutex
	all     []*order
	replays map[int64]int // by job
}

// order is one job that the shop wanted.
type order struct {
	n   int
	job penstock.NewJob
	got penstock.Enqueued
	ok  bool // the store said that it is there
}

func newOrders() *orders { return &orders{replays: map[int64]int{}} }

// shop enqueues, and knows the weather.
type shop struct {
	w   *world
	in  *incarnation
	rnd *rand.Rand

	mu      sync.Mutex
	weather map[*process]weather
	client  *penstock.Client
}

// weatherAt is what a process's calls to the store meet now.
func (s *shop) weatherAt(p *process) weather {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.weather[p]
}

// open opens the shop: a process of its own, that only enqueues and never dies.
func (w *world) openShop() {
	p := newProcess(w, "shop")
	s := &shop{w: w, rnd: w.dice("orders"), weather: map[*process]weather{}}
	s.in = &incarnation{p: p, name: "shop", dead: make(chan struct{})}
	w.shop = s
	line := newLine(w, s.in)
	var err error
	if s.client, err = penstock.New(line, penstock.Config{Logger: silent, Random: w.dice("spread").Float64, Lease: lease}); err != nil {
		w.log.fail(Broken, "the shop's client: %v", err)
	}
}

// draw makes up a job.
func (s *shop) draw(n int) penstock.NewJob {
	r := s.rnd
	j := penstock.NewJob{Kind: plain, Payload: Payload{n}, Limits: []penstock.Draw{}}
	if r.IntN(2) == 0 {
		j.Kind = kinds[r.IntN(len(kinds))]
	}
	j.AtMostOnce = j.Kind == wire
	j.Queue = []string{"a", "b", "c"}[r.IntN(3)]
	if r.IntN(2) == 0 {
		j.Priority = 1 + 4*r.IntN(3)
	}
	if r.IntN(2) == 0 {
		j.Group = fmt.Sprint("g", r.IntN(3))
	}
	for _, name := range []string{"fast", "slow", "cap", "both", "free", fmt.Sprint("key/", r.IntN(2))} {
		if r.IntN(5) == 0 {
			d := penstock.Draw{Limit: name, Cost: 1}
			if r.IntN(6) == 0 {
				d.Cost = 2
			}
			j.Limits = append(j.Limits, d)
		}
	}
	switch r.IntN(8) {
	case 0, 1:
		j.Delay = between(r, 0, 8*time.Second)
	case 2:
		j.Spread = between(r, 0, 4*time.Second)
	case 3:
		j.ExpiresIn = between(r, 0, 5*time.Second)
	}
	switch r.IntN(6) {
	case 0:
		j.Unique, j.Replace = fmt.Sprint(j.Kind, r.IntN(3)), r.IntN(2) == 0
	case 1, 2:
		j.Run, j.Ref, j.Hash = "run", fmt.Sprint("order-", n), "h"
	}
	if r.IntN(10) == 0 {
		j.Attempts = 1
	}
	return j
}

// enqueue brings a batch to the store. What has a ref is tried until it is
// there; of the rest the shop does not know, after an error, whether it is.
func (s *shop) enqueue(ctx context.Context) {
	w := s.w
	size := 1
	if s.rnd.IntN(4) == 0 {
		size += s.rnd.IntN(6)
	}
	refs := s.rnd.IntN(3) == 0
	var batch []*order
	var jobs []penstock.NewJob
	for range size {
		w.orders.mu.Lock()
		o := &order{n: len(w.orders.all)}
		o.job = s.draw(o.n)
		w.orders.all = append(w.orders.all, o)
		w.orders.mu.Unlock()
		if refs {
			o.job.Unique, o.job.Replace = "", false
			o.job.Run, o.job.Ref, o.job.Hash = "run", fmt.Sprint("order-", o.n), "h"
		}
		batch, jobs = append(batch, o), append(jobs, o.job)
	}
	client := s.client
	if s.rnd.IntN(3) > 0 && size == 1 && !refs {
		// The order comes to a process that works, which may start the job at once.
		if c := w.procs[s.rnd.IntN(len(w.procs))].serving(); c != nil {
			client = c
		}
	}
	for {
		got, err := client.EnqueueMany(ctx, jobs)
		switch {
		case err == nil:
			w.orders.mu.Lock()
			for i, o := range batch {
				o.got, o.ok = got[i], true
			}
			w.orders.mu.Unlock()
			for i := range got {
				w.log.note("order %d is job %d (%s, draws %v), new %v, replaced %v", batch[i].n, got[i].ID, jobs[i].Kind, jobs[i].Limits, got[i].New, got[i].Replaced)
				if !got[i].New && jobs[i].Ref != "" {
					w.log.count("enqueued again by ref")
				}
			}
			return
		case ctx.Err() != nil, errors.Is(err, errDead): // closing time, or the process is killed
			w.log.count("enqueued perhaps")
			return
		case !errors.Is(err, errDown):
			w.log.fail(Broken, "enqueue: %v", err)
			return
		case !refs:
			w.log.count("enqueued perhaps")
			return
		}
		if pauseFor(ctx, 200*time.Millisecond) != nil {
			return
		}
	}
}

// operate is what a person does now and then.
func (w *world) operate(ctx context.Context, r *rand.Rand) {
	must := func(what string, err error) {
		w.log.note("operator: %s", what)
		w.log.count("operator: " + strings.Fields(what)[0])
		if err != nil {
			w.log.fail(Broken, "%s: %v", what, err)
		}
	}
	name := []string{"fast", "slow", "cap", "both", "key/*", "free"}[r.IntN(6)]
	queue := []string{"a", "b", "c"}[r.IntN(3)]
	one := name
	if name == "key/*" {
		one = "key/0"
	}
	switch r.IntN(10) {
	case 0, 1:
		spec := others[r.IntN(len(others))]
		must("set "+name+" to "+spec, w.desk.SetLimit(ctx, name, spec))
	case 2:
		must("reset "+name, w.desk.ResetLimit(ctx, name))
	case 3:
		until := time.Now().Add(between(r, 0, 6*time.Second))
		if r.IntN(3) == 0 {
			until = time.Time{}
		}
		err := w.desk.PauseLimit(ctx, one, until, "for a test")
		if err != nil && strings.Contains(err.Error(), "is over already") { // the store's clock jumped past it
			err = nil
		}
		must("pause "+one, err)
	case 4:
		must("resume "+one, w.desk.ResumeLimit(ctx, one))
	case 5:
		must("stop queue "+queue, w.st.PauseQueue(ctx, queue, "for a test"))
	case 6:
		must("go-on queue "+queue, w.st.ResumeQueue(ctx, queue))
	case 7, 8:
		w.cancel(ctx, r)
	case 9:
		w.replay(ctx, r)
	}
}

func (w *world) cancel(ctx context.Context, r *rand.Rand) {
	jobs, err := w.st.Jobs(ctx, store.Filter{States: []store.State{store.Waiting, store.Running}, N: 50})
	if err != nil || len(jobs) == 0 {
		return
	}
	j := jobs[r.IntN(len(jobs))]
	state, err := w.desk.Cancel(ctx, j.ID)
	w.log.note("operator: cancel %d: %v", j.ID, state)
	w.log.count("operator: cancel " + state.String())
	if err != nil {
		w.log.fail(Broken, "cancel of job %d: %v", j.ID, err)
	}
}

func (w *world) replay(ctx context.Context, r *rand.Rand) {
	jobs, err := w.st.Jobs(ctx, store.Filter{States: []store.State{store.Dead, store.Cancelled}, N: 50})
	if err != nil || len(jobs) == 0 {
		return
	}
	j := jobs[r.IntN(len(jobs))]
	err = w.desk.Replay(ctx, []int64{j.ID}, penstock.ReplayOptions{})
	if err != nil && !errors.Is(err, penstock.ErrUniqueTaken) {
		w.log.fail(Broken, "replay of job %d: %v", j.ID, err)
		return
	}
	w.log.note("operator: replay %d", j.ID)
	w.log.count("operator: replay")
	if err == nil {
		w.orders.mu.Lock()
		w.orders.replays[j.ID]++
		w.orders.mu.Unlock()
	}
}
