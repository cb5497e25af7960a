package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/internal/pgtest"
	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/storetest"
)

func TestConformance(t *testing.T) {
	dsn := pgtest.DSN(t)
	storetest.Run(t, storetest.Factory{Open: func(t testing.TB, o storetest.Options) storetest.Handle {
		in := inSchema(t, dsn)
		d := open(t, in, Options{Now: o.Now})
		e := o.NewEngine(d)
		st := &group{Store: e}
		if o.Wrap == nil { // which sees what goes the engine's way
			st.db = d
		}
		return storetest.Handle{Store: st, Own: &group{Store: e, db: d}, Another: func(t testing.TB) store.Store {
			d := open(t, in, Options{Now: o.Now})
			s := &group{Store: engine.New(d), db: d}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}}
	}})
}

func open(t testing.TB, dsn string, o Options) *db {
	t.Helper()
	d, err := openDB(context.Background(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// inSchema makes a schema of the test's own and returns a DSN that leads to it.
func inSchema(t testing.TB, dsn string) string {
	t.Helper()
	ctx := context.Background()
	name := fmt.Sprintf("p%016x", rand.Uint64())
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	in := dsn + sep + "schema=" + name
	if err := Migrate(ctx, in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			_, err = conn.Exec(ctx, "DROP SCHEMA "+name+" CASCADE")
			_ = conn.Close(ctx)
		}
		if err != nil {
			t.Errorf("drop the schema: %v", err)
		}
	})
	return in
}
