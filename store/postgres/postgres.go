// Package postgres keeps a Penstock store in a schema of a PostgreSQL database,
// for any number of processes on any number of machines.
//
// One transaction at a time claims, finishes, or changes limits: an advisory lock
// of the transaction sees to that, so that such a transaction may reason as if it
// had the database for itself. It is short: its round trips are bounded, its
// writes travel together with its reads, and large answers are read behind its
// commit. Inserts, effects and heartbeats take no part in it: they run beside it
// and beside one another, and a caller's open transaction that inserted jobs
// holds nobody up.
//
// The server's clock is the only one.
package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// DefaultSchema is where the tables are unless Options say otherwise.
const DefaultSchema = "penstock"

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
	return &Store{Store: engine.New(d), db: d}, nil
}

// openDB is Open, one floor down.
func openDB(ctx context.Context, dsn string, o Options) (*db, error) {
	cfg, o, err := configure(dsn, o)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte("penstock/" + o.Schema))
	d := &db{schema: o.Schema, lock: int64(h.Sum64()), clock: o.Now, turn: make(chan struct{}, writersMost), done: make(chan struct{})}
	d.lanes = &laneBook{d: d}
	if d.others, err = pgxpool.NewWithConfig(context.Background(), cfg.Copy()); err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns = writersMost, 0
	if d.writers, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		d.others.Close()
		return nil, err
	}
	var listen *pgx.ConnConfig
	if !o.Pooler {
		listen = cfg.ConnConfig.Copy()
	}
	d.hub = newHub(d, listen, rand.Int64())
	if err := d.check(ctx); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// writersMost is how many transactions of one process wait at the server to be
// alone: while one commits, the next one has come.
const writersMost = 2

// configure reads the DSN and takes out what is not pgx's.
func configure(dsn string, o Options) (*pgxpool.Config, Options, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, o, fmt.Errorf("expected a URL such as postgres://user@host:5432/database, got one that cannot be read as such")
	}
	q := u.Query()
	if s := q.Get("schema"); s != "" {
		o.Schema = s
	}
	switch p := q.Get("pooler"); p {
	case "":
	case "transaction":
		o.Pooler = true
	default:
		return nil, o, fmt.Errorf("pooler=%s: expected pooler=transaction, or nothing", p)
	}
	q.Del("schema")
	q.Del("pooler")
	u.RawQuery = q.Encode()
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if len(o.Schema) > 63 || strings.ContainsAny(o.Schema, "\x00\"") || strings.HasPrefix(o.Schema, "pg_") {
		return nil, o, fmt.Errorf("schema %q: expected a name of 1 to 63 bytes without quotes that does not begin with pg_", o.Schema)
	}
	cfg, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, o, err
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "penstock"
	}
	if o.Pooler {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if !strings.Contains(u.RawQuery, "pool_max_conns") {
		cfg.MaxConns = 8
	}
	return cfg, o, nil
}

// check makes sure that the schema is there.
func (d *db) check(ctx context.Context) error {
	return d.others.Ping(ctx)
}
