package penstock_test

import (
	"context"
	"errors"
	"sync"

	"github.com/penstockhq/penstock/store"
)

var errStore = errors.New("the store is down (test)")

// faulty is a store whose calls can be made to fail or to wait, for one process.
type faulty struct {
	store.Store

	mu       sync.Mutex
	cut      bool // every call fails, as after a kill -9
	noBeats  bool
	finish   func(before bool) error // called before and after each Finish
	claim    func(before bool) error
	insert   func(before bool) error
	finishes int
	claims   int
	wished   int // inserts of jobs to be started at once
	started  int // and those that were
}

func (f *faulty) set(change func(f *faulty)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faulty) state() (cut, noBeats bool, finish, claim func(bool) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut, f.noBeats, f.finish, f.claim
}

func (f *faulty) Finish(ctx context.Context, fs []store.Finish) ([]store.Finished, error) {
	cut, _, hook, _ := f.state()
	if cut {
		return nil, errStore
	}
	if hook != nil {
		if err := hook(true); err != nil {
			return nil, err
		}
	}
	out, err := f.Store.Finish(ctx, fs)
	f.set(func(f *faulty) { f.finishes++ })
	if hook != nil && err == nil {
		err = hook(false)
	}
	return out, err
}

func (f *faulty) Claim(ctx context.Context, r store.ClaimRequest) (store.ClaimResult, error) {
	cut, _, _, hook := f.state()
	if cut {
		return store.ClaimResult{}, errStore
	}
	f.set(func(f *faulty) { f.claims++ })
	if hook != nil {
		if err := hook(true); err != nil {
			return store.ClaimResult{}, err
		}
	}
	out, err := f.Store.Claim(ctx, r)
	if hook != nil && err == nil {
		if err := hook(false); err != nil {
			return store.ClaimResult{}, err
		}
	}
	return out, err
}

func (f *faulty) Insert(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error) {
	f.mu.Lock()
	cut, hook := f.cut, f.insert
	if len(jobs) > 0 && jobs[0].Start != nil {
		f.wished++
	}
	f.mu.Unlock()
	if cut {
		return nil, errStore
	}
	if hook != nil {
		if err := hook(true); err != nil {
			return nil, err
		}
	}
	out, err := f.Store.Insert(ctx, jobs)
	if err == nil && len(out) > 0 && out[0].Started != nil {
		f.set(func(f *faulty) { f.started++ })
	}
	if hook != nil && err == nil {
		if err := hook(false); err != nil {
			return nil, err
		}
	}
	return out, err
}

// counts tells how many claims, wishes and starts at once there were.
func (f *faulty) counts() (claims, wished, started int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims, f.wished, f.started
}

func (f *faulty) Heartbeat(ctx context.Context, worker string) ([]store.Lease, error) {
	if cut, noBeats, _, _ := f.state(); cut || noBeats {
		return nil, errStore
	}
	return f.Store.Heartbeat(ctx, worker)
}

func (f *faulty) Rescue(ctx context.Context, lostMax int) ([]store.Job, error) {
	if cut, _, _, _ := f.state(); cut {
		return nil, errStore
	}
	return f.Store.Rescue(ctx, lostMax)
}

func (f *faulty) Deregister(ctx context.Context, worker string) error {
	if cut, _, _, _ := f.state(); cut {
		return errStore
	}
	return f.Store.Deregister(ctx, worker)
}
