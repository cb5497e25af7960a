package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// TestWithinAnotherDatabase: a caller's transaction on another database, with or
// without a store of its own, is refused, and can go on.
func TestWithinAnotherDatabase(t *testing.T) {
	r, with, without := newRig(t), newRig(t), newRig(t)
	without.exec(`DROP SCHEMA ` + quote(without.schema) + ` CASCADE; CREATE SCHEMA ` + quote(without.schema))
	for driver, begin := range drivers {
		for _, other := range []*rig{with, without} {
			g := begin(other, "READ COMMITTED")
			_, err := r.within(g.tx, newJob())
			if !errors.Is(err, store.ErrOtherDatabase) || !strings.Contains(err.Error(), "in database") {
				t.Errorf("%s, with a store there: %t: %v", driver, other == with, err)
			}
			r.must(g.exec(`SELECT 1`))
			r.must(g.rollback())
		}
	}
}

// TestWithinAfterRestart: a server that was started anew is the store's still.
func TestWithinAfterRestart(t *testing.T) {
	eachGuest(t, func(t *testing.T, r *rig, begin func() *guest, _ string) {
		before := begin()
		_, err := r.within(before.tx, newJob())
		r.must(err)
		p := *r.st.db.home.Load()
		p.since -= 3_600_000_000
		r.st.db.home.Store(&p)
		_, err = r.within(before.tx, newJob())
		r.must(err)
		if err := r.st.db.atHome(r.ctx(), p); !errors.Is(err, store.ErrOtherDatabase) || !strings.Contains(err.Error(), "another server") {
			t.Errorf("a database of the same name: %v", err)
		}
	})
}

// TestWithinNil: no transaction at all, in whatever disguise.
func TestWithinNil(t *testing.T) {
	r := newRig(t)
	var none *pgxTxOf
	for _, tx := range []any{nil, pgx.Tx(nil), none} {
		err := r.st.Within(r.ctx(), tx, func(engine.Tx) error { t.Error("it ran"); return nil })
		if err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%T: %v", tx, err)
		}
	}
}

type pgxTxOf struct{ pgx.Tx }
