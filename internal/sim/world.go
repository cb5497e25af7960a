package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/memory"
)

// OneThread has everything run on one thread, which the simulation wants for
// itself. It returns a function that puts things back.
func OneThread() (restore func()) {
	before := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(before) }
}

// Options change a run.
type Options struct {
	// Plant puts a bug in, to see whether it is found.
	Plant Plant
	// Trace gets each line of the journal as it is written; nil: nobody does.
	Trace func(line string)
	// StopEarly ends the run at the first violation.
	StopEarly bool
}

// Report is what came of one seed.
type Report struct {
	Seed       uint64
	Violations []Violation
	Digest     uint64        // of the journal
	Simulated  time.Duration // virtual time that went by
	Orders     int           // jobs that the shop tried to enqueue
	Starts     int           // handlers that began
	Facts      map[string]int
}

// world is one simulation under way.
type world struct {
	seed   uint64
	opt    Options
	log    *journal
	clock  *storeClock
	db     *witness
	st     store.Store // without faults, for the shop's books and the judge
	desk   *penstock.Client
	apis   *apis
	orders *orders
	shop   *shop
	procs  []*process
	lives  sync.WaitGroup // of incarnations
	calm   atomic.Bool    // troubles are over
}

// worlds counts the runs. With the collector off, which would else stop goroutines
// wherever they are and so put events of one instant in another order, what they
// leave, some megabytes each, is freed after every worldsKept of them.
var worlds int

const worldsKept = 4

// Run plays one seed. One runs at a time.
func Run(t *testing.T, seed uint64, o Options) (r Report) {
	if worlds++; worlds%worldsKept == 0 {
		runtime.GC()
	}
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, o)
		began := time.Now()
		w.play()
		r = Report{Seed: seed, Violations: w.log.violations, Digest: w.log.digest(), Simulated: time.Since(began),
			Orders: len(w.orders.all), Starts: w.apis.begun, Facts: w.log.facts}
	})
	return r
}

func newWorld(seed uint64, o Options) *world {
	w := &world{seed: seed, opt: o}
	w.log = newJournal(o.Trace)
	w.clock = newStoreClock(w.dice("clock"), w.log)
	w.apis = newAPIs(w)
	w.orders = newOrders()
	w.db = newWitness(w, memory.NewDB(memory.Options{Now: w.clock.Now}))
	w.st = engine.New(w.db)
	return w
}

// dice returns random numbers that depend on the seed and the name only.
func (w *world) dice(name string, n ...int64) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	for _, v := range n {
		h = (h ^ uint64(v)) * 1099511628211
		h ^= h >> 29
	}
	return rand.New(rand.NewPCG(w.seed, h))
}

// die is a source of a few random numbers that costs nothing to make.
type die uint64

// die returns random numbers that depend on the seed, the names and the present
// millisecond, and on nothing else: whether something happened once more before
// does not matter.
func (w *world) die(names ...string) die {
	h := uint64(14695981039346656037) // FNV-1a
	for _, name := range names {
		for i := range len(name) {
			h = (h ^ uint64(name[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	return die(h ^ w.seed<<32 ^ w.seed>>32 ^ uint64(time.Since(w.log.began).Milliseconds())*0xd6e8feb86659fd93)
}

// next is one step of SplitMix64.
func (d *die) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// share returns a number from 0 up to, but not, 1.
func (d *die) share() float64 { return float64(d.next()>>11) / (1 << 53) }

// between returns a random duration from lo up to hi.
func (d *die) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(d.next()%uint64(hi-lo+1))
}

// play is the story: troubles for a while, then a calm in which all that is left
// must come to an end, then judgement.
func (w *world) play() {
	defer func() {
		if v := recover(); v != nil {
			w.log.fail(Broken, "panic: %v", v)
			panic(v) // the bubble cannot be left with goroutines in it
		}
	}()
	ctx, over := context.WithCancel(context.Background())
	defer over()
	var err error
	if w.desk, err = penstock.New(w.st, penstock.Config{Logger: silent, Limits: declared, Random: w.dice("desk").Float64, Lease: lease}); err != nil {
		w.log.fail(Broken, "the desk's client: %v", err)
		return
	}
	w.openShop()
	for i := range 2 + w.dice("processes").IntN(2) {
		p := newProcess(w, fmt.Sprintf("p%d", i))
		w.procs = append(w.procs, p)
		p.boot()
	}
	w.troubles(ctx)
	w.calmDown(ctx)
	w.settle(ctx)
	for _, p := range w.procs {
		p.shutDown()
	}
	w.lives.Wait()
	w.apis.handlers.Wait()
	pause(12 * time.Second) // writes about effects are insisted on for 10 s after a handler
	w.judge(ctx)
	if err := w.desk.Close(); err != nil {
		w.log.fail(Broken, "close: %v", err)
	}
}

// over says that the run need not go on.
func (w *world) done() bool { return w.opt.StopEarly && w.log.broken() }

// settle waits until every job has ended.
func (w *world) settle(ctx context.Context) {
	left := []store.State{store.Waiting, store.Running}
	for range int(patience / settleLook) {
		if w.done() {
			return
		}
		jobs, err := w.st.Jobs(ctx, store.Filter{States: left, N: 1})
		if err != nil {
			w.log.fail(Broken, "list: %v", err)
			return
		}
		if len(jobs) == 0 {
			w.log.note("all jobs have ended")
			return
		}
		pause(settleLook)
	}
	jobs, err := w.st.Jobs(ctx, store.Filter{States: left, N: 1000})
	if err != nil {
		w.log.fail(Broken, "list: %v", err)
	}
	for _, j := range jobs {
		why, err := w.st.Why(ctx, j.ID)
		w.log.fail(Stuck, "job %d (%s, queue %s, draws %v) is still %v after %v of calm, held by %q, why: %v (%v)",
			j.ID, j.Kind, j.Queue, j.Draws, j.State, patience, j.Worker, why, err)
	}
}

const (
	lease       = 3 * time.Second
	patience    = 150 * time.Second      // of calm, in which everything must end
	settleLook  = 500 * time.Millisecond // how often that is looked at
	clockRepair = 5 * time.Second        // how long a process may be wrong about a clock that jumped
	slack       = 3 * time.Millisecond   // error of a process's idea of the store's clock
)

// pause lets virtual time go by.
func pause(d time.Duration) {
	time.Sleep(d)
}

// pauseFor does it until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// between returns a random duration from lo up to hi.
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)+1))
}
