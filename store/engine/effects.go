package engine

import (
	"context"

	"github.com/penstockhq/penstock/store"
)

// BeginEffect records that the job's start begins the effect.
func (s *Store) BeginEffect(ctx context.Context, key string, job, token int64, takeOver bool) (e store.Effect, err error) {
	err = s.db.Append(ctx, func(tx Tx) error {
		e, err = BeginEffect(tx, key, job, token, takeOver)
		return err
	})
	return e, err
}

// BeginEffect does it within a transaction, which may be the user's own.
func BeginEffect(tx Tx, key string, job, token int64, takeOver bool) (store.Effect, error) {
	if ok, err := leased(tx, job, token); err != nil || !ok {
		return store.Effect{}, orLost(err)
	}
	row, ok, err := tx.Effect(key)
	if err != nil {
		return store.Effect{}, err
	}
	state := store.EffectNew
	switch {
	case ok && row.Done:
		return store.Effect{State: store.EffectDone, Result: row.Result}, nil
	case ok:
		if row.Job != job || row.Token != token {
			live, err := leased(tx, row.Job, row.Token)
			if err != nil {
				return store.Effect{}, err
			}
			if live {
				return store.Effect{State: store.EffectRunning}, nil
			}
		}
		if state = store.EffectInDoubt; !takeOver {
			return store.Effect{State: state}, nil
		}
	}
	now, err := tx.Now()
	if err != nil {
		return store.Effect{}, err
	}
	return store.Effect{State: state}, tx.SaveEffect(EffectRow{Key: key, Job: job, Token: token, At: now})
}

// FinishEffect records the effect as done.
func (s *Store) FinishEffect(ctx context.Context, key string, job, token int64, result []byte) error {
	return s.db.Append(ctx, func(tx Tx) error { return FinishEffect(tx, key, job, token, result) })
}

// FinishEffect does it within a transaction, which may be the user's own.
func FinishEffect(tx Tx, key string, job, token int64, result []byte) error {
	row, ok, err := tx.Effect(key)
	if err != nil {
		return err
	}
	if ok && row.Done && row.Job == job && row.Token == token {
		return nil // said again, since the answer was lost
	}
	if row, err = begun(tx, key, job, token); err != nil {
		return err
	}
	if row.At, err = tx.Now(); err != nil {
		return err
	}
	row.Done, row.Result = true, result
	return tx.SaveEffect(row)
}

// ClearEffect forgets a begun effect that is known not to have happened.
func (s *Store) ClearEffect(ctx context.Context, key string, job, token int64) error {
	return s.db.Append(ctx, func(tx Tx) error {
		if _, err := begun(tx, key, job, token); err != nil {
			return err
		}
		return tx.DropEffect(key)
	})
}

// begun returns the effect if this very start began it and has not ended it.
// The lease itself need not hold any more: what this start knows of its own
// effect is true all the same, and nobody took the effect over.
func begun(tx Tx, key string, job, token int64) (EffectRow, error) {
	row, ok, err := tx.Effect(key)
	if err != nil {
		return EffectRow{}, err
	}
	if !ok || row.Done || row.Job != job || row.Token != token {
		return EffectRow{}, store.ErrLeaseLost
	}
	return row, nil
}

func leased(tx Tx, job, token int64) (bool, error) {
	j, ok, err := tx.Job(job)
	return ok && j.State == store.Running && j.Token == token, err
}

func orLost(err error) error {
	if err != nil {
		return err
	}
	return store.ErrLeaseLost
}
