package storetest

import (
	"context"

	"github.com/penstockhq/penstock/store/engine"
)

// Hooks are called from within the updates of a hooked DB. Any may be nil. They
// may block, which holds the update at that point.
type Hooks struct {
	Begin     func()       // before the update asks for its transaction
	Locked    func()       // in the transaction, nothing was read yet
	Commit    func() error // all was read and written; an error rolls it back
	Committed func() error // the commit took effect; an error loses the reply
	Tx        func(engine.Tx) engine.Tx
}

// Hook returns db with hooks in its updates. The hooks may be changed while no
// update runs.
func Hook(db engine.DB, h *Hooks) engine.DB { return &hooked{DB: db, h: h} }

type hooked struct {
	engine.DB
	h *Hooks
}

func (d *hooked) Update(ctx context.Context, fn func(engine.Tx) error) error {
	return d.write(ctx, d.DB.Update, fn)
}

func (d *hooked) Append(ctx context.Context, fn func(engine.Tx) error) error {
	return d.write(ctx, d.DB.Append, fn)
}

func (d *hooked) write(ctx context.Context, in func(context.Context, func(engine.Tx) error) error, fn func(engine.Tx) error) error {
	h := *d.h
	if h.Begin != nil {
		h.Begin()
	}
	err := in(ctx, func(tx engine.Tx) error {
		if h.Locked != nil {
			h.Locked()
		}
		if h.Tx != nil {
			tx = h.Tx(tx)
		}
		if err := fn(tx); err != nil {
			return err
		}
		if h.Commit != nil {
			return h.Commit()
		}
		return nil
	})
	if err == nil && h.Committed != nil {
		err = h.Committed()
	}
	return err
}

func (d *hooked) View(ctx context.Context, fn func(engine.Tx) error) error {
	return d.read(ctx, d.DB.View, fn)
}

func (d *hooked) Peek(ctx context.Context, fn func(engine.Tx) error) error {
	return d.read(ctx, d.DB.Peek, fn)
}

func (d *hooked) read(ctx context.Context, in func(context.Context, func(engine.Tx) error) error, fn func(engine.Tx) error) error {
	h := *d.h
	return in(ctx, func(tx engine.Tx) error {
		if h.Tx != nil {
			tx = h.Tx(tx)
		}
		return fn(tx)
	})
}
