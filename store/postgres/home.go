package postgres

import (
	"context"
	"fmt"

	"github.com/penstockhq/penstock/store"
)

// place is a database of a running server. No two databases that can be reached at
// the same time have the same one, copies of each other's files included.
type place struct {
	database string
	since    int64 // when its server was started, in microseconds since the Unix epoch
}

// sqlPlace has the columns of a place. They cost nothing to read, and need no privilege.
const sqlPlace = `current_database()::text, (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint`

// atHome refuses the place of a caller's transaction if it is not the store's. The
// store's own is looked up at first, and again when they differ: the server may have
// been started anew, or another one may have become the primary.
func (d *db) atHome(ctx context.Context, p place) error {
	if home := d.home.Load(); home != nil && *home == p {
		return nil
	}
	home := new(place)
	if err := d.others.QueryRow(ctx, `SELECT `+sqlPlace).Scan(&home.database, &home.since); err != nil {
		return fmt.Errorf("look which database is the store's: %w", translate(err))
	}
	d.home.Store(home)
	switch {
	case *home == p:
		return nil
	case home.database != p.database:
		return fmt.Errorf("%w: it is in database %q, and the store is in %q: begin it there", store.ErrOtherDatabase, p.database, home.database)
	}
	return fmt.Errorf("%w: it is in database %q of another server: begin it on the store's", store.ErrOtherDatabase, p.database)
}
