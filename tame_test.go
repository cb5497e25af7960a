package penstock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/sqlite"
)

// fieldError reads a field, so a nil one in an error panics when it is read.
type fieldError struct{ what string }

func (e *fieldError) Error() string { return e.what }

type wildIs struct{}

func (wildIs) Error() string   { return "wild" }
func (wildIs) Is(error) bool   { panic("Is") }
func (wildIs) Timeout() bool   { panic("Timeout") }
func (wildIs) Temporary() bool { panic("Temporary") }

type wildUnwrap struct{}

func (wildUnwrap) Error() string { return "wild" }
func (wildUnwrap) Unwrap() error { panic("Unwrap") }

// A handler's error whose own methods panic is a failure of its job, and of
// nothing else.
func TestErrorsThatPanic(t *testing.T) {
	var none *fieldError
	for name, wild := range map[string]error{"typed nil": none, "wrapped": errors.Join(errors.New("x"), none), "Is": wildIs{}, "Unwrap": wildUnwrap{}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				c := newClient(t, penstock.Config{})
				handle(t, c, "k", penstock.Kind{}, func(context.Context, *penstock.Job[string]) error { return wild })
				id := enqueue(t, c, "k", "", penstock.Attempts(2))
				drain(t, c, penstock.WorkOptions{})
				if j := wantState(t, c, id, store.Dead, store.Exhausted); !strings.Contains(j.Error, "panic") || j.Starts != 2 {
					t.Errorf("after %d starts: %s", j.Starts, j.Error)
				}
			})
		})
	}
}

// An effect within an effect of the same key is a mistake, and is named as one.
func TestOnceWithinItself(t *testing.T) {
	virtual(t, func(t *testing.T) {
		c := newClient(t, penstock.Config{})
		inner := 0
		handle(t, c, "k", penstock.Kind{}, func(ctx context.Context, _ *penstock.Job[string]) error {
			_, err := penstock.Once(ctx, "charge/1", func(ctx context.Context) (int, error) {
				return penstock.Once(ctx, "charge/1", func(context.Context) (int, error) { inner++; return 1, nil })
			})
			return err
		})
		id := enqueue(t, c, "k", "", penstock.Attempts(1))
		drain(t, c, penstock.WorkOptions{})
		if j := wantState(t, c, id, store.Dead, store.Exhausted); !strings.Contains(j.Error, "running that effect already") || inner != 0 {
			t.Errorf("inner ran %d times: %s", inner, j.Error)
		}
	})
}

// Jobs are not written to a file that nobody can find any more.
func TestFileRemovedWhileOpen(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobs.db")
			c, err := penstock.Open(t.Context(), path, penstock.Config{Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			enqueue(t, c, "k", "before")
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Enqueue(t.Context(), "k", "after"); !errors.Is(err, sqlite.ErrReplaced) {
				t.Errorf("enqueue: %v", err)
			}
			if err := c.Health(t.Context()); !errors.Is(err, sqlite.ErrReplaced) {
				t.Errorf("health: %v", err)
			}
		})
	}
}
