package penstock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/penstockhq/penstock/store"
)

// worker is one Work under way. Its loops are fetch, heartbeat, rescue, sweep,
// oversee and the finisher's run; each has a file of its name.
type worker struct {
	c      *Client
	st     store.Store
	log    *slog.Logger
	o      WorkOptions
	kinds  []string
	kindOf func(name string) *kindEntry

	private   bool        // it runs the permits of Acquire
	recordAll bool        // somebody waits for outcomes to be stored
	idle      func() bool // says that there is nothing to claim; nil: never

	life     context.Context // of calls to the store: ends last
	end      context.CancelFunc
	handlers context.Context // of handlers
	stopAll  context.CancelCauseFunc

	telling     context.Context // of OnDead
	stopTelling context.CancelFunc

	fin      *finisher
	wake     chan struct{}
	fetched  chan struct{} // closed when fetch has ended
	running  sync.WaitGroup
	hooks    sync.WaitGroup
	hookRoom chan struct{}
	lead     lead // how far ahead slots have to lie
	beats    chan struct{}

	claimedAs string  // fetch's own: the identity of its last claim
	horizon   horizon // fetch's own

	mu        sync.Mutex
	id        string
	held      map[int64]*start // claimed, and the outcome not stored
	wishes    map[int64]bool   // tokens of the jobs that are being enqueued to be started here
	places    places
	asking    bool                 // see setAsking
	short     bool                 // see setShort
	idleUntil int64                // see setShort
	looksAt   time.Time            // when fetch looks again, whatever happens; zero: it does not, or is awake
	ending    bool                 // told to stop: nothing more begins
	hooksOver bool                 // no more calls of OnDead begin
	freed     bool                 // a place got free since the last claims
	refused   bool                 // or one would be: an API has nothing left, since the last claim
	claiming  int64                // token of the claim under way
	unknown   map[store.Lease]bool // leases the last heartbeat told of that we do not hold
	beat      time.Time            // when the last heartbeat that arrived was sent
	badBeat   time.Time            // when heartbeats last failed
	saidFull  bool
}

func newWorkerID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (c *Client) newWorker(ctx context.Context, o WorkOptions, kinds []string) *worker {
	w := &worker{
		c: c, st: c.st, log: c.log, o: o, kinds: kinds, kindOf: c.kind,
		wake: make(chan struct{}, 1), fetched: make(chan struct{}), hookRoom: make(chan struct{}, 8),
		beats: make(chan struct{}, 1),
		id:    newWorkerID(), held: map[int64]*start{}, wishes: map[int64]bool{},
	}
	w.places = places{all: firstOf(o.Concurrency, autoFirst), byQueue: map[string]int{}}
	w.fin = newFinisher(w)
	// Values of ctx reach handlers, its end does not: that is what Grace is for.
	base := context.WithoutCancel(ctx)
	w.life, w.end = context.WithCancel(base)
	w.telling, w.stopTelling = context.WithCancel(w.life)
	w.handlers, w.stopAll = context.WithCancelCause(base)
	return w
}

func (w *worker) describe(id string) store.Worker {
	host, _ := os.Hostname() // for people only
	return store.Worker{ID: id, Host: host, PID: os.Getpid(), Kinds: w.kinds, Run: w.o.Run, Lease: w.c.cfg.Lease}
}

func (w *worker) grace() time.Duration { return firstOf(w.o.Grace, DefaultGrace) }

// busy is how many jobs are held, or may be in a moment.
func (w *worker) busy() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held) + len(w.wishes)
}

// sayBeat lets tests see that a heartbeat was made.
func (w *worker) sayBeat() {
	select {
	case w.beats <- struct{}{}:
	default:
	}
}

// run works until ctx ends or, with Drain, nothing is left.
func (w *worker) run(ctx context.Context) error {
	if ctx.Err() != nil { // told to stop before it began
		w.end()
		w.stopAll(nil)
		return nil
	}
	if err := w.begin(ctx); err != nil {
		if ctx.Err() != nil { // told to stop meanwhile: nothing has begun
			return nil
		}
		return fmt.Errorf("penstock: work: %w", err)
	}
	if err := w.work(ctx); err != nil {
		return fmt.Errorf("penstock: work: %w", err)
	}
	return nil
}

