package postgres_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store/postgres"
	"github.com/penstockhq/penstock/store/postgres/migrate"
	"github.com/penstockhq/penstock/store/postgres/schema"
)

// Programs of one deployment start together.
func TestManyMigrateAtStart(t *testing.T) {
	dsn := pgtest.DSN(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := postgres.Migrate(t.Context(), dsn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	steps, err := migrate.Load(schema.Files)
	if err != nil {
		t.Fatal(err)
	}
	conn, name, err := migrate.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := steps.Check(t.Context(), conn, name, dsn); err != nil {
		t.Error(err)
	}
}

func TestMigrateRefusesWhatIsNoDSN(t *testing.T) {
	if err := postgres.Migrate(t.Context(), "jobs.db"); !errors.Is(err, migrate.ErrDSN) {
		t.Errorf("Migrate: %v", err)
	}
}
