package penstock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstockhq/penstock/store"
)

// A Client enqueues jobs, runs them and looks at them. It is safe for
// concurrent use. A client that has no handlers is insert-only.
type Client struct {
	st      store.Store
	cfg     Config
	log     *slog.Logger
	clock   clock
	specs   specCache
	trouble trouble
	lows    lows
	owns    bool // Close closes the store

	swallowed atomic.Int64

	mu      sync.RWMutex
	kinds   map[string]*kindEntry
	workers map[*worker]bool
	closed  bool
	closing chan struct{}  // closed by Close: Work is to stop
	works   sync.WaitGroup // of Work under way

	deskTurn chan struct{} // whose turn it is to open or close the desk; a lock that a context can leave
	permits  *permitDesk   // nil until the first Acquire
}

// New returns a client over a store, which the caller closes after the client.
func New(st store.Store, cfg Config) (*Client, error) {
	return newClient(context.Background(), st, cfg)
}

func newClient(ctx context.Context, st store.Store, cfg Config) (*Client, error) {
	if st == nil {
		return nil, errors.New("penstock: the store is nil")
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("penstock: configuration: %w", err)
	}
	cfg = cfg.resolved()
	c := &Client{
		st: st, cfg: cfg, log: cfg.Logger,
		kinds: map[string]*kindEntry{}, workers: map[*worker]bool{}, closing: make(chan struct{}),
		deskTurn: make(chan struct{}, 1),
	}
	c.specs.st = st
	c.trouble.log = c.log
	if err := c.readClock(ctx); err != nil {
		return nil, fmt.Errorf("penstock: the store's clock: %w", err)
	}
	for _, name := range sortedKeys(cfg.Limits) {
		if err := c.DeclareLimit(ctx, name, cfg.Limits[name]); err != nil {
			return nil, fmt.Errorf("penstock: %w", err)
		}
	}
	return c, nil
}

// readClock takes a sample of the store's clock.
func (c *Client) readClock(ctx context.Context) error {
	before := time.Now()
	now, err := c.st.Now(ctx)
	if err != nil {
		return err
	}
	c.clock.sample(before, time.Now(), now)
	return nil
}

// Store is the store below, for what the client has no method for.
func (c *Client) Store() store.Store { return c.st }

// Close tells Work, where it is under way, to stop as the end of its context
// does, and waits until it has returned: what handlers did is recorded. Then it
// gives back the permits of Acquire, and closes the store if Open opened it. Do not
// call it from a handler or a hook, which it would wait for. Closing again does
// nothing.
func (c *Client) Close() error {
	c.mu.Lock()
	already := c.closed
	c.closed = true
	c.mu.Unlock()
	if already {
		return nil
	}
	close(c.closing)
	c.works.Wait()
	c.deskTurn <- struct{}{}
	c.permits.close()
	<-c.deskTurn
	if c.owns {
		return c.st.Close()
	}
	return nil
}
