package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// How long a transaction may take before it is given up: a connection that went
// dead answers nothing and says nothing.
const (
	updateWithin = 10 * time.Second
	appendWithin = 30 * time.Second // it may wait for a unique key that a caller's open transaction has
	viewWithin   = 60 * time.Second // people ask for counts of millions
)

// A transaction may come to a row, such as a unique key or an effect, that another
// one has, and a caller's may stay open for ever. So it does not wait there with
// what others want, a connection and the turn to be alone: it gives up, and comes
// again a moment later.
const (
	rowWithin   = `25ms`
	appendAgain = 100 * time.Millisecond
	updateAgain = 400 * time.Millisecond // while it waited, all others did
)

// errTaken says that a transaction which is open has what this one wants.
var errTaken = errors.New("an open transaction has what this one wants: a unique key, a call's id, or an effect")

// conflicts is how often a transaction is run again that met another one.
const conflicts = 20

// db is engine.DB on a schema of a server.
type db struct {
	writers *pgxpool.Pool // for transactions that are alone
	others  *pgxpool.Pool
	conn    *pgx.ConnConfig // for connections beside the pools; copy it
	schema  string
	lock    int64        // of the transactions that are alone
	clock   func() int64 // nil: the server's
	pooled  bool         // a connection holds for one transaction
	lanes   *laneBook
	home    atomic.Pointer[place] // nil: not looked up yet
	guess   guess
	hub     *hub

	turn   chan struct{} // seats of this process's transactions that would be alone
	texts  sync.Map      // statements with the schema's name in place
	closed sync.Once
	done   chan struct{}
}

var _ engine.DB = (*db)(nil)

// The planner must take the indexes whatever it believes of the tables: the
// statistics of one that was empty an hour ago would have it sort a backlog. These are
// settings of the connection, or, where a pooler gives each transaction another
// one, of the transaction.
//
// Where a statement names rows one by one, they are joined by = ANY (ARRAY[...]): that
// can be looked up in an index, and nothing else. Joined by =, a plan that was made
// while the table was empty goes through the whole of it for each name.
const (
	setPlanner = `set_config('enable_seqscan', 'off', $local), set_config('enable_bitmapscan', 'off', $local), set_config('enable_hashjoin', 'off', $local),
	set_config('enable_mergejoin', 'off', $local), set_config('jit', 'off', $local), set_config('plan_cache_mode', 'force_generic_plan', $local)`
	// A process that is stopped in the middle loses its transaction soon, and with it
	// what others wait for.
	setPatience = `set_config('lock_timeout', '` + rowWithin + `', $local), set_config('idle_in_transaction_session_timeout', '700ms', $local)`
	setIdle     = `SELECT set_config('idle_in_transaction_session_timeout', $1, true)`
)

// A transaction that its client kept waiting for too long may be one of a client
// that is slow, or of a large batch, and would be cut off again and again. So it gets
// twice the time in each further run, up to a bound, which is lower where others wait for it.
const (
	idleFirst     = 700 * time.Millisecond
	idleMostAlone = 3 * time.Second
	idleMost      = 15 * time.Second
)

// Statements that are transactions by themselves have the isolation that the database or
// the role has as a default; it may be one that fails beside others.
const setIsolation = `set_config('default_transaction_isolation', 'read committed', false)`

var (
	setConnection  = `SELECT ` + strings.ReplaceAll(setPlanner+`, `+setPatience, "$local", "false") + `, ` + setIsolation
	setTransaction = `SELECT ` + strings.ReplaceAll(setPlanner+`, `+setPatience, "$local", "true")
)

// readOnly is asked for where writes may follow: a worker without work writes
// nothing for long, and would not notice.
const readOnly = `current_setting('transaction_read_only')::bool`

