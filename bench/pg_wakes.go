package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store/postgres"
)

type wakesArgs struct {
	Path      string
	Isolation pgx.TxIsoLevel
	For       time.Duration
}

type wakesResult struct {
	Transactions, Jobs int
	Stranded           int   // committed jobs that nobody had started seconds later
	Finds              int64 // lanes that a sweep found asleep though they had work
	Conflicts          int   // errors of users' transactions that told them to try again
	Pickup             percentiles
	Claim, Finish      time.Duration // the longest that workers waited
	Insert             time.Duration // and those who enqueued beside them
	InsertP99          float64
}

const (
	usersHold    = 2 * time.Second // how long a user's transaction stays open
	usersAtOnce  = 8
	wakesGroups  = 10
	strandedWhen = 5 * time.Second
)

// hammer has users' transactions enqueue into lanes that others use meanwhile.
type hammer struct {
	a       wakesArgs
	pool    *pgxpool.Pool
	c       *penstock.Client
	next    atomic.Uint64
	started sync.Map // id of a job → when its handler began

	mu        sync.Mutex
	committed map[uint64]time.Time
	inserts   []time.Duration
	r         wakesResult
	err       error
}

// wakesStep hammers, with two workers, and looks what became of the jobs.
var wakesStep = newStep("wakes", func(ctx context.Context, a wakesArgs) (r wakesResult, err error) {
	cfg, err := pgxpool.ParseConfig(a.Path)
	if err != nil {
		return r, err
	}
	cfg.MaxConns = usersAtOnce
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return r, err
	}
	defer pool.Close()
	h := &hammer{a: a, pool: pool, committed: map[uint64]time.Time{}}
	limits := map[string]string{"api": "1000000/s"}
	if h.c, err = penstock.Open(ctx, a.Path, penstock.Config{Logger: quiet, Limits: limits}); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, h.c.Close()) }()

	working, stop := context.WithCancel(ctx)
	defer stop()
	var stores [2]*timedStore
	ended := make(chan error, len(stores))
	for i := range stores {
		s, err := postgres.Open(ctx, a.Path, postgres.Options{})
		if err != nil {
			return r, err
		}
		defer s.Close()
		stores[i] = &timedStore{Store: s}
		c, err := penstock.New(stores[i], penstock.Config{Logger: quiet, Limits: limits})
		if err != nil {
			return r, err
		}
		err = penstock.Handle(c, "noop", func(_ context.Context, job *penstock.Job[[]byte]) error {
			h.started.LoadOrStore(binary.BigEndian.Uint64(job.Args), time.Now())
			return nil
		}, penstock.Kind{})
		if err != nil {
			return r, err
		}
		go func() { ended <- c.Work(working, penstock.WorkOptions{Concurrency: places}) }()
	}
	time.Sleep(time.Second) // they are there
	for _, s := range stores {
		s.claim.Store(0)
		s.finish.Store(0)
	}
	h.run(ctx)
	h.look()
	stop()
	for _, s := range stores {
		err = errors.Join(err, <-ended)
		h.r.Claim, h.r.Finish = max(h.r.Claim, time.Duration(s.claim.Load())), max(h.r.Finish, time.Duration(s.finish.Load()))
	}
	if _, e := stores[0].Sweep(ctx); e != nil {
		err = errors.Join(err, e)
	}
	found, e := stores[0].Checkup(ctx)
	h.r.Finds = found.SweepFinds
	return h.r, errors.Join(err, h.err, e)
})

// run lets users and others enqueue for a while.
func (h *hammer) run(ctx context.Context) {
	var all sync.WaitGroup
	until := time.Now().Add(h.a.For)
	for range usersAtOnce {
		all.Go(func() {
			time.Sleep(rand.N(usersHold)) // not in step
			for time.Now().Before(until) && h.user(ctx) {
			}
		})
	}
	for range 4 {
		all.Go(func() {
			for time.Now().Before(until) && h.other(ctx) {
				time.Sleep(rand.N(10 * time.Millisecond))
			}
		})
	}
	all.Wait()
}

// jobs makes n jobs for lanes drawn at random, and their ids.
func (h *hammer) jobs(n int) (jobs []penstock.NewJob, ids []uint64) {
	for range n {
		id := h.next.Add(1)
		j := penstock.NewJob{Kind: "noop", Payload: binary.BigEndian.AppendUint64(nil, id), Group: fmt.Sprint("g", rand.N(wakesGroups))}
		if rand.N(2) == 0 {
			j.Limits = penstock.Draws("api")
		}
		jobs, ids = append(jobs, j), append(ids, id)
	}
	return jobs, ids
}

