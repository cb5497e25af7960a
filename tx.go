package penstock

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
	"github.com/penstockhq/penstock/store/sqlite"
)

// errNoTx refuses a transaction on a store that has none to share.
var errNoTx = errors.New("this store cannot share a transaction: it takes a client over a SQLite file")

// EnqueueTx is [Client.Enqueue] inside the caller's own transaction on the same
// SQLite file: the job is there if and only if the transaction commits. Open the
// database with database/sql and the driver "sqlite" of modernc.org/sqlite, with
// a busy timeout, and begin the transaction with _txlock=immediate, or enqueue
// before it reads anything. A file that had tables before needs Config.Adopt.
func (c *Client) EnqueueTx(ctx context.Context, tx *sql.Tx, kind string, payload any, opts ...EnqueueOption) (Enqueued, error) {
	j := NewJob{Kind: kind, Payload: payload}
	for _, o := range opts {
		o.applyEnqueue(&j)
	}
	done, err := c.EnqueueManyTx(ctx, tx, []NewJob{j})
	if err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %q: %w", kind, bare(err))
	}
	return done[0], nil
}

// EnqueueManyTx is [Client.EnqueueMany] inside the caller's own transaction. If
// it fails, roll the transaction back.
func (c *Client) EnqueueManyTx(ctx context.Context, tx *sql.Tx, jobs []NewJob) ([]Enqueued, error) {
	if _, ok := c.st.(*sqlite.Store); !ok {
		return nil, errNoTx
	}
	return c.insert(ctx, jobs, "", func(ctx context.Context, rows []store.NewJob) ([]store.Inserted, error) {
		return engine.Insert(sqlite.InTx(ctx, tx, nil), rows)
	})
}

// OnceTx is [Once] for an effect that is written inside the caller's own
// transaction on the same SQLite file: what fn writes with tx and the note that
// it happened commit or roll back together, so the effect is never in doubt. The
// caller commits. Call it before the transaction reads anything, or begin it
// with _txlock=immediate.
func OnceTx[T any](ctx context.Context, tx *sql.Tx, key string, fn func(ctx context.Context) (T, error)) (T, error) {
	var none T
	s := startOf(ctx)
	if s == nil {
		return none, fmt.Errorf("once %q: %w", key, ErrNoJob)
	}
	if _, ok := s.w.st.(*sqlite.Store); !ok {
		return none, fmt.Errorf("once %q: %w", key, errNoTx)
	}
	if key == "" {
		return none, errors.New("once: the effect needs a key")
	}
	rows := sqlite.InTx(ctx, tx, nil)
	effect, err := engine.BeginEffect(rows, key, s.job.ID, s.job.Token, true)
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
	if err := engine.FinishEffect(rows, key, s.job.ID, s.job.Token, kept); err != nil {
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
