package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/penstockhq/penstock/store/postgres"
	"github.com/penstockhq/penstock/store/postgres/migrate"
)

// inSchema runs the demo in a schema of its own, which it makes and removes.
func (d *demo) inSchema(ctx context.Context) (err error) {
	schema := fmt.Sprintf("penstock_demo_%08x", rand.Uint32())
	d.db = migrate.WithSchema(d.Server, schema)
	if err := postgres.Migrate(ctx, d.db); err != nil {
		return err
	}
	defer func() {
		if gone := drop(context.WithoutCancel(ctx), d.db); gone != nil {
			err = errors.Join(err, fmt.Errorf("the demo's schema %s is left behind: %w", schema, gone))
		}
	}()
	return d.run(ctx)
}

// drop removes the schema that a URL names, with all that is in it.
func drop(ctx context.Context, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, schema, err := migrate.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE") // the name needs no quotes: see inSchema
	return errors.Join(err, conn.Close(ctx))
}
