package penstock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// errNoTx refuses a transaction on a store that has none to share.
var errNoTx = errors.New("this store cannot share a transaction: it takes a client over a SQLite file or over PostgreSQL")

// A Transaction is one of the caller's own on the database of the client's store:
// a *sql.Tx on a SQLite file; a pgx.Tx or a *sql.Tx (of any driver) on PostgreSQL.
type Transaction any

// EnqueueTx is [Client.Enqueue] inside the caller's own transaction on the same
// database: the job is there if and only if the transaction commits. Workers find
// it within 100 ms of the commit. A transaction on another database is refused:
// [ErrOtherDatabase].
//
// PostgreSQL: this process tells the workers of the commit; if it dies before, they
// find the job within a second. The transaction may be of any isolation level and stay
// open for long; it holds up nobody but those who enqueue the same unique key. Replace
// is refused. SQLSTATE 40001 (a unique key was taken since the transaction's snapshot, in REPEATABLE
// READ and above) and 40P01 (two transactions want each other's keys) mean: roll back and
// run it again.
//
// SQLite: open the file with database/sql and the driver "sqlite" of
// modernc.org/sqlite, with a busy timeout, and begin the transaction with
// _txlock=immediate, or enqueue before it reads anything. A file that had tables
// before needs Config.Adopt.
func (c *Client) EnqueueTx(ctx context.Context, tx Transaction, kind string, payload any, opts ...EnqueueOption) (Enqueued, error) {
	j := NewJob{Kind: kind, Payload: payload}
	for _, o := range opts {
		if o != nil {
			o.applyEnqueue(&j)
		}
	}
	done, err := c.EnqueueManyTx(ctx, tx, []NewJob{j})
	if err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %q: %w", kind, bare(err))
	}
	return done[0], nil
}

// EnqueueManyTx is [Client.EnqueueMany] inside the caller's own transaction. If
// it fails, roll the transaction back.
func (c *Client) EnqueueManyTx(ctx context.Context, tx Transaction, jobs []NewJob) ([]Enqueued, error) {
	host, ok := c.st.(engine.Guest)
	if !ok {
		return nil, errNoTx
	}
	return c.insert(ctx, jobs, "", func(ctx context.Context, rows []store.NewJob) (out []store.Inserted, err error) {
		err = host.Within(ctx, tx, func(t engine.Tx) error {
			out, err = engine.Insert(t, rows)
			return err
		})
		return out, err
	})
}

// OnceTx is [Once] for an effect that is written inside the caller's own
// transaction on the same database: what fn writes with tx and the note that it
// happened commit or roll back together, so the effect is never in doubt. The
// caller commits. On SQLite call it before the transaction reads anything, or
// begin it with _txlock=immediate. On PostgreSQL another start that comes to the
// same effect waits for the transaction's end.
func OnceTx[T any](ctx context.Context, tx Transaction, key string, fn func(ctx context.Context) (T, error)) (T, error) {
	var none T
	s := startOf(ctx)
	if s == nil {
		return none, fmt.Errorf("once %q: %w", key, ErrNoJob)
	}
	host, ok := s.w.st.(engine.Guest)
	if !ok {
		return none, fmt.Errorf("once %q: %w", key, errNoTx)
	}
	if err := checkEffect(key); err != nil {
		return none, err
	}
	var effect store.Effect
	err := host.Within(ctx, tx, func(t engine.Tx) (err error) {
		effect, err = engine.BeginEffect(t, key, s.job.ID, s.job.Token, true)
		return err
	})
	switch {
	case err != nil:
		return none, fmt.Errorf("once %q: %w", key, err)
	case effect.State == store.EffectRunning:
		return none, fmt.Errorf("once %q: another start is running it outside of a transaction", key)
	case effect.State == store.EffectDone:
		return decodeKept[T](key, effect.Result)
	}
	result, err := fn(ctx)
	if err != nil {
		return none, err
	}
	kept, err := json.Marshal(result)
	if err != nil {
		return none, Permanent(fmt.Errorf("once %q: the result cannot be kept as JSON: %w", key, err))
	}
	err = host.Within(ctx, tx, func(t engine.Tx) error {
		return engine.FinishEffect(t, key, s.job.ID, s.job.Token, kept)
	})
	if err != nil {
		return none, fmt.Errorf("once %q: %w", key, err)
	}
	return result, nil
}

// decodeKept reads the result that an earlier run of an effect left.
func decodeKept[T any](key string, kept []byte) (T, error) {
	var v T
	if len(kept) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(kept, &v); err != nil {
		return v, Permanent(fmt.Errorf("once %q: the kept result cannot be decoded into %T: %w", key, v, err))
	}
	return v, nil
}

// bare takes off what says which of several jobs was refused, where there is one.
func bare(err error) error {
	var which *EnqueueError
	if errors.As(err, &which) {
		return which.Err
	}
	return err
}
