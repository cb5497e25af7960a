package penstock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// A handler that names a limit nobody declared gets its outcome stored all the
// same: the job's own limit is paused, and the mistake is in the job's error.
func TestRefusalNamesAnUndeclaredLimit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}})
		starts := 0
		handle(t, c, "call", penstock.Kind{Limits: penstock.Draws("api")}, func(context.Context, *penstock.Job[int]) error {
			if starts++; starts == 1 {
				return &penstock.RateLimitedError{Limit: "nope", Wait: time.Minute}
			}
			return nil
		})
		id := enqueue(t, c, "call", 1)
		begun := time.Now()
		drain(t, c, penstock.WorkOptions{})
		wantState(t, c, id, store.Done, "")
		if d := time.Since(begun); d < time.Minute {
			t.Errorf("started again after %v, the API asked for a minute", d)
		}
		events, err := c.Events(t.Context(), id)
		if err != nil || len(events) == 0 || !strings.Contains(events[0].Error, `"nope", which is not declared`) {
			t.Errorf("history %+v, %v", events, err)
		}
	})
}

func TestPermitObservesAnUndeclaredLimit(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{Limits: map[string]string{"api": "10/s"}})
		p, err := c.Acquire(t.Context(), penstock.Draws("api")...)
		if err != nil {
			t.Fatal(err)
		}
		p.RateLimited("nope", time.Minute)
		if err := p.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A cut of a limit that nobody declared would cut nothing.
func TestSetLimitNeedsADeclaredOne(t *testing.T) {
	c := newClient(t, penstock.Config{Limits: map[string]string{"stripe": "10/s", "shop/*": "2/s"}})
	var unknown *store.UnknownLimitError
	if err := c.SetLimit(t.Context(), "strpe", "1/s"); !errors.As(err, &unknown) || len(unknown.Nearest) == 0 || unknown.Nearest[0] != "stripe" {
		t.Errorf("error %v", err)
	}
	for _, name := range []string{"stripe", "shop/*", "shop/17"} {
		if err := c.SetLimit(t.Context(), name, "1/s"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A handler that comes after Work has begun would never be called.
func TestHandleWhileWorking(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		nop := func(context.Context, *penstock.Job[int]) error { return nil }
		handle(t, c, "a", penstock.Kind{}, nop)
		stop := working(t, c, penstock.WorkOptions{})
		pass(time.Second)
		if err := penstock.Handle(c, "b", nop, penstock.Kind{}); err == nil || !strings.Contains(err.Error(), "before Work") {
			t.Errorf("error %v", err)
		}
		stop()
		handle(t, c, "b", penstock.Kind{}, nop)
	})
}

func TestWorkToldToStopBeforeItBegan(t *testing.T) {
	c := newClient(t, penstock.Config{})
	handle(t, c, "a", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Work(ctx, penstock.WorkOptions{}); err != nil {
		t.Errorf("error %v", err)
	}
}

// interrupted is a store whose caller is told to stop while it registers.
type interrupted struct {
	store.Store
	stop context.CancelFunc
}

func (s interrupted) Register(ctx context.Context, _ store.Worker) error {
	s.stop()
	<-ctx.Done()
	return ctx.Err()
}

// TestWorkToldToStopWhileItBegins: a deploy's signal that came just then made the
// process end as if something were wrong.
func TestWorkToldToStopWhileItBegins(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	c := clientOver(t, interrupted{memory.New(memory.Options{}), stop}, penstock.Config{})
	handle(t, c, "call", penstock.Kind{}, func(context.Context, *penstock.Job[int]) error { return nil })
	if err := c.Work(ctx, penstock.WorkOptions{}); err != nil {
		t.Errorf("Work returned %v, expected nil", err)
	}
}