// begin makes the worker known, to the client first: a closed one has no workers.
func (w *worker) begin(ctx context.Context) error {
	w.beat = time.Now()
	err := store.ErrClosed
	if w.c.addWorker(w) {
		if err = w.st.Register(ctx, w.describe(w.id)); err == nil {
			return nil
		}
		w.c.dropWorker(w)
	}
	w.end()
	w.stopAll(nil)
	return fmt.Errorf("register: %w", err)
}

func (w *worker) work(ctx context.Context) error {
	defer w.c.dropWorker(w)
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){w.heartbeat, w.rescue, w.sweep, w.oversee, w.fin.run} {
		loops.Go(func() { loop(w.life) })
	}
	fetching, stopFetch := context.WithCancel(ctx)
	defer stopFetch()
	go w.fetch(fetching)
	var closing <-chan struct{}
	if !w.private { // handlers that are ending may still need permits
		closing = w.c.closing
	}
	select {
	case <-ctx.Done():
	case <-closing:
	case <-w.o.StopNow:
	case <-w.fetched: // drained
	}
	stopFetch()
	<-w.fetched
	err := w.shutDown()
	w.end()
	loops.Wait()
	return err
}

// shutDown is the way out, in this order: give back what has not begun, let
// handlers end, store their outcomes, say goodbye. Heartbeats go on until the
// end, so that nobody takes a job over that is still being run.
func (w *worker) shutDown() error {
	w.mu.Lock()
	w.ending = true
	waiting := w.places.takeWaiting()
	for _, s := range w.held {
		s.stopWaiting(errNotBegun)
	}
	w.mu.Unlock()
	for _, s := range waiting {
		w.giveBack(s)
	}
	ended := make(chan struct{})
	go func() { w.running.Wait(); close(ended) }()
	grace := time.NewTimer(w.grace())
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		w.log.Warn("handlers did not end within the grace: they are stopped", "grace", w.grace(), "handlers", w.busy())
	case <-w.o.StopNow:
	}
	w.stopEverything()
	stubborn := time.NewTimer(lastGrace)
	defer stubborn.Stop()
	select {
	case <-ended:
	case <-stubborn.C:
		w.abandonAll()
	}
	patience := max(w.grace(), lastGrace)
	if w.c.trouble.report(illAfter) != nil {
		patience = lastGrace // the store has had its time
	}
	flush, cancel := context.WithTimeout(w.life, patience)
	defer cancel()
	err := w.fin.flush(flush)
	w.awaitHooks()
	w.mu.Lock()
	id := w.id
	w.mu.Unlock()
	if e := w.st.Deregister(flush, id); e != nil && err == nil {
		w.log.Warn("this worker could not be deregistered; it is forgotten when its lease is over", "error", e)
	}
	return err
}

// lastGrace is how long handlers get to return once they were cancelled.
const lastGrace = 5 * time.Second

func (w *worker) stopEverything() {
	w.mu.Lock()
	for _, s := range w.held {
		s.stop(ErrStopped)
	}
	w.mu.Unlock()
	w.stopAll(ErrStopped)
}

// abandonAll ends the starts whose handlers ignore that they were cancelled.
func (w *worker) abandonAll() {
	w.mu.Lock()
	left := make([]*start, 0, len(w.held))
	for _, s := range w.held {
		left = append(left, s)
	}
	w.mu.Unlock()
	for _, s := range left {
		w.abandon(s)
	}
}

func (c *Client) addWorker(w *worker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.workers[w] = true
	if !w.private {
		c.works.Add(1)
	}
	return true
}

func (c *Client) dropWorker(w *worker) {
	c.mu.Lock()
	delete(c.workers, w)
	c.mu.Unlock()
	c.trouble.forget(w)
	if !w.private {
		c.works.Done()
	}
}
