package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
	"github.com/penstockhq/penstock/store/storetest"
)

// moody is a store that can be made to fail, or to say nothing.
type moody struct {
	store.Store
	fails, silent atomic.Bool
}

func (m *moody) Ping(ctx context.Context) error {
	if m.silent.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if m.fails.Load() {
		return errors.New("moody")
	}
	return nil
}

// watched runs a watch over a moody store, in virtual time.
func watched(t *testing.T, fn func(m *moody, h *health, said *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		clock := storetest.NewClock()
		m := &moody{Store: memory.New(memory.Options{Now: clock.Now})}
		c, err := penstock.New(m, penstock.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		h := newHealth()
		var said atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go h.watch(ctx, c, func(string) { said.Add(1) })
		fn(m, h, &said)
	})
}

func isGone(h *health) bool {
	synctest.Wait()
	select {
	case <-h.gone:
		return true
	default:
		return false
	}
}

func TestTheStoreIsGivenUpAfterAMinute(t *testing.T) {
	for name, set := range map[string]func(m *moody, ill bool){
		"it fails":   func(m *moody, ill bool) { m.fails.Store(ill) },
		"it is mute": func(m *moody, ill bool) { m.silent.Store(ill) },
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(m *moody, h *health, said *atomic.Int64) {
				<-time.After(10 * time.Second)
				set(m, true)
				<-time.After(45 * time.Second)
				if isGone(h) || h.trouble(time.Now()) == "" {
					t.Errorf("after 45 s: given up %v, trouble %q", isGone(h), h.trouble(time.Now()))
				}
				set(m, false)
				<-time.After(15 * time.Second)
				if isGone(h) || h.trouble(time.Now()) != "" {
					t.Errorf("it is well: given up %v, trouble %q", isGone(h), h.trouble(time.Now()))
				}
				set(m, true)
				<-time.After(59 * time.Second)
				if isGone(h) {
					t.Error("given up after less than a minute")
				}
				<-time.After(13 * time.Second)
				if !isGone(h) || !errors.Is(h.lost(), errGaveUp) {
					t.Errorf("not given up after a minute: %v", h.lost())
				}
				if n := said.Load(); n > 2 { // one for each outage
					t.Errorf("that the store is waited for was said %d times", n)
				}
			})
		})
	}
}
