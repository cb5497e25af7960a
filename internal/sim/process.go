package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstockhq/penstock"
)

// process is one machine of the world: a client and its worker behind a line to
// the store. It is booted, dies, and is booted again as another incarnation.
type process struct {
	w    *world
	name string
	rnd  *rand.Rand
	born int // incarnations so far

	mu     sync.Mutex
	life   *incarnation
	gate   chan struct{} // closed when the stall ends; nil: it does not stand still
	skew   time.Duration // of its clock
	jumped time.Time     // when its clock last jumped
	woke   time.Time     // when it last stood still
}

// incarnation is a process from its start to its end.
type incarnation struct {
	p      *process
	name   string
	born   time.Time
	dead   chan struct{} // closed when it is killed: nothing of it has an effect any more
	stop   context.CancelFunc
	now    chan struct{} // closed: handlers end at once
	ended  chan error
	client *penstock.Client
	open   bool // client is set for good; under the process's lock

	suspects atomic.Int64 // that run
	trouble  atomic.Int64 // when a call to the store last failed or hung, µs since the world began
}

func newProcess(w *world, name string) *process {
	p := &process{w: w, name: name, rnd: w.dice(name)}
	p.skew = between(p.rnd, -time.Hour, time.Hour).Truncate(time.Microsecond)
	return p
}

// boot starts a new incarnation.
func (p *process) boot() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.born++
	ctx, stop := context.WithCancel(context.Background())
	in := &incarnation{p: p, name: fmt.Sprintf("%s.%d", p.name, p.born), born: time.Now(), dead: make(chan struct{}), stop: stop,
		now: make(chan struct{}), ended: make(chan error, 1)}
	p.life = in
	p.w.log.note("%s boots", in.name)
	options := penstock.WorkOptions{Concurrency: 4 + p.rnd.IntN(8), Grace: 2 * time.Second, StopNow: in.now}
	if p.rnd.IntN(3) == 0 {
		options.Queues = []penstock.WorkQueue{{Name: "a", Weight: 3, Reserve: 1}, {Name: "b"}, {Name: "c", Max: 3}}
		options.Weighted = p.rnd.IntN(2) == 0
	}
	p.w.lives.Go(func() { in.ended <- in.run(ctx, options) })
}

// run is main: it tries until the store can be reached, and works.
func (in *incarnation) run(ctx context.Context, o penstock.WorkOptions) error {
	w := in.p.w
	line := newLine(w, in)
	random := func() float64 {
		d := w.die(in.name, "jitter")
		return d.share()
	}
	for {
		err := in.connect(line, random)
		if err == nil {
			err = in.client.Work(ctx, o)
			_ = in.client.Close()
			switch {
			case err == nil, errors.Is(err, context.Canceled): // the latter: told to stop before it began
				return nil
			case ctx.Err() != nil:
				return err
			}
		}
		if pauseFor(ctx, 300*time.Millisecond) != nil {
			return nil
		}
	}
}

func (in *incarnation) connect(line *line, random func() float64) (err error) {
	in.client, err = penstock.New(line, penstock.Config{Logger: silent, Lease: lease, Random: random})
	if err != nil {
		return err
	}
	if err = in.p.w.apis.handle(in); err != nil {
		return err
	}
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	in.open = true
	return nil
}

// serving returns the client of the process if it lives and has connected, else nil.
func (p *process) serving() *penstock.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil || !p.life.open {
		return nil
	}
	return p.life.client
}

// kill has the process vanish: nothing it does from here on has an effect.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return
	}
	p.w.log.note("%s is killed", p.life.name)
	p.w.log.count("killed")
	p.wakeUp()
	in := p.life
	p.life = nil
	close(in.dead)
	close(in.now)
	in.stop()
}

// shutDownSoon tells the process to end, and does not wait.
func (p *process) shutDownSoon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeUp()
	if in := p.life; in != nil {
		p.w.log.note("%s is told to stop", in.name)
		p.w.log.count("stopped")
		p.life = nil
		in.stop()
	}
}

// shutDown ends the process in good order and sees that it does.
func (p *process) shutDown() {
	p.mu.Lock()
	p.wakeUp()
	in := p.life
	p.life = nil
	p.mu.Unlock()
	if in == nil {
		return
	}
	in.stop()
	if err := <-in.ended; err != nil && !p.w.done() {
		p.w.log.fail(Broken, "Work of %s, which was stopped in calm weather: %v", in.name, err)
	}
}

// stall has the process stand still until wake; boot and kill end it, too.
func (p *process) stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !on:
		p.wakeUp()
	case p.gate == nil && p.life != nil:
		p.w.log.note("%s stands still", p.name)
		p.w.log.count("stalled")
		p.gate = make(chan struct{})
	}
}

func (p *process) wakeUp() {
	if p.gate != nil {
		p.w.log.note("%s goes on", p.name)
		close(p.gate)
		p.gate, p.woke = nil, time.Now()
	}
}

// pass waits while the process stands still, and returns false if it is dead.
func (in *incarnation) pass() (alive, stood bool) {
	for {
		in.p.mu.Lock()
		gate := in.p.gate
		in.p.mu.Unlock()
		select {
		case <-in.dead:
			return false, stood
		default:
		}
		if gate == nil {
			return true, stood
		}
		stood = true
		select {
		case <-gate:
		case <-in.dead:
		}
	}
}

// rough says whether calls to the store have failed or hung lately: claims whose
// reply was lost bring their jobs late.
func (in *incarnation) rough() bool {
	at := in.trouble.Load()
	return at != 0 && in.p.w.log.now()-at < clockRepair.Microseconds()
}

// stoodSince says whether the process stood still at the instant or later.
func (p *process) stoodSince(at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.woke.Before(at)
}

// turnClock has the process's clock jump.
func (p *process) turnClock(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew += d.Truncate(time.Microsecond)
	p.jumped = time.Now()
	p.w.log.note("the clock of %s jumps by %v", p.name, d)
	p.w.log.count("process clock jumped")
}

// shift is what the process takes the store's clock to be ahead of what it is.
func (p *process) shift() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.skew.Microseconds()
}

// misled says whether it may still translate by a clock that has jumped: while
// it has not had clockRepair, in which it could look at the store's clock.
func (in *incarnation) misled() bool {
	jumped := in.p.w.clock.jumped()
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	if in.p.jumped.After(jumped) {
		jumped = in.p.jumped
	}
	if !jumped.After(in.born) {
		return false
	}
	good := jumped
	if in.p.woke.After(good) {
		good = in.p.woke
	}
	if at := in.p.w.log.began.Add(time.Duration(in.trouble.Load()) * time.Microsecond); at.After(good) {
		good = at
	}
	return time.Since(good) <= clockRepair
}