// user runs one transaction, and reports whether to go on.
func (h *hammer) user(ctx context.Context) bool {
	var ids []uint64
	err := pgx.BeginTxFunc(ctx, h.pool, pgx.TxOptions{IsoLevel: h.a.Isolation}, func(tx pgx.Tx) error {
		for range 4 {
			jobs, some := h.jobs(1 + rand.N(3))
			if _, err := h.c.EnqueueManyTx(ctx, tx, jobs); err != nil {
				return err
			}
			ids = append(ids, some...)
			time.Sleep(usersHold / 4)
		}
		return nil
	})
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.r.Transactions++
	var told interface{ SQLState() string }
	switch {
	case err == nil:
		for _, id := range ids {
			h.committed[id] = now
		}
	case errors.As(err, &told) && (told.SQLState() == "40001" || told.SQLState() == "40P01"):
		h.r.Conflicts++
	default:
		h.err = errors.Join(h.err, err)
		return false
	}
	return true
}

// other enqueues a job as most do.
func (h *hammer) other(ctx context.Context) bool {
	jobs, ids := h.jobs(1)
	before := time.Now()
	_, err := h.c.EnqueueMany(ctx, jobs)
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.err = errors.Join(h.err, err)
		return false
	}
	h.committed[ids[0]] = now
	h.inserts = append(h.inserts, now.Sub(before))
	return true
}

// look waits until all jobs were started, or it is plain that some never are.
func (h *hammer) look() {
	var took []time.Duration
	for deadline := time.Now().Add(strandedWhen); len(h.committed) > 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for id, at := range h.committed {
			if began, ok := h.started.Load(id); ok {
				took = append(took, began.(time.Time).Sub(at))
				delete(h.committed, id)
			}
		}
	}
	h.r.Jobs, h.r.Stranded = len(took)+len(h.committed), len(h.committed)
	h.r.Pickup = percentilesOf(took)
	h.r.InsertP99, h.r.Insert = percentile(h.inserts, 99), time.Duration(percentile(h.inserts, 100)*float64(time.Millisecond))
}

// pgWakesScenario has users' transactions that stay open enqueue into lanes that are in use.
func pgWakesScenario(ctx context.Context, l *lab) error {
	for round := range min(l.rounds, 2) {
		for _, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
			if err := wakesOnce(ctx, l, round, isolation); err != nil {
				return fmt.Errorf("%s: %w", isolation, err)
			}
		}
	}
	return nil
}

func wakesOnce(ctx context.Context, l *lab, round int, isolation pgx.TxIsoLevel) error {
	path, err := l.place(ctx)
	if err != nil {
		return err
	}
	defer l.forget(path)
	r, _, err := wakesStep.run(ctx, l, wakesArgs{path, isolation, pick(l, 10*time.Second, 3*time.Second)})
	if err != nil {
		return err
	}
	name := string(isolation)
	l.add(name+": jobs stranded", "jobs", float64(r.Stranded)+float64(r.Finds))
	l.add(name+": users' transactions told to try again", "", float64(r.Conflicts))
	longest := max(r.Claim, r.Finish, r.Insert)
	l.add(name+": longest wait of anybody else", "ms", milliseconds(longest))
	l.add(name+": longest claim", "ms", milliseconds(r.Claim))
	l.add(name+": longest finish", "ms", milliseconds(r.Finish))
	l.add(name+": longest enqueue", "ms", milliseconds(r.Insert))
	l.add(name+": enqueue p99", "ms", r.InsertP99)
	l.add(name+": from commit to start p50", "ms", r.Pickup.P50)
	l.atMost(name+": jobs stranded", 0)
	l.atMost(name+": users' transactions told to try again", 0)
	l.atMost(name+": longest wait of anybody else", 50)
	l.say("round %d: %s: %d jobs, %d transactions of users; %d stranded, %d swept, %d told to try again; longest claim %.0f, finish %.0f, enqueue %.0f ms", round+1,
		name, r.Jobs, r.Transactions, r.Stranded, r.Finds, r.Conflicts, milliseconds(r.Claim), milliseconds(r.Finish), milliseconds(r.Insert))
	return nil
}
