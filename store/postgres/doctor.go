package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/store/postgres/migrate"
)

// Condition is how a server is, for people: what penstock doctor tells.
type Condition struct {
	Server  string // its version
	Schema  string // where the tables are
	Version int    // of the tables
	Newest  int    // that this program knows

	Offset  time.Duration // how far the server's clock is ahead of this machine's
	OffsetE time.Duration // the offset may be wrong by so much

	Bytes  int64       // of all tables and indexes of the schema, on disk
	Tables []Table     // that are written all the time
	Oldest Transaction // of the database; PID 0: none is open that matters
	Hidden int         // open transactions whose age this role may not see

	Listeners int // processes that are notified of new jobs
	Pooler    bool
}

// Table is a table that is written all the time.
type Table struct {
	Name       string
	Live, Dead int64     // rows, as the server's statistics estimate them
	Cleaned    time.Time // when a vacuum last was done with it; zero: never
}

// Transaction is one that keeps dead rows from being cleaned.
type Transaction struct {
	PID         int // 0: it is prepared, and belongs to no session
	Age         time.Duration
	Application string // what its program says that it is; of a prepared one, its name
	Role        string
	State       string // as "idle in transaction"
	Prepared    bool
}

// examineWithin bounds each question of Examine.
const examineWithin = 10 * time.Second

// listenerName is what the connections that listen are called at the server, which
// says in no other way who listens.
func listenerName(schema string) string {
	name := "penstock listens to " + schema
	return name[:min(len(name), 63)] // the server cuts it, too
}

// hotTables are those that claims walk.
const hotTables = `'job', 'lane', 'gate', 'wake', 'limit_state', 'worker'`

// Examine looks how the server is. It reads the server's statistics only, and is
// quick whatever the tables hold.
func (s *Store) Examine(ctx context.Context) (Condition, error) {
	c := Condition{Schema: s.db.schema, Pooler: s.db.hub.listen == nil}
	for _, look := range []func(context.Context, *Condition) error{
		s.lookAtClock, s.lookAtVersion, s.lookAtTables, s.lookAtTransactions, s.lookAtPrepared,
	} {
		part, cancel := context.WithTimeout(ctx, examineWithin)
		err := look(part, &c)
		cancel()
		if err != nil {
			return c, translate(err)
		}
	}
	return c, nil
}

// lookAtClock takes the quickest of a few looks.
func (s *Store) lookAtClock(ctx context.Context, c *Condition) error {
	c.OffsetE = time.Hour
	for range 5 {
		var at time.Time
		before := time.Now()
		if err := s.db.others.QueryRow(ctx, `SELECT clock_timestamp(), current_setting('server_version')`).Scan(&at, &c.Server); err != nil {
			return err
		}
		trip := time.Since(before)
		if half := trip / 2; half < c.OffsetE {
			c.OffsetE = half
			c.Offset = at.Sub(before.Round(0)) - half // of the wall's clock: at has no other
		}
	}
	return nil
}

func (s *Store) lookAtVersion(ctx context.Context, c *Condition) (err error) {
	steps, err := versions()
	if err != nil {
		return err
	}
	c.Newest = steps.Newest()
	c.Version, err = migrate.Version(ctx, s.db.others, s.db.schema)
	return err
}

func (s *Store) lookAtTables(ctx context.Context, c *Condition) error {
	err := s.db.others.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, s.db.schema).Scan(&c.Bytes)
	if err != nil {
		return err
	}
	rows, err := s.db.others.Query(ctx, `SELECT relname, n_live_tup, n_dead_tup, greatest(last_vacuum, last_autovacuum)
		FROM pg_stat_user_tables WHERE schemaname = $1 AND relname IN (`+hotTables+`) ORDER BY relname`, s.db.schema)
	if err != nil {
		return err
	}
	c.Tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Table, err error) {
		var cleaned *time.Time
		if err = row.Scan(&t.Name, &t.Live, &t.Dead, &cleaned); cleaned != nil {
			t.Cleaned = *cleaned
		}
		return t, err
	})
	return err
}

// lookAtTransactions looks for the oldest one that has a snapshot, or has written:
// what died since then stays where it is. What a role may not see is NULL.
func (s *Store) lookAtTransactions(ctx context.Context, c *Condition) error {
	rows, err := s.db.others.Query(ctx, `
		SELECT pid, (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::bigint, application_name, coalesce(usename, ''), coalesce(state, '')
		FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'
			AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
		ORDER BY xact_start NULLS LAST`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var t Transaction
		var age *int64
		if err := rows.Scan(&t.PID, &age, &t.Application, &t.Role, &t.State); err != nil {
			return err
		}
		switch {
		case age == nil:
			c.Hidden++
		case c.Oldest.PID == 0:
			t.Age = time.Duration(*age) * time.Microsecond
			c.Oldest = t
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return s.db.others.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`,
		listenerName(s.db.schema)).Scan(&c.Listeners)
}

// lookAtPrepared looks for transactions that were prepared, and forgotten.
func (s *Store) lookAtPrepared(ctx context.Context, c *Condition) error {
	rows, err := s.db.others.Query(ctx, `SELECT gid, owner, (extract(epoch FROM clock_timestamp() - prepared) * 1000000)::bigint
		FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 1`)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Transaction, err error) {
		age := int64(0)
		err = row.Scan(&t.Application, &t.Role, &age)
		t.Age, t.Prepared, t.State = time.Duration(age)*time.Microsecond, true, "prepared"
		return t, err
	})
	if err == nil && len(all) > 0 && all[0].Age > c.Oldest.Age {
		c.Oldest = all[0]
	}
	return err
}

// String is the transaction in words, without its text.
func (t Transaction) String() string {
	who := fmt.Sprintf("process %d", t.PID)
	if t.Prepared {
		who = fmt.Sprintf("the prepared transaction %q", t.Application)
	} else if t.Application != "" {
		who += fmt.Sprintf(" (%s)", t.Application)
	}
	return fmt.Sprintf("%s of role %s, %s", who, t.Role, t.State)
}
