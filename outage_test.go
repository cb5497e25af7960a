package penstock_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// dumb is a store that can be made to fail in every call of a worker, or to say
// nothing, as over a connection that swallows what is sent.
type dumb struct {
	store.Store

	mu            sync.Mutex
	silent, fails bool
}

func (d *dumb) set(silent, fails bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent, d.fails = silent, fails
}

func (d *dumb) ask(ctx context.Context) error {
	d.mu.Lock()
	silent, fails := d.silent, d.fails
	d.mu.Unlock()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if fails {
		return errStore
	}
	return nil
}

func (d *dumb) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	if err := d.ask(ctx); err != nil {
		return store.ClaimResult{}, err
	}
	return d.Store.Claim(ctx, r)
}

func (d *dumb) Finish(ctx context.Context, fs []store.Finish) ([]store.Finished, error) {
	within, cancel := context.WithTimeout(ctx, 10*time.Second) // as stores do themselves
	defer cancel()
	if err := d.ask(within); err != nil {
		return nil, err
	}
	return d.Store.Finish(ctx, fs)
}

func (d *dumb) Heartbeat(ctx context.Context, worker string) ([]store.Lease, error) {
	if err := d.ask(ctx); err != nil {
		return nil, err
	}
	return d.Store.Heartbeat(ctx, worker)
}

func (d *dumb) Rescue(ctx context.Context, lostMax int) ([]store.Job, error) {
	if err := d.ask(ctx); err != nil {
		return nil, err
	}
	return d.Store.Rescue(ctx, lostMax)
}

func (d *dumb) Cancels(ctx context.Context, worker string) ([]int64, error) {
	if err := d.ask(ctx); err != nil {
		return nil, err
	}
	return d.Store.Cancels(ctx, worker)
}

func (d *dumb) Now(ctx context.Context) (int64, error) {
	if err := d.ask(ctx); err != nil {
		return 0, err
	}
	return d.Store.Now(ctx)
}

func (d *dumb) Ping(ctx context.Context) error { return d.ask(ctx) }

// TestA2_AnOutageIsSaidAndEnds: after an outage the process looked healthy, logged
// nothing and ran nothing until someone restarted it (taskforcesh/bullmq#648,
// #2964, #4378; sidekiq/sidekiq#3684).
func TestA2_AnOutageIsSaidAndEnds(t *testing.T) {
	for name, silent := range map[string]bool{"calls fail": false, "calls hang": true} {
		for _, lasts := range []time.Duration{10 * time.Second, 90 * time.Second, 10 * time.Minute} {
			t.Run(name+" for "+lasts.String(), func(t *testing.T) {
				virtual(t, func(t *testing.T) { outage(t, silent, lasts) })
			})
		}
	}
}

func outage(t *testing.T, silent bool, lasts time.Duration) {
	var said bytes.Buffer
	d := &dumb{Store: memory.New(memory.Options{})}
	c := clientOver(t, d, penstock.Config{Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	var seen calls
	handle(t, c, "call", penstock.Kind{}, func(ctx context.Context, j *penstock.Job[string]) error {
		seen.note(j.Args)
		if j.Args == "long" {
			return sleepFor(ctx, 5*time.Second)
		}
		return nil
	})
	working(t, c, penstock.WorkOptions{Concurrency: 10})
	enqueue(t, c, "call", "long") // an outage while jobs run, too
	pass(time.Second)
	d.set(silent, !silent)
	for range 50 {
		enqueue(t, c, "call", "later") // it is signalled, so a claim is made
	}
	pass(lasts)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := c.Health(ctx); err == nil {
		t.Error("Health is well in an outage")
	}
	d.set(false, false)
	pass(14 * time.Second) // less than the lease, for which it calls nobody else dead
	if n := seen.count("later"); n != 50 {
		t.Errorf("14 s after the outage %d of 50 jobs were called", n)
	}
	if err := c.Health(t.Context()); err != nil {
		t.Errorf("Health after the outage: %v", err)
	}
	for text, want := range map[string]int{"the store fails, trying on": 1, "the store works again": 1} {
		if n := strings.Count(said.String(), text); n != want {
			t.Errorf("%q was said %d times:\n%s", text, n, said.String())
		}
	}
}

func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// What failed and is not asked for any more is no trouble: a process that asked for
// cancelled jobs in an outage, and has no job since, was ill for ever.
func TestHealthIsWellWhenNothingIsWanted(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &cancelsFail{Store: memory.New(memory.Options{})}
		c := clientOver(t, d, penstock.Config{})
		handle(t, c, "call", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[string]) error { return sleepFor(ctx, 20*time.Second) })
		working(t, c, penstock.WorkOptions{})
		enqueue(t, c, "call", "x")
		pass(10 * time.Second)
		if err := c.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "ask for cancelled jobs") {
			t.Errorf("Health: %v", err)
		}
		pass(20 * time.Second)
		if err := c.Health(t.Context()); err != nil {
			t.Errorf("Health without a job: %v", err)
		}
	})
}

type cancelsFail struct{ store.Store }

func (c *cancelsFail) Cancels(context.Context, string) ([]int64, error) { return nil, errStore }

// A worker that ended has no trouble any more.
func TestHealthForgetsWorkersThatEnded(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &dumb{Store: memory.New(memory.Options{})}
		c := clientOver(t, d, penstock.Config{})
		handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[string]) error { return nil })
		stop := working(t, c, penstock.WorkOptions{})
		synctest.Wait()
		d.set(false, true)
		pass(time.Minute)
		stop()
		d.set(false, false)
		if err := c.Health(t.Context()); err != nil {
			t.Errorf("Health: %v", err)
		}
	})
}

// The end of a worker does not take its whole grace when the store has been gone for
// long.
func TestStoppingInAnOutageIsShort(t *testing.T) {
	virtual(t, func(t *testing.T) {
		d := &dumb{Store: memory.New(memory.Options{})}
		c := clientOver(t, d, penstock.Config{})
		handle(t, c, "call", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[string]) error { return sleepFor(ctx, 2*time.Second) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		enqueue(t, c, "call", "x")
		go func() { ended <- c.Work(ctx, penstock.WorkOptions{Grace: time.Minute}) }()
		pass(time.Second)
		d.set(false, true)
		pass(time.Minute)
		begun := time.Now()
		cancel()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "could not be stored") {
			t.Errorf("Work: %v", err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
