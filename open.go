package penstock

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/memory"
	"github.com/penstockhq/penstock/store/postgres"
	"github.com/penstockhq/penstock/store/postgres/migrate"
	"github.com/penstockhq/penstock/store/sqlite"
)

// Open returns a client over the store at target: the path of a SQLite file,
// which is created (mode 0600) if it is not there; the URL of a PostgreSQL
// database, postgres://user@host/database, where [postgres.Migrate] or the
// command penstock migrate has made the tables; or "memory:" for a store that
// ends with the process. Close the client to close the store.
//
// Errors of the database: store.ErrNotOurs, store.ErrNewerSchema, store.ErrBusy,
// those of packages store/sqlite and store/postgres, and migrate.ErrUnmigrated.
func Open(ctx context.Context, target string, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("penstock: configuration: %w", err)
	}
	st, err := openStore(ctx, target, cfg)
	if err != nil {
		return nil, fmt.Errorf("penstock: %w", err)
	}
	c, err := newClient(ctx, st, cfg)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	c.owns = true
	return c, nil
}

func openStore(ctx context.Context, target string, cfg Config) (store.Store, error) {
	switch target {
	case "":
		return nil, errors.New("open: expected the path of a file, the URL of a PostgreSQL database, or \"memory:\", got nothing")
	case "memory:":
		return memory.New(memory.Options{}), nil
	}
	if migrate.IsDSN(target) {
		return postgres.Open(ctx, target, postgres.Options{})
	}
	if err := migrate.CheckTarget(target); err != nil {
		return nil, fmt.Errorf("open: %w, or the path of a file", err)
	}
	return sqlite.Open(ctx, target, sqlite.Options{Adopt: cfg.Adopt})
}
