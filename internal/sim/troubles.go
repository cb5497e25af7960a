package sim

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
)

// troubles is the first part of the story: some kinds of trouble, which ones
// the seed says, beside the shop's work. It returns when they are over.
func (w *world) troubles(ctx context.Context) {
	r := w.dice("story")
	length := between(r, 12*time.Second, 30*time.Second)
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var all sync.WaitGroup
	run := func(name string, chance int, fn func(context.Context, *rand.Rand)) {
		on := r.IntN(100) < chance
		dice := w.dice(name)
		if on && !w.done() {
			all.Go(func() { fn(ctx, dice) })
		}
	}
	run("shop", 100, w.selling)
	run("operator", 75, w.operating)
	run("why", 60, w.asking)
	run("sweep", 100, w.sweeping)
	run("weather", 60, w.changing)
	run("clock", 25, w.turning)
	run("api", 50, w.spells)
	for _, p := range w.procs {
		run("life of "+p.name, 70, p.living)
		run("clock of "+p.name, 15, p.turning)
	}
	all.Wait()
}

// every calls fn again and again, with random waits, until ctx ends.
func every(ctx context.Context, r *rand.Rand, lo, hi time.Duration, fn func()) {
	for pauseFor(ctx, between(r, lo, hi)) == nil {
		fn()
	}
}

func (w *world) selling(ctx context.Context, r *rand.Rand) {
	every(ctx, r, 10*time.Millisecond, time.Second, func() { w.shop.enqueue(ctx) })
}

func (w *world) operating(ctx context.Context, r *rand.Rand) {
	every(ctx, r, 200*time.Millisecond, 4*time.Second, func() { w.operate(ctx, r) })
}

// asking has every waiting job explained.
func (w *world) asking(ctx context.Context, r *rand.Rand) {
	every(ctx, r, time.Second, 8*time.Second, func() { w.explain(context.WithoutCancel(ctx)) })
}

func (w *world) explain(ctx context.Context) {
	jobs, err := w.st.Jobs(ctx, store.Filter{States: []store.State{store.Waiting}, N: 100})
	if err != nil {
		w.log.fail(Broken, "list: %v", err)
	}
	for _, j := range jobs {
		why, err := w.st.Why(ctx, j.ID)
		if err != nil {
			w.log.fail(Why, "job %d: %v", j.ID, err)
			continue
		}
		if len(why) == 0 { // it may have been claimed between the two reads
			if now, err := w.st.Job(ctx, j.ID); err != nil || now.State == store.Waiting {
				w.log.fail(Why, "job %d waits, and nothing is said to hold it (%v)", j.ID, err)
			}
		}
		for _, x := range why {
			w.log.count("why: " + string(x.Cause))
		}
	}
}

func (w *world) sweeping(ctx context.Context, r *rand.Rand) {
	every(ctx, r, 5*time.Second, 10*time.Second, func() {
		if n, err := w.st.Sweep(context.WithoutCancel(ctx)); n > 0 || err != nil {
			w.log.fail(Overslept, "the sweep found %d lanes (%v)", n, err)
		}
	})
}

// changing has calls to the store fail, or hang, for one caller or for all.
func (w *world) changing(ctx context.Context, r *rand.Rand) {
	every(ctx, r, 500*time.Millisecond, 8*time.Second, func() {
		wx := weather{over: make(chan struct{})}
		length := between(r, 0, 3*time.Second)
		switch r.IntN(5) {
		case 0:
			wx.before = 1 // down
		case 1:
			wx.hang = true
			length = between(r, 0, 2*lease)
		case 2:
			wx.after = r.Float64()
		default:
			wx.before, wx.after = r.Float64()/3, r.Float64()/3
		}
		whom := append([]*process{w.shop.in.p}, w.procs...)
		if r.IntN(2) == 0 {
			i := r.IntN(len(whom))
			whom = whom[i : i+1]
		}
		w.log.note("weather for %d callers: before %.2f after %.2f hang %v", len(whom), wx.before, wx.after, wx.hang)
		w.log.count("bad weather")
		w.shop.set(whom, wx)
		_ = pauseFor(ctx, length)
		w.shop.set(whom, weather{})
		close(wx.over)
	})
}

func (s *shop) set(whom []*process, wx weather) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range whom {
		s.weather[p] = wx
	}
}

func (w *world) turning(ctx context.Context, r *rand.Rand) {
	every(ctx, r, 4*time.Second, 15*time.Second, func() {
		d := between(r, -3*time.Second, 10*time.Second).Truncate(time.Microsecond)
		w.log.note("the store's clock jumps by %v", d)
		w.log.count("store clock jumped")
		w.clock.jump(d)
	})
}

// spells are times in which the API refuses, or breaks, everything.
func (w *world) spells(ctx context.Context, r *rand.Rand) {
	every(ctx, r, time.Second, 10*time.Second, func() {
		refuse := r.IntN(2) == 0
		w.log.note("the API refuses %v, or breaks", refuse)
		w.apis.spell(refuse, !refuse)
		_ = pauseFor(ctx, between(r, 0, 3*time.Second))
		w.apis.spell(false, false)
	})
}

func (a *apis) spell(refusing, broken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusing, a.broken = refusing, broken
}

// living has a process die, stand still, leave in good order, and come back.
func (p *process) living(ctx context.Context, r *rand.Rand) {
	every(ctx, r, time.Second, 12*time.Second, func() {
		switch r.IntN(5) {
		case 0, 1:
			p.kill()
			_ = pauseFor(ctx, between(r, 0, 3*lease))
			p.boot()
		case 2, 3:
			p.stall(true)
			_ = pauseFor(ctx, between(r, 0, 3*lease))
			p.stall(false)
		case 4:
			p.shutDownSoon()
			_ = pauseFor(ctx, between(r, 0, lease))
			p.boot()
		}
	})
}

func (p *process) turning(ctx context.Context, r *rand.Rand) {
	every(ctx, r, 3*time.Second, 15*time.Second, func() { p.turnClock(between(r, -8*time.Second, 8*time.Second)) })
}

// calmDown ends all troubles. What an operator stopped or cut goes on.
func (w *world) calmDown(ctx context.Context) {
	w.log.note("calm")
	w.calm.Store(true)
	must := func(what string, err error) {
		if err != nil {
			w.log.fail(Broken, "%s: %v", what, err)
		}
	}
	for _, p := range w.procs {
		p.stall(false)
	}
	qs, err := w.st.Queues(ctx)
	must("queues", err)
	for _, q := range qs {
		if q.Paused {
			must("resume queue", w.st.ResumeQueue(ctx, q.Name))
		}
	}
	limits, err := w.st.ListLimits(ctx, "", 100)
	must("limits", err)
	now := w.clock.Now()
	for _, l := range limits {
		if l.Set != "" {
			must("reset", w.st.ResetLimit(ctx, l.Name))
		}
		if until, byPerson, _ := l.State.Paused(now); byPerson && until > now {
			must("resume", w.st.ResumeLimit(ctx, l.Name))
		}
	}
}
