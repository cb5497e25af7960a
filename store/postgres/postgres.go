// Package postgres keeps a Penstock store in a schema of a PostgreSQL database,
// for any number of processes on any number of machines.
//
// One transaction at a time claims, changes limits, or puts jobs back in line: an
// advisory lock of the transaction sees to that, so that such a transaction may
// reason as if it had the database for itself. It is short: its round trips are
// bounded, its writes travel together with its reads, and large answers are read
// behind its commit. Inserts, effects, heartbeats and the ends of starts that went
// well take no part in it: they run beside it and beside one another, and a
// caller's open transaction that inserted jobs holds nobody up.
//
// The server's clock is the only one.
package postgres

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/postgres/migrate"
)

// DefaultSchema is where the tables are unless Options say otherwise.
const DefaultSchema = migrate.DefaultSchema

// Options of Open. The zero value is good.
type Options struct {
	// Schema is where the tables are; "": penstock.
	Schema string
	// Pooler says that the server is reached through a transaction pooler, such as
	// PgBouncer: nothing is prepared and nobody listens; jobs that other processes
	// enqueue are then found by looking, every 100 ms. The same is said by
	// pooler=transaction in the DSN.
	Pooler bool
	// Now replaces the server's clock, for tests.
	Now func() int64
}

// Store is a store on a server. It is safe for concurrent use.
type Store struct {
	store.Store
	db *db
}

// Open connects to the server that dsn names (a URL postgres://user@host/database;
// pgx lists the parameters it knows) and checks that the schema is there and up to
// date. It changes nothing: see Migrate.
//
// Parameters of its own: pooler=transaction, schema=NAME. The password is best
// left out of the DSN: PGPASSWORD, ~/.pgpass and the other ways of libpq work.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	d, err := openDB(ctx, dsn, o)
	if err != nil {
		return nil, err
	}
	return &Store{Store: &group{Store: engine.New(d), db: d}, db: d}, nil
}

// openDB is Open, one floor down.
func openDB(ctx context.Context, dsn string, o Options) (*db, error) {
	cfg, o, err := configure(dsn, o)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte("penstock/" + o.Schema))
	d := &db{schema: o.Schema, pooled: o.Pooler, lock: int64(h.Sum64()), clock: o.Now, turn: make(chan struct{}, writersMost), done: make(chan struct{})}
	d.lanes = &laneBook{d: d, turn: make(chan struct{}, 1)}
	if d.others, err = pgxpool.NewWithConfig(context.Background(), cfg.Copy()); err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns = writersMost, 0
	if d.writers, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		d.others.Close()
		return nil, err
	}
	d.conn = cfg.ConnConfig
	var listen *pgx.ConnConfig
	if !o.Pooler {
		listen = cfg.ConnConfig.Copy()
		listen.RuntimeParams["application_name"] = listenerName(o.Schema)
	}
	d.hub = newHub(d, listen, rand.Int64())
	if err := d.check(ctx, dsn); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// writersMost is how many transactions of one process wait at the server to be
// alone: while one commits, the next one has come.
const writersMost = 2

// pingWithin is how long a connection that was idle may take to show that it is
// alive, before it is closed and another one taken.
const pingWithin = 3 * time.Second

// configure reads the DSN and takes out what is not pgx's.
func configure(dsn string, o Options) (*pgxpool.Config, Options, error) {
	u, err := migrate.ParseDSN(dsn)
	if err != nil {
		return nil, o, err
	}
	q := migrate.Parameters(u)
	o.Schema = cmp.Or(o.Schema, q.Get("schema"), DefaultSchema)
	if err := migrate.CheckName(o.Schema); err != nil {
		return nil, o, fmt.Errorf("%w: %w", migrate.ErrDSN, err)
	}
	switch p := q.Get("pooler"); p {
	case "":
	case "transaction":
		o.Pooler = true
	default:
		return nil, o, fmt.Errorf("%w: pooler=%s: expected pooler=transaction, or nothing", migrate.ErrDSN, p)
	}
	q.Del("schema")
	q.Del("pooler")
	migrate.SetParameters(u, q)
	cfg, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, o, fmt.Errorf("%w: %v", migrate.ErrDSN, err) // pgx masks the password in the text, and has it in the value
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "penstock"
	}
	if !o.Pooler {
		cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, setConnection)
			return err
		}
	}
	if o.Pooler {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	cfg.PingTimeout = pingWithin
	if !strings.Contains(u.RawQuery, "pool_max_conns") {
		cfg.MaxConns = 8
	}
	return cfg, o, nil
}

// check makes sure that the tables are there, as this program knows them.
func (d *db) check(ctx context.Context, dsn string) error {
	steps, err := versions()
	if err != nil {
		return err
	}
	return translate(steps.Check(ctx, d.others, d.schema, dsn))
}