const (
	// Not READ WRITE: where default_transaction_read_only is on, somebody fences this
	// server off, and what was written would be lost.
	beginAlone  = `BEGIN ISOLATION LEVEL READ COMMITTED`
	beginAdding = beginAlone
	beginView   = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`

	setUpAlone = `SELECT set_config('lock_timeout', '5s', true), pg_advisory_xact_lock($1)::text, set_config('lock_timeout', '` + rowWithin + `', true), ` +
		readOnly + `, set_config('penstock_claim.now', coalesce($2::bigint, ` + nowOnServer + `)::text, true)::bigint`
	setUpAdding = `SELECT ` + readOnly + `, ` + nowOnServer
	setUpView   = `SELECT set_config('idle_in_transaction_session_timeout', '10s', true), ` + nowOnServer
)

// begin returns a transaction that has not begun yet. Its client may let it wait for
// idle between two statements.
func (d *db) begin(ctx context.Context, m mode, idle time.Duration) (*tx, *session) {
	t := &tx{ctx: ctx, mode: m, clock: d.clock, lanesOf: d.lanes, guess: &d.guess}
	s := &session{pool: d.others, name: d.text}
	// The last column is the server's time, before it whether it takes no writes.
	first := func(columns int, writes bool) func(scan) error {
		return func(sc scan) error {
			closed := false
			into := make([]any, columns)
			into[columns-1] = &t.now
			if writes {
				into[columns-2] = &closed
			}
			err := sc(into...)
			if err == nil && closed {
				err = ErrReadOnly
			}
			return err
		}
	}
	switch m {
	case alone:
		s.pool = d.writers
		var now any // the server's
		if d.clock != nil {
			now = d.clock()
		}
		s.first = []statement{{sql: beginAlone}, {sql: setUpAlone, args: []any{d.lock, now}, each: first(5, true)}}
	case adding:
		s.single = !d.pooled
		s.first = []statement{{sql: beginAdding}, {sql: setUpAdding, each: first(2, true)}}
	case peek:
		s.loose = true
		s.first = []statement{{sql: `SELECT ` + nowOnServer, each: first(1, false)}}
	case view:
		s.first = []statement{{sql: beginView}, {sql: setUpView, each: first(2, false)}}
	}
	if idle > idleFirst && len(s.first) > 1 {
		s.first = slices.Insert(s.first, 1, statement{sql: setIdle, args: []any{fmt.Sprint(idle.Milliseconds(), "ms")}})
	}
	if d.pooled {
		s.first = slices.Insert(s.first, 1, statement{sql: setTransaction})
	}
	t.link = s
	return t, s
}

func (d *db) Update(ctx context.Context, fn func(engine.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, updateWithin)
	defer cancel()
	return d.again(ctx, alone, fn)
}

// seat waits for the turn to be alone, as far as this process goes, in the order in
// which they came, and holds no connection meanwhile.
func (d *db) seat(ctx context.Context) (leave func(), err error) {
	select {
	case d.turn <- struct{}{}:
		return func() { <-d.turn }, nil
	case <-d.done:
		return nil, store.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *db) Append(ctx context.Context, fn func(engine.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, appendWithin)
	defer cancel()
	return d.again(ctx, adding, fn)
}

func (d *db) View(ctx context.Context, fn func(engine.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, viewWithin)
	defer cancel()
	return d.again(ctx, view, fn)
}

// Peek reads without a transaction around, where the settings of a connection last.
func (d *db) Peek(ctx context.Context, fn func(engine.Tx) error) error {
	if d.pooled {
		return d.View(ctx, fn)
	}
	ctx, cancel := context.WithTimeout(ctx, viewWithin)
	defer cancel()
	return d.again(ctx, peek, fn)
}

// again runs a transaction until it meets no other.
func (d *db) again(ctx context.Context, m mode, fn func(engine.Tx) error) error {
	met, idle := 0, idleFirst
	var taken error // what it waits for
	for try := 1; ; try++ {
		began := time.Now()
		err := d.run(ctx, m, idle, fn)
		var wait time.Duration
		switch {
		case errors.Is(err, errCommitted):
			return err
		case errors.Is(err, errTaken):
			taken = err
			most := min(time.Duration(try)*appendAgain/4, appendAgain)
			if m == alone {
				most = min(time.Duration(try)*updateAgain/4, updateAgain)
			}
			wait = most/2 + rand.N(most/2)
		case errors.Is(err, errConflict):
			if met++; met == conflicts {
				return err
			}
			wait = rand.N(time.Duration(met) * time.Millisecond)
			if state := stateOf(err); state == idleForTooLong || state == "" && time.Since(began) >= idle { // a reset may overtake what the server said
				idle = min(2*idle, idleMost)
				if m == alone {
					idle = min(idle, idleMostAlone)
				}
			}
		case taken != nil && ctx.Err() != nil:
			return errors.Join(taken, ctx.Err())
		default:
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// run runs a transaction once.
func (d *db) run(ctx context.Context, m mode, idle time.Duration, fn func(engine.Tx) error) (err error) {
	select {
	case <-d.done:
		return store.ErrClosed
	default:
	}
	if m == alone {
		leave, err := d.seat(ctx)
		if err != nil {
			return err
		}
		defer leave()
	}
	t, s := d.begin(ctx, m, idle)
	begun := time.Now()
	defer func() {
		if (t.now != 0 || s.loose) && errors.Is(err, store.ErrBusy) { // it had begun, so what it did not get is a row
			err = fmt.Errorf("%w: %w", errTaken, err)
		} else if ctx.Err() == nil && s.cutBefore(err) {
			err = fmt.Errorf("%w: %w", errConflict, err)
		}
		if m == view && err == nil {
			go s.end(nil) // nobody needs to wait for the end of a snapshot
		} else {
			s.end(err)
		}
		d.dialAnew(err, time.Since(begun))
		if s.done {
			d.hub.committed(t)
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	if !t.looked.IsZero() {
		d.hub.looked(t.looked)
	}
	if m == view || m == peek {
		return nil // end rolls it back, which gives the snapshot up as well
	}
	if err := s.commit(ctx, append(t.waiting(), t.last...), t.after); err != nil {
		return err
	}
	for _, then := range t.then {
		if err := then(); err != nil {
			return err
		}
	}
	return nil
}

// silentFor is how long a server must have said nothing for its connections to be
// given up. Less may be a caller's haste.
const silentFor = 2 * time.Second

// dialAnew gives up all connections after an error that says that they lead
// nowhere, or to a server that takes no writes any more: behind its name there may be
// another one now. Each would else have to fail by itself.
func (d *db) dialAnew(err error, took time.Duration) {
	gone := errors.Is(err, ErrUnreachable) && (!errors.Is(err, context.DeadlineExceeded) || took >= silentFor)
	if gone || errors.Is(err, ErrReadOnly) {
		d.writers.Reset()
		d.others.Reset()
	}
}

// Told asks those who tell.
func (d *db) Told() bool { return d.hub.fresh.Swap(false) }

// Alive knows nothing at first hand: processes are on other machines.
func (d *db) Alive(store.Worker) engine.Liveness { return engine.Unknown }

// SeesDeaths is false.
func (d *db) SeesDeaths() bool { return false }

func (d *db) Watch(ctx context.Context) <-chan struct{} { return d.hub.watch(ctx) }

// Close waits for transactions under way.
func (d *db) Close() error {
	d.closed.Do(func() {
		close(d.done)
		d.hub.close()
		d.writers.Close()
		d.others.Close()
	})
	return nil
}

// text puts the schema's name into a statement.
func (d *db) text(sql string) string {
	if d.schema == DefaultSchema {
		return sql
	}
	if s, ok := d.texts.Load(sql); ok {
		return s.(string)
	}
	s := strings.ReplaceAll(sql, DefaultSchema+".", quote(d.schema)+".")
	d.texts.Store(sql, s)
	return s
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
