package postgres

import (
	"context"
	"sync"

	"github.com/penstockhq/penstock/store/postgres/migrate"
	"github.com/penstockhq/penstock/store/postgres/schema"
)

// versions are the tables' versions that this program knows.
var versions = sync.OnceValues(func() (*migrate.Steps, error) { return migrate.Load(schema.Files) })

// Migrate makes the tables that Open needs, or brings them up to date, as the
// command penstock migrate does. Processes that migrate at the same time wait for one
// another. store.ErrNewerSchema if a newer program was there.
func Migrate(ctx context.Context, dsn string) error {
	steps, err := versions()
	if err != nil {
		return err
	}
	conn, name, err := migrate.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = steps.Migrate(ctx, conn, name, steps.Newest())
	return err
}
