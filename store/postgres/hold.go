package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstockhq/penstock/store/postgres/fault"
)

// holdEvery is how often a name is asked for that somebody else holds.
const holdEvery = 100 * time.Millisecond

// A Held name is held by this process alone, among all that use the schema, until
// Release, or until its connection ends, as with the process. It is for one
// goroutine at a time.
type Held struct{ conn *pgx.Conn }

// Hold waits until nobody else holds the name, and takes it. waiting is called once
// if somebody has it. It takes a connection of its own; its transaction stays open,
// which works through poolers of transactions, and keeps nothing from being cleaned.
func (s *Store) Hold(ctx context.Context, name string, waiting func()) (*Held, error) {
	conn, err := pgx.ConnectConfig(ctx, s.db.conn.Copy())
	if err != nil {
		return nil, fault.Name(err)
	}
	h := &Held{conn}
	key := fnv.New64a()
	fmt.Fprintf(key, "penstock/%s/hold/%s", s.db.schema, name)
	if err := h.take(ctx, int64(key.Sum64()), waiting); err != nil {
		h.Release()
		return nil, fault.Name(err)
	}
	return h, nil
}

func (h *Held) take(ctx context.Context, key int64, waiting func()) error {
	// Not a pooler's, nor a role's, idea of how long a transaction may be idle.
	_, err := h.conn.Exec(ctx, `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = 0`)
	for err == nil {
		got := false
		if err = h.conn.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, pgx.QueryExecModeExec, key).Scan(&got); err != nil || got {
			return err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-time.After(holdEvery):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return err
}

// errNotHeld says that somebody else may have a name by now.
var errNotHeld = errors.New("the connection was lost that kept other processes away: run it again")

// Check returns nil while the name is held.
func (h *Held) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, updateWithin)
	defer cancel()
	if err := h.conn.Ping(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNotHeld, fault.Name(err))
	}
	return nil
}

// Release lets go of the name.
func (h *Held) Release() {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackWithin)
	defer cancel()
	_ = h.conn.Close(ctx) // which ends the transaction
}
